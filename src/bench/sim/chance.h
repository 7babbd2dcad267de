// SPDX-License-Identifier: BSD-3-Clause
// Numbers that look like chance, the same in each run.
#pragma once

#include <cstdint>

namespace bench::sim {

// Splitmix64.
constexpr uint64_t chance(uint64_t index) {
    uint64_t z = (index + 1) * 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

}  // namespace bench::sim
