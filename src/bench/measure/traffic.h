// SPDX-License-Identifier: BSD-3-Clause
// What carries out orders. Both processes call a function at the same time. Only the one that
// measures gets samples, in us.
#pragma once

#include "bench/measure/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/mark.h"
#include "bench/measure/order.h"
#include "bench/measure/statistics.h"

namespace bench {

// Waits for the end of a message to have its number; calls idle() in between.
template <typename Idle>
void wait_for_end(Tail end, uint64_t number, Idle&& idle) {
    Patience patience("a word in memory");
    while (!end.has(number)) {
        idle();
        patience.spend();
    }
}
template <typename Idle>
void wait_for_word(char* memory, uint64_t value, Idle&& idle) {
    wait_for_end({memory, kWord}, value, idle);
}

// Calls trip() as often as the order says and records half of its duration. Reads the clock once
// for each sample, because reading it takes as long as a message in shared memory.
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

// Round trips. The process that measures sends first.
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

// Exchanges: each process sends a message and waits for the other's. Half of the duration, as of
// round trips: there are two messages.
template <typename Exchange>
Samples exchanges(Peer& peer, const Order& order, Exchange&& exchange) {
    if (peer.measures()) return time_trips(order, exchange);
    for (uint64_t i = order.trips(); i > 0; --i) exchange();
    return {};
}

// The times of `count` calls of action().
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

// The time of one message of a stream, sent in bursts of order.per_sample messages, each of which
// ends when all its requests are done. send(i, last) posts the i-th message of a burst, from 1 on.
template <typename Send>
Samples burst_times(Link& link, const Order& order, Send&& send) {
    Samples samples = timed(order.count / order.per_sample, [&] {
        for (uint64_t i = 1; i <= order.per_sample; ++i) {
            send(i, i == order.per_sample);
            if (order.reaps) link.reap();
        }
        link.reap_until(0);
    });
    for (double& sample : samples) sample /= static_cast<double>(order.per_sample);
    return samples;
}

// A stream of messages at full speed: the time between two messages, without the first ones. A
// sample has at most Link::kDepth messages, so that a slow receiver does not slow down the sender,
// and at least three windows.
Samples message_spacings(Peer& peer, Link& link, const Order& order);
// Like message_spacings(), for process_vm_writev calls, or process_vm_readv calls for reads.
Samples copy_spacings(Peer& peer, Link& link, const Order& order);
// The time between two writes of a stream into a ring of 32 KiB. The receiver waits for each write
// in memory, and reports by a write of a word when it has taken half of the ring.
Samples ring_times(Peer& peer, Link& link, const Order& order);

}  // namespace bench
