// SPDX-License-Identifier: BSD-3-Clause
// The device's time: CLOCK_MONOTONIC, which all processes share, or virtual time.
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

// In ns.
inline uint64_t now_ns() {
    if (virtual_clock != nullptr) [[unlikely]]
        return virtual_clock->now;
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// In virtual time, adds what the processor does `count` times to the time.
inline void charge(uint64_t softhca_virtual_time::*cost, uint64_t count = 1) {
    if (virtual_clock != nullptr) [[unlikely]]
        virtual_clock->now += virtual_clock->*cost * count;
}

// The same for a call that polls a completion queue.
inline void charge_poll() {
    charge(&softhca_virtual_time::poll);
    if (virtual_clock != nullptr) [[unlikely]]
        ++virtual_clock->polls;
}

// The same for a call that posts, with so many work requests and blocks after the first one.
inline void charge_post(uint64_t requests, uint64_t blocks) {
    charge(&softhca_virtual_time::post);
    charge(&softhca_virtual_time::request, requests);
    charge(&softhca_virtual_time::block, blocks);
    if (virtual_clock == nullptr) [[likely]]
        return;
    ++virtual_clock->posts;
    virtual_clock->requests += requests;
}

}  // namespace softhca
