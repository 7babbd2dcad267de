// SPDX-License-Identifier: BSD-3-Clause
// Streams of requests, and of process_vm calls.
#include <sys/uio.h>

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

}  // namespace bench
