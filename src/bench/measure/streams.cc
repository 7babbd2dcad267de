// SPDX-License-Identifier: BSD-3-Clause
// Streams: of requests, of process_vm calls, and of RDMA writes that the receiver reads, which are
// the least that a transport over a ring needs.
#include <sys/uio.h>

#include <cstring>
#include <vector>

#include "bench/measure/exchange.h"

namespace bench {
namespace {

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

// Samples of the spacing of a burst, which send(pace) sends; receive() takes it.
template <typename Send, typename Receive>
Samples spacings(Peer& peer, const Order& order, Send&& send, Receive&& receive) {
    Samples samples;
    for (uint64_t i = 0; i < order.count; ++i) {
        peer.meet();
        if (peer.measures()) {
            Pace pace(order.window);
            send(pace);
            samples.push_back(pace.spacing());
        } else {
            receive();
        }
        peer.meet();
    }
    return samples;
}

constexpr uint64_t kRing = 32 << 10;
constexpr uint64_t kPollsPerReap = 32;  // a device may need calls to make progress

// The places of the messages in the ring; each ends with its number.
class Ring {
  public:
    explicit Ring(uint32_t size)
        : stride_((size + kWord - 1) / kWord * kWord), places_(kRing / stride_) {}
    uint64_t offset(uint64_t number) const { return number % places_ * stride_; }
    char* word(char* memory, uint64_t number) const {
        return memory + offset(number) + stride_ - kWord;
    }
    uint32_t stride() const { return static_cast<uint32_t>(stride_); }
    uint64_t half() const { return places_ / 2; }

  private:
    const uint64_t stride_;
    const uint64_t places_;
};

// Waits until the receiver has taken the messages before the last half of the ring. *taken is what
// it has reported so far.
void wait_for_room(Link& link, const Ring& ring, uint64_t number, uint64_t* taken) {
    const auto has_room = [&] {
        if (number - *taken <= 2 * ring.half()) return true;
        const uint64_t reported = word_at(link.in()).load(std::memory_order_acquire);
        if (reported > *taken && reported < number) *taken = reported;
        return number - *taken <= 2 * ring.half();
    };
    wait_until("room in the ring", has_room, [&] { link.reap(); });
}

Samples send_all(Link& link, const Ring& ring, const Order& order) {
    uint64_t number = link.sequence;
    uint64_t taken = number;
    const std::vector<char> message(order.copied ? order.size : 0);
    return burst_times(link, order, [&](uint64_t, bool last) {
        wait_for_room(link, ring, ++number, &taken);
        memcpy(link.out() + ring.offset(number), message.data(), message.size());
        word_at(ring.word(link.out(), number)).store(number, std::memory_order_relaxed);
        link.post(IBV_WR_RDMA_WRITE, ring.offset(number), ring.stride(), last);
    });
}

void take_all(Link& link, const Ring& ring, uint64_t end) {
    uint64_t polls = 0;
    for (uint64_t number = link.sequence + 1; number <= end; ++number) {
        wait_for_word(ring.word(link.in(), number), number, [&] {
            if (++polls % kPollsPerReap == 0) link.reap();
        });
        if (number % ring.half() == 0 || number == end) {
            word_at(link.out()).store(number, std::memory_order_relaxed);
            link.post(IBV_WR_RDMA_WRITE, 0, kWord);
        }
    }
    link.reap_until(0);
}

}  // namespace

Samples message_spacings(Peer& peer, Link& link, const Order& order) {
    const bool sends = order.request == Order::Request::kSend;
    const ibv_wr_opcode opcode = sends                                    ? IBV_WR_SEND
                                 : order.request == Order::Request::kRead ? IBV_WR_RDMA_READ
                                                                          : IBV_WR_RDMA_WRITE;
    // Those of a burst are posted before it begins.
    const bool receives = sends && !peer.measures();
    Receives incoming(link, order.size, receives ? order.count * order.per_sample : 0);
    uint64_t bursts = 0;
    const auto send = [&](Pace& pace) {
        const auto reap_until = [&](uint32_t outstanding) {
            wait_until(
                "completions", [&] { return link.outstanding() <= outstanding; },
                [&] { pace.done(link.reap()); });
        };
        for (uint64_t i = 0; i < order.per_sample; ++i) {
            reap_until(order.window - 1);
            link.post(opcode, place_of(i, order.size, order.window, link.half()), order.size);
        }
        reap_until(0);
    };
    return spacings(peer, order, send, [&] {
        if (!receives) return;
        incoming.wait_for(++bursts * order.per_sample);
        incoming.refill();
    });
}

void copy_across(Peer& peer, void* here, uint64_t there, size_t size, bool reads) {
    iovec mine{here, size};
    iovec theirs{reinterpret_cast<void*>(there), size};
    const ssize_t moved =
        (reads ? ::process_vm_readv : ::process_vm_writev)(peer.pid(), &mine, 1, &theirs, 1, 0);
    if (moved != static_cast<ssize_t>(size)) throw call_failed("process_vm");
}

Samples copy_spacings(Peer& peer, Link& link, const Order& order) {
    const bool reads = order.request == Order::Request::kRead;
    const auto copy = [&](uint64_t i) {
        const uint64_t place = place_of(i, order.size, order.window, link.half());
        copy_across(peer, (reads ? link.in() : link.out()) + place,
                    (reads ? link.remote_out() : link.remote_in()) + place, order.size, reads);
    };
    const auto send = [&](Pace& pace) {
        for (uint64_t i = 0; i < order.per_sample; ++i) {
            copy(i);
            pace.done(1);
        }
    };
    return spacings(peer, order, send, [] {});
}

Samples ring_times(Peer& peer, Link& link, const Order& order) {
    const Ring ring(order.size);
    const uint64_t end = link.sequence + order.trips();
    peer.meet();
    Samples samples;
    if (peer.measures()) {
        samples = send_all(link, ring, order);
    } else {
        take_all(link, ring, end);
    }
    link.sequence = end;
    peer.meet();
    return samples;
}

}  // namespace bench
