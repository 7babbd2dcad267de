// SPDX-License-Identifier: BSD-3-Clause
// What any connection carries out: messages. `End` is this process's end of a connection. It has
//   void send(uint32_t size)      returns when the message is on its way
//   void receive(uint32_t size)   returns when the next message has come
//   void progress()
#pragma once

#include <algorithm>

#include "bench/measure/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/mark.h"
#include "bench/measure/order.h"

namespace bench {

// What carries out orders. Both processes call a function at the same time. Only the one that
// measures gets samples, in us.

// The times of `count` calls of action(), divided by `parts`. Reads the clock once for each call,
// because reading it takes as long as a message in shared memory.
template <typename Action>
Samples timed(uint64_t count, uint64_t parts, Action&& action) {
    Samples samples;
    samples.reserve(count);
    uint64_t begin = now_ns();
    for (uint64_t i = 0; i < count; ++i) {
        action();
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 1000 / static_cast<double>(parts));
        begin = end;
    }
    return samples;
}

// Calls trip() as often as the order says. Half of the duration, because there are two messages.
template <typename Trip>
Samples run_trips(Peer& peer, const Order& order, Trip&& trip) {
    if (peer.measures()) {
        return timed(order.count / order.per_sample, 2 * order.per_sample, [&] {
            for (uint64_t i = 0; i < order.per_sample; ++i) trip();
        });
    }
    for (uint64_t i = order.trips(); i > 0; --i) trip();
    return {};
}

// Streams of writes at full speed: the time between two of them, without the first ones. A sample
// has at least three windows.
Samples message_spacings(Link& link, const Order& order);

// The memory of messages in both directions: half of it for those that go, half for those that
// come. A word behind them has the number of the last one that came, if nothing else tells.
constexpr size_t kSignalAt = 2 * kLongest;
constexpr size_t kBothWays = kSignalAt + 4096;

// The numbers of the messages of both directions, which messages carry.
struct Numbers {
    // Call before the messages of an order.
    void begin(const Order& order, bool are_marked) {
        places = order.places();
        marks = are_marked;
    }
    // Where the next message is in the memory of both directions.
    size_t outgoing(uint32_t size) const { return place_of(sent, size, places, kLongest); }
    size_t incoming(uint32_t size) const {
        return kLongest + place_of(taken, size, places, kLongest);
    }
    // The next message that goes, or comes.
    void give(char* message, uint32_t size) {
        if (marks) mark(message, size, sent);
        ++sent;
    }
    void take(const char* message, uint32_t size) {
        if (marks && !is_marked(message, size, taken)) ++wrong;
        ++taken;
    }
    void check() const {
        if (wrong != 0) throw Failure("messages came out of order or were damaged");
    }

    bool marks = true;
    uint32_t places = 0;
    uint64_t sent = 0;
    uint64_t taken = 0;
    uint64_t wrong = 0;
};

// Waits until the peer has called this process, and progresses the transport meanwhile.
template <typename End>
void await_in_progress(Peer& peer, End& end) {
    const auto is_called = [&] { return peer.channel().has_message(); };
    wait_until("the peer process", is_called, [&] {
        for (int i = 0; i < 16; ++i) end.progress();
    });
    peer.channel().take<char>();
}
// Waits until the peer calls it, too.
template <typename End>
void meet_in_progress(Peer& peer, End& end) {
    peer.channel().put('.');
    await_in_progress(peer, end);
}

// Sends bursts of messages to the answering worker, which answers a burst with one message after
// receiving all of it. The time therefore includes the arrival.
template <typename End>
Samples stream(Peer& peer, End& end, const Order& order) {
    const uint64_t bursts = order.count / order.per_sample;
    if (peer.measures()) {
        return timed(bursts, order.per_sample, [&] {
            for (uint64_t i = 0; i < order.per_sample; ++i) end.send(order.size);
            end.receive(kWord);
        });
    }
    for (uint64_t burst = 0; burst < bursts; ++burst) {
        for (uint64_t i = 0; i < order.per_sample; ++i) end.receive(order.size);
        end.send(kWord);
    }
    return {};
}

// Carries out an order for messages.
template <typename End>
Samples run_messages(Peer& peer, End& end, const Order& order) {
    meet_in_progress(peer, end);
    if (order.kind == Order::Kind::kStream) return stream(peer, end, order);
    // The process that measures sends first.
    if (peer.measures()) {
        return run_trips(peer, order, [&] {
            end.send(order.size);
            end.receive(order.size);
        });
    }
    return run_trips(peer, order, [&] {
        end.receive(order.size);
        end.send(order.size);
    });
}

}  // namespace bench
