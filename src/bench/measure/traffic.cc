// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/traffic.h"

#include <sys/uio.h>

#include "bench/measure/one_sided.h"

namespace bench {
namespace {

constexpr uint32_t kPage = 4096;

void idle() {}

// Round trips of messages. Each message ends with its number. send(number) transfers a message to
// the peer's in().
template <typename Send, typename Idle>
Samples ping_pong(Peer& peer, Link& link, const Order& order, Send&& send, Idle&& idle) {
    Tail end(link.in(), order.size);
    uint64_t sent = link.sequence;
    end.store(sent);
    peer.meet();
    return round_trips(
        peer, order, [&] { send(++sent); }, [&] { wait_for_end(end, ++link.sequence, idle); });
}

void copy_word(Peer& peer, Link& link, uint64_t value) {
    iovec mine{&value, kWord};
    iovec theirs{reinterpret_cast<void*>(link.remote_in()), kWord};
    if (::process_vm_writev(peer.pid(), &mine, 1, &theirs, 1, 0) != kWord) {
        throw call_failed("process_vm_writev");
    }
}

// Records when messages are done, several at a time. The first ones are left out, because they
// complete unpolled while the first window is posted.
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
        return static_cast<double>(last_ - first_) / 1000 / static_cast<double>(all_ - before_);
    }

  private:
    const uint64_t left_out_;
    uint64_t all_ = 0;
    uint64_t before_ = 0;
    uint64_t first_ = 0;
    uint64_t last_ = 0;
};

// One sample of message_spacings().
double stream(Link& link, const Order& order, ibv_wr_opcode opcode) {
    Pace pace(order.window);
    const auto reap_until = [&](uint32_t outstanding) {
        Patience patience("completions");
        while (link.outstanding() > outstanding) {
            const int got = link.reap();
            if (got == 0) patience.spend();
            pace.done(got);
        }
    };
    for (uint64_t i = 0; i < order.per_sample; ++i) {
        reap_until(order.window - 1);
        link.post(opcode, place_of(i, order.size, order.window, link.half()), order.size);
    }
    reap_until(0);
    return pace.spacing();
}

struct LinkEnd {
    char* out() { return link.out(); }
    char* in() { return link.in(); }
    size_t half() const { return link.half(); }
    void meet() { peer.meet(); }
    void begin(uint64_t offset, uint32_t size, bool last) { link.post(opcode, offset, size, last); }
    void flush() { link.reap_until(0); }

    Peer& peer;
    Link& link;
    ibv_wr_opcode opcode;
};

}  // namespace

Samples write_trips(Peer& peer, Link& link, const Order& order) {
    const auto send = [&](uint64_t value) {
        Tail(link.out(), order.size).store(value);
        link.post(IBV_WR_RDMA_WRITE, 0, order.size);
    };
    Samples samples =
        with_idle(link, order, [&](auto idle) { return ping_pong(peer, link, order, send, idle); });
    link.reap_until(0);
    return samples;
}

// A message may be on its way while the one before is looked at: they have places of their own.
Samples write_exchanges(Peer& peer, Link& link, const Order& order) {
    for (const uint64_t place : {uint64_t{0}, uint64_t{order.size}})
        Tail(link.in() + place, order.size).store(link.sequence);
    peer.meet();
    Samples samples = with_idle(link, order, [&](auto idle) {
        return exchanges(peer, order, [&] {
            const uint64_t number = ++link.sequence;
            const uint64_t place = number % 2 * order.size;
            Tail(link.out() + place, order.size).store(number);
            link.post(IBV_WR_RDMA_WRITE, place, order.size);
            wait_for_end({link.in() + place, order.size}, number, idle);
        });
    });
    link.reap_until(0);
    return samples;
}

Samples send_trips(Peer& peer, Link& link, const Order& order) {
    Receives receives(link, order.size, order.trips());
    uint64_t taken = 0;
    peer.meet();
    Samples samples = round_trips(
        peer, order,
        [&] {
            link.post(IBV_WR_SEND, 0, order.size);
            receives.refill();
            link.reap();
        },
        [&] { receives.wait_for(++taken); });
    link.reap_until(0);
    return samples;
}

