// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/traffic.h"

#include <sys/uio.h>

#include <atomic>

namespace bench {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kWord = sizeof(uint64_t);

std::atomic_ref<uint64_t> word_at(char* memory) {
    return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(memory));
}

template <typename Idle>
void wait_for_word(char* memory, uint64_t value, Idle&& idle) {
    Patience patience("a word in memory");
    while (word_at(memory).load(std::memory_order_acquire) != value) {
        idle();
        patience.spend();
    }
}

void idle() {}

// A word that counts goes back and forth behind what else a message holds: send(value) brings it
// to the end of the message in the peer's in().
template <typename Send, typename Idle>
Samples ping_pong(Peer& peer, Link& link, const Trips& trips, Send&& send, Idle&& idle) {
    char* const last = link.in() + trips.size - kWord;
    peer.meet();
    if (peer.measures()) {
        return time_trips(trips, [&] {
            send(++link.sequence);
            wait_for_word(last, link.sequence, idle);
        });
    }
    for (uint64_t i = 0; i < trips.count; ++i) {
        wait_for_word(last, ++link.sequence, idle);
        send(link.sequence);
    }
    return {};
}

void copy_word(Peer& peer, Link& link, uint64_t value) {
    iovec mine{&value, kWord};
    iovec theirs{reinterpret_cast<void*>(link.remote_in()), kWord};
    if (::process_vm_writev(peer.pid(), &mine, 1, &theirs, 1, 0) != kWord) {
        throw call_failed("process_vm_writev");
    }
}

// Notes when messages were done, some at a time. The first ones are left out: they are only looked
// at when all that may be under way has been posted.
class Pace {
  public:
    explicit Pace(uint64_t left_out) : left_out_(left_out) {}
    void done(int messages) {
        if (messages == 0) return;
        all_ += static_cast<uint64_t>(messages);
        last_ = now_ns();
        if (all_ > left_out_ && first_ == 0) {
            first_ = last_;
            before_ = all_;
        }
    }
    double spacing() const {
        return static_cast<double>(last_ - first_) / static_cast<double>(all_ - before_);
    }

  private:
    const uint64_t left_out_;
    uint64_t all_ = 0;
    uint64_t before_ = 0;
    uint64_t first_ = 0;
    uint64_t last_ = 0;
};

double run(Link& link, const Stream& stream) {
    Pace pace(stream.window);
    for (uint64_t i = 0; i < stream.count; ++i) {
        Patience patience("a completion");
        while (link.outstanding() >= stream.window) {
            const int got = link.reap();
            if (got == 0) patience.spend();
            pace.done(got);
        }
        link.post(stream.opcode, place_of(i, stream.size, stream.window, link.half()), stream.size);
    }
    Patience patience("the last completions");
    while (link.outstanding() != 0) {
        const int got = link.reap();
        if (got == 0) patience.spend();
        pace.done(got);
    }
    return pace.spacing();
}

}  // namespace

Samples write_latency(Peer& peer, Link& link, const Trips& trips, Waiting waiting) {
    const auto send = [&](uint64_t value) {
        word_at(link.out() + trips.size - kWord).store(value, std::memory_order_relaxed);
        link.post(IBV_WR_RDMA_WRITE, 0, trips.size);
    };
    const auto reap = [&] {
        if (link.outstanding() != 0) link.reap();
    };
    Samples samples;
    if (waiting == Waiting::polls_memory) {
        samples = ping_pong(peer, link, trips, send, idle);
    } else {
        samples = ping_pong(peer, link, trips, send, reap);
    }
    link.reap_until(0);
    return samples;
}

Samples send_latency(Peer& peer, Link& link, const Trips& trips) {
    Receives receives(link, trips.size, trips.count);
    peer.meet();
    const auto send = [&] {
        link.post(IBV_WR_SEND, 0, trips.size);
        receives.refill();
        link.reap();
    };
    Samples samples;
    if (peer.measures()) {
        uint64_t taken = 0;
        samples = time_trips(trips, [&] {
            send();
            receives.wait_for(++taken);
        });
    } else {
        for (uint64_t i = 0; i < trips.count; ++i) {
            receives.wait_for(i + 1);
            send();
        }
    }
    link.reap_until(0);
    return samples;
}

