// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

namespace bench {

// What a receiver gets between two looks at its messages, and whether it answers then.
struct Burst {
    std::vector<uint32_t> sizes;
    bool answered = false;
};

// A load of mixed sizes, the same for every design: one message in ten is too long for any fast
// path (64 KiB); the others have 8 B to 8 KiB, with as many in each doubling as in any other. The
// receiver is busy while a burst arrives and then takes all of it. Bursts have 1 to `longest`
// messages, each length equally often; every other one, on average, is followed by a message in the
// other direction, which brings credit back. Depends on nothing but the arguments.
std::vector<Burst> make_load(uint64_t seed, uint32_t longest, uint32_t messages);

constexpr uint32_t kLongestFast = 8192;

}  // namespace bench
