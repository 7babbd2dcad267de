// SPDX-License-Identifier: BSD-3-Clause
// Message exchanges over any connection. `End` has
//   void send(uint32_t size)      returns when the message is on its way
//   void receive(uint32_t size)   returns when the next message has come
//   void progress()
//   void exchange(uint32_t size)  for both_ways(): sends a message and receives one
#pragma once

#include <algorithm>

#include "bench/measure/machine.h"
#include "bench/measure/order.h"
#include "bench/measure/traffic.h"

namespace bench {

// Waits until the peer has called this process, and progresses the transport meanwhile.
template <typename End>
void await_in_progress(Peer& peer, End& end) {
    Patience patience("the peer process");
    while (!peer.channel().has_message()) {
        for (int i = 0; i < 16; ++i) end.progress();
        patience.spend();
    }
    peer.channel().take<char>();
}
// Waits until the peer calls it, too.
template <typename End>
void meet_in_progress(Peer& peer, End& end) {
    peer.channel().put('.');
    await_in_progress(peer, end);
}

template <typename End>
Samples ping_pong(Peer& peer, End& end, const Order& order) {
    meet_in_progress(peer, end);
    return round_trips(
        peer, order, [&] { end.send(order.size); }, [&] { end.receive(order.size); });
}

template <typename End>
Samples both_ways(Peer& peer, End& end, const Order& order) {
    meet_in_progress(peer, end);
    return exchanges(peer, order, [&] { end.exchange(order.size); });
}

// Sends bursts of messages to the answering worker, which answers a burst with one message after
// receiving all of it. The time therefore includes the arrival.
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

// Nonblocking messages and work, as in the Sandia MPI micro-benchmarks: post, work, wait. One
// process works, the other one only takes part. For these, `End` also has
//   Operation begin_send(size), begin_receive(size); void complete(operation)
//   bool has_arrived(operation)   without calling the transport
//   void say_go(), wait_for_go()

// The part of the worker that does not compute. Both sides rely on this: the receive of a message
// is posted before the message is sent.
template <typename End>
void take_part(Peer& peer, End& end, const Order& order) {
    for (uint64_t i = 0; i < order.count; ++i) {
        if (order.sender) {
            const auto operation = end.begin_receive(order.size);
            end.say_go();
            end.complete(operation);
            if (order.kind == Order::Kind::kArrivals) peer.channel().put('.');
        } else {
            end.wait_for_go();
            end.send(order.size);
        }
        end.wait_for_go();
    }
}

// Posts one message, calls work(), and waits for the message. Returns the time in ns.
template <typename End, typename Work>
uint64_t one_overlapped(End& end, const Order& order, Work&& work) {
    if (order.sender) end.wait_for_go();
    const uint64_t begin = now_ns();
    const auto operation =
        order.sender ? end.begin_send(order.size) : end.begin_receive(order.size);
    if (!order.sender) end.say_go();
    work(operation);
    end.complete(operation);
    const uint64_t time = now_ns() - begin;
    end.say_go();
    return time;
}

// kArrivals has one sample: the percentage of messages that had arrived before the worker called
// the transport again. For the other orders, the work lasts longer than the message. kOverhead: the
// worker's time besides the work, in us. kAvailability: 1 - overhead / time without work.
template <typename End>
Samples overlapped(Peer& peer, End& end, const Order& order) {
    meet_in_progress(peer, end);
    if (!peer.measures()) {
        take_part(peer, end, order);
        return {};
    }
    if (order.kind == Order::Kind::kArrivals) {
        constexpr uint64_t kLongNs = 20'000'000;
        uint64_t there = 0;
        for (uint64_t i = 0; i < order.count; ++i) {
            bool arrived = false;
            one_overlapped(end, order, [&](const auto& operation) {
                const uint64_t last = now_ns() + kLongNs;
                while (!arrived && now_ns() < last)
                    arrived =
                        order.sender ? peer.channel().has_message() : end.has_arrived(operation);
            });
            if (order.sender) peer.channel().take<char>();
            there += arrived;
        }
        return {100 * static_cast<double>(there) / static_cast<double>(order.count)};
    }
    Samples samples;
    Samples idle;
    for (uint64_t i = 0; i < order.count / 2; ++i)
        idle.push_back(static_cast<double>(one_overlapped(end, order, [](const auto&) {})));
    const double base = median(idle);
    const Work work(std::max(2 * base, base + 20e3));
    for (uint64_t i = order.count / 2; i < order.count; ++i) {
        const auto time =
            static_cast<double>(one_overlapped(end, order, [&](const auto&) { work(); }));
        const double overhead = std::max(0.0, time - work.ns());
        samples.push_back(order.kind == Order::Kind::kOverhead ? overhead / 1000
                                                               : 1 - overhead / base);
    }
    return samples;
}

}  // namespace bench