Samples copy_trips(Peer& peer, Link& link, const Order& order) {
    return ping_pong(
        peer, link, order, [&](uint64_t value) { copy_word(peer, link, value); }, idle);
}

Samples store_trips(Peer& peer, Link& link, char* there, const Order& order) {
    const auto send = [&](uint64_t value) {
        word_at(there).store(value, std::memory_order_release);
    };
    return ping_pong(peer, link, order, send, idle);
}

Samples copy_calls(Peer& peer, Link& link, const Order& order) {
    peer.meet();
    if (peer.measures()) {
        return timed(order.count, [&] { copy_word(peer, link, ++link.sequence); });
    }
    link.sequence += order.count;
    wait_for_word(link.in(), link.sequence, idle);
    return {};
}

Samples piece_times(Peer& peer, Link& link, const Order& order) {
    Samples samples;
    const auto reap = [&] { link.reap(); };
    peer.meet();
    for (uint64_t i = 0; i < order.count; ++i) {
        ++link.sequence;
        if (peer.measures()) {
            // Requests a write from the peer. The first word of the write holds its time of
            // posting.
            word_at(link.out()).store(link.sequence, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
            for (uint32_t end = kPage; end <= order.size; end += kPage) {
                wait_for_word(link.in() + end - kWord, link.sequence, reap);
                if (end != order.bytes) continue;
                samples.push_back(us_since(word_at(link.in()).load(std::memory_order_relaxed)));
            }
        } else {
            wait_for_word(link.in(), link.sequence, reap);
            for (uint32_t end = kPage; end <= order.size; end += kPage) {
                word_at(link.out() + end - kWord).store(link.sequence, std::memory_order_relaxed);
            }
            word_at(link.out()).store(now_ns(), std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, order.size);
        }
        link.reap_until(0);
    }
    peer.meet();
    return samples;
}

Samples message_spacings(Peer& peer, Link& link, const Order& order) {
    const bool sends = order.request == Order::Request::kSend;
    const ibv_wr_opcode opcode = sends                                    ? IBV_WR_SEND
                                 : order.request == Order::Request::kRead ? IBV_WR_RDMA_READ
                                                                          : IBV_WR_RDMA_WRITE;
    Samples samples;
    for (uint64_t i = 0; i < order.count; ++i) {
        Receives incoming(link, order.size, sends && !peer.measures() ? order.per_sample : 0);
        peer.meet();
        if (peer.measures()) samples.push_back(stream(link, order, opcode));
        Patience patience("messages");
        while (!incoming.all_taken()) {
            if (incoming.take() == 0) patience.spend();
            incoming.refill();
        }
        peer.meet();
    }
    return samples;
}

Samples copy_spacings(Peer& peer, Link& link, const Order& order) {
    const bool reads = order.request == Order::Request::kRead;
    const auto copy = [&](uint64_t i) {
        const uint64_t place = place_of(i, order.size, order.window, link.half());
        iovec mine{(reads ? link.in() : link.out()) + place, order.size};
        const uint64_t there = (reads ? link.remote_out() : link.remote_in()) + place;
        iovec theirs{reinterpret_cast<void*>(there), order.size};
        const ssize_t moved = reads ? ::process_vm_readv(peer.pid(), &mine, 1, &theirs, 1, 0)
                                    : ::process_vm_writev(peer.pid(), &mine, 1, &theirs, 1, 0);
        if (moved != static_cast<ssize_t>(order.size)) throw call_failed("process_vm");
    };
    Samples samples;
    for (uint64_t i = 0; i < order.count; ++i) {
        peer.meet();
        if (peer.measures()) {
            Pace pace(order.window);
            for (uint64_t j = 0; j < order.per_sample; ++j) {
                copy(j);
                pace.done(1);
            }
            samples.push_back(pace.spacing());
        }
        peer.meet();
    }
    return samples;
}

Samples one_sided_times(Peer& peer, Link& link, const Order& order) {
    LinkEnd end{peer, link,
                order.request == Order::Request::kRead ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE};
    return one_sided(peer, end, order, ++link.sequence);
}

}  // namespace bench