Samples copy_latency(Peer& peer, Link& link, uint64_t round_trips) {
    return ping_pong(
        peer, link, round_trips, [&](uint64_t value) { copy_word(peer, link, value); }, idle);
}

Samples store_latency(Peer& peer, Link& link, char* there, uint64_t round_trips) {
    const auto send = [&](uint64_t value) {
        word_at(there).store(value, std::memory_order_release);
    };
    return ping_pong(peer, link, round_trips, send, idle);
}

Samples copy_calls(Peer& peer, Link& link, uint64_t calls) {
    peer.meet();
    const uint64_t last = link.sequence + calls;
    if (!peer.measures()) {
        link.sequence = last;
        wait_for_word(link.in(), last, idle);
        return {};
    }
    Samples samples;
    samples.reserve(calls);
    uint64_t begin = now_ns();
    while (link.sequence != last) {
        copy_word(peer, link, ++link.sequence);
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 1000);
        begin = end;
    }
    return samples;
}

Samples arrival_times(Peer& peer, Link& link, const Arrival& arrival) {
    Samples samples;
    const auto reap = [&] { link.reap(); };
    peer.meet();
    for (uint64_t i = 0; i < arrival.writes; ++i) {
        ++link.sequence;
        if (peer.measures()) {
            // Asks for a write; the first word of it says when it was posted.
            word_at(link.out()).store(link.sequence, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
            for (uint32_t end = kPage; end <= arrival.size; end += kPage) {
                wait_for_word(link.in() + end - kWord, link.sequence, reap);
                if (end != arrival.bytes) continue;
                const uint64_t posted = word_at(link.in()).load(std::memory_order_relaxed);
                samples.push_back(us_since(posted));
            }
        } else {
            wait_for_word(link.in(), link.sequence, reap);
            for (uint32_t end = kPage; end <= arrival.size; end += kPage) {
                word_at(link.out() + end - kWord).store(link.sequence, std::memory_order_relaxed);
            }
            word_at(link.out()).store(now_ns(), std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, arrival.size);
        }
        link.reap_until(0);
    }
    peer.meet();
    return samples;
}

double message_spacing(Peer& peer, Link& link, const Stream& stream) {
    const bool receives = !peer.measures() && stream.opcode == IBV_WR_SEND;
    Receives incoming(link, stream.size, receives ? stream.count : 0);
    peer.meet();
    const double spacing = peer.measures() ? run(link, stream) : 0;
    Patience patience("messages");
    while (!incoming.all_taken()) {
        if (incoming.take() == 0) patience.spend();
        incoming.refill();
    }
    peer.meet();
    return spacing;
}

double copy_spacing(Peer& peer, Link& link, const Stream& stream) {
    peer.meet();
    Pace pace(stream.window);
    const bool reads = stream.opcode == IBV_WR_RDMA_READ;
    for (uint64_t i = 0; peer.measures() && i < stream.count; ++i) {
        const uint64_t place = place_of(i, stream.size, stream.window, link.half());
        iovec mine{(reads ? link.in() : link.out()) + place, stream.size};
        const uint64_t there = (reads ? link.remote_out() : link.remote_in()) + place;
        iovec theirs{reinterpret_cast<void*>(there), stream.size};
        const ssize_t moved = reads ? ::process_vm_readv(peer.pid(), &mine, 1, &theirs, 1, 0)
                                    : ::process_vm_writev(peer.pid(), &mine, 1, &theirs, 1, 0);
        if (moved != static_cast<ssize_t>(stream.size)) throw call_failed("process_vm");
        pace.done(1);
    }
    peer.meet();
    return peer.measures() ? pace.spacing() : 0;
}

}  // namespace bench
