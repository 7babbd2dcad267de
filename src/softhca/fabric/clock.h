// SPDX-License-Identifier: BSD-3-Clause
// The device's time: CLOCK_MONOTONIC, which all processes share, or virtual time. All that the
// device does otherwise in virtual time asks is_virtual_time(), and tells what happens by
// note_seen() and note_acts().
#pragma once

#include <time.h>

#include <cstdint>

#include "softhca/core/virtual_events.h"
#include "softhca/core/virtual_time.h"

namespace softhca {

// Virtual time; null: time is real. Set before this process joins a fabric, and never changed.
inline softhca_virtual_time* virtual_clock = nullptr;
// What happens next in virtual time; unused in real time.
inline VirtualEvents virtual_events;

inline bool is_virtual_time() {
    return __builtin_expect(virtual_clock != nullptr, 0);
}

// In virtual time: the member may see something new at that time, or its device acts then.
inline void note_seen(uint32_t member, uint64_t time) {
    if (is_virtual_time()) virtual_events.seen(member, time);
}
inline void note_acts(uint32_t member, uint64_t time) {
    if (is_virtual_time()) virtual_events.acts(member, time);
}

// In ns.
inline uint64_t now_ns() {
    if (is_virtual_time()) return virtual_clock->now;
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// In virtual time, adds what the processor does `count` times to the time.
inline void charge(uint64_t softhca_virtual_time::*cost, uint64_t count = 1) {
    if (is_virtual_time()) virtual_clock->now += virtual_clock->*cost * count;
}

// Charges a call that polls a completion queue.
inline void charge_poll() {
    charge(&softhca_virtual_time::poll);
    if (is_virtual_time()) ++virtual_clock->polls;
}

// Charges a call that posts, with so many work requests and blocks after the first one.
inline void charge_post(uint64_t requests, uint64_t blocks) {
    charge(&softhca_virtual_time::post);
    charge(&softhca_virtual_time::request, requests);
    charge(&softhca_virtual_time::block, blocks);
    if (!is_virtual_time()) return;
    ++virtual_clock->posts;
    virtual_clock->requests += requests;
}

}  // namespace softhca
