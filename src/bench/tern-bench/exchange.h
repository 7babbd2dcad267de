// SPDX-License-Identifier: BSD-3-Clause
// Message exchanges over any connection. `End` has
//   void send(uint32_t size)      returns when the message is on its way
//   void receive(uint32_t size)   returns when the next message has come
//   void progress()
#pragma once

#include "bench/measure/clock.h"
#include "bench/measure/peer.h"
#include "bench/measure/trips.h"
#include "bench/tern-bench/arm.h"

namespace bench {

// Waits until the peer has come here too, without leaving it alone with what needs progress.
template <typename End>
void meet_in_progress(Peer& peer, End& end) {
    const char mark = '.';
    peer.send(&mark, sizeof mark);
    Patience patience("the peer process");
    while (!peer.has_message()) {
        for (int i = 0; i < 16; ++i) end.progress();
        patience.spend();
    }
    char theirs;
    peer.receive(&theirs, sizeof theirs);
}

template <typename End>
Samples ping_pong(Peer& peer, End& end, const Trips& trips) {
    meet_in_progress(peer, end);
    if (peer.measures()) {
        return time_trips(trips, [&] {
            end.send(trips.size);
            end.receive(trips.size);
        });
    }
    for (uint64_t i = 0; i < trips.count; ++i) {
        end.receive(trips.size);
        end.send(trips.size);
    }
    return {};
}

// Bursts of messages to the worker that answers, which answers each burst with one message once it
// has all of it: what is measured is the rate at which they arrive.
template <typename End>
Samples stream(Peer& peer, End& end, const Order& order) {
    Samples samples;
    meet_in_progress(peer, end);
    for (uint64_t burst = 0; burst < order.count / order.per_sample; ++burst) {
        if (peer.measures()) {
            const uint64_t begin = now_ns();
            for (uint64_t i = 0; i < order.per_sample; ++i) end.send(order.size);
            end.receive(8);
            const auto ns = static_cast<double>(now_ns() - begin);
            samples.push_back(ns / 1000 / static_cast<double>(order.per_sample));
        } else {
            for (uint64_t i = 0; i < order.per_sample; ++i) end.receive(order.size);
            end.send(8);
        }
    }
    return samples;
}

}  // namespace bench
