// SPDX-License-Identifier: BSD-3-Clause
// Orders carried out over a link, or beside it. Both processes call these at the same time; only
// the one that measures gets samples, in us.
#pragma once

#include "bench/measure/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/order.h"
#include "bench/measure/statistics.h"

namespace bench {

// Runs trip() as often as is ordered and notes half of what each takes. Looking at the clock takes
// as long as a message in shared memory, so it is done once a sample.
template <typename Trip>
Samples time_trips(const Order& order, Trip&& trip) {
    Samples samples;
    samples.reserve(order.count / order.per_sample);
    uint64_t begin = now_ns();
    for (uint64_t i = 0; i < order.count / order.per_sample; ++i) {
        for (uint64_t j = 0; j < order.per_sample; ++j) trip();
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 2000 /
                          static_cast<double>(order.per_sample));
        begin = end;
    }
    return samples;
}

// A message there and one back, again and again.
template <typename Send, typename Receive>
Samples round_trips(Peer& peer, const Order& order, Send&& send, Receive&& receive) {
    if (peer.measures()) {
        return time_trips(order, [&] {
            send();
            receive();
        });
    }
    for (uint64_t i = order.trips(); i > 0; --i) {
        receive();
        send();
    }
    return {};
}

// What action() takes, so many times.
template <typename Action>
Samples timed(uint64_t count, Action&& action) {
    Samples samples;
    for (uint64_t i = 0; i < count; ++i) {
        const uint64_t begin = now_ns();
        action();
        samples.push_back(us_since(begin));
    }
    return samples;
}

// Half round trips of RDMA writes, of a multiple of 8 bytes; the last 8 tell that they are there.
Samples write_trips(Peer& peer, Link& link, const Order& order);
// Of sends, found by polling the completion queue.
Samples send_trips(Peer& peer, Link& link, const Order& order);
// Of 8 bytes by process_vm_writev in place of the HCA.
Samples copy_trips(Peer& peer, Link& link, const Order& order);
// Of 8 bytes stored to the other process's in(), mapped here at `there`.
Samples store_trips(Peer& peer, Link& link, char* there, const Order& order);

// How long one process_vm_writev of 8 bytes takes, while the other process looks at the word.
Samples copy_calls(Peer& peer, Link& link, const Order& order);

// From the post of a write to when its first `bytes` are seen by a process that follows the write
// page by page, and polls its completion queue meanwhile. The one that measures is written to.
Samples piece_times(Peer& peer, Link& link, const Order& order);

// Messages behind one another, as fast as they go: from one to the next, without the first ones. At
// most Link::kDepth a sample, so that a receiver that falls behind does not slow a sender down, and
// at least three windows.
Samples message_spacings(Peer& peer, Link& link, const Order& order);
// The same between process_vm_writev (for a read: process_vm_readv) calls for the same bytes.
Samples copy_spacings(Peer& peer, Link& link, const Order& order);

}  // namespace bench
