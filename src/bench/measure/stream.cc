// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/stream.h"

#include <sys/uio.h>

#include "bench/measure/receives.h"

namespace bench {
namespace {

/// Notes when messages were done, some at a time. The first ones are left out: they are only looked
/// at when all that may be under way has been posted.
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
