// SPDX-License-Identifier: BSD-3-Clause
// One-sided requests over any connection. `End` has
//   char* out(), in(); size_t half()   requests go from out() to in(), of `half` bytes each
//   void meet()                        waits until the peer calls it, too
//   void begin(uint64_t offset, uint32_t size, bool last)   posts a request; `last` of a window
//   void flush()                       waits until all requests are done at the target
#pragma once

#include "bench/measure/traffic.h"

namespace bench {

// Calls visit(message) for each place of a window in the memory.
template <typename Visit>
void for_each_place(const Order& order, size_t half, char* memory, Visit&& visit) {
    for (uint32_t i = 0; i < order.window; ++i)
        visit(memory + place_of(i, order.size, order.window, half));
}

// The time of one request, in us. The clock is read after whole windows, because the requests of a
// window are not done one by one.
template <typename End>
Samples window_times(End& end, const Order& order) {
    const auto window = [&] {
        for (uint32_t i = 0; i < order.window; ++i) {
            end.begin(place_of(i, order.size, order.window, end.half()), order.size,
                      i + 1 == order.window);
        }
        end.flush();
    };
    // The first use of memory may register it.
    for (uint32_t i = 0; i < std::max(order.warm_up, 1U); ++i) window();
    Samples samples = timed(order.count / order.per_sample, [&] {
        for (uint64_t i = 0; i < order.per_sample; ++i) window();
    });
    for (double& sample : samples) sample /= static_cast<double>(order.per_sample * order.window);
    return samples;
}

// Only the worker that measures posts requests; it reads from the peer or writes to it. The bytes
// are numbered before and checked afterwards, outside of what is timed. The number must be one that
// the memory has not held.
template <typename End>
Samples one_sided(Peer& peer, End& end, const Order& order, uint64_t number) {
    const bool reads = order.request == Order::Request::kRead;
    const bool gives = peer.measures() != reads;
    if (gives) {
        for_each_place(order, end.half(), end.out(),
                       [&](char* message) { mark(message, order.size, number); });
    }
    end.meet();
    Samples samples;
    if (peer.measures()) samples = window_times(end, order);
    end.meet();
    if (gives) return samples;
    for_each_place(order, end.half(), end.in(), [&](const char* message) {
        if (!is_marked(message, order.size, number)) throw Failure("the bytes are not there");
    });
    return samples;
}

}  // namespace bench
