// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// The send queues of connections. One has many places while all together have few; then the others
// have fewer, as most peers of a large job are silent. Pure.
struct SendQueues {
    uint32_t long_places;
    uint32_t later_places;
    uint32_t long_queues;  // so many

    // Long queues that may still be made, if all queues have `places` places.
    uint32_t long_queues_left(uint32_t places) const {
        return long_queues - std::min(places / long_places, long_queues);
    }
    // Places of the next connection's queue.
    uint32_t places_of_next(uint32_t places) const {
        return long_queues_left(places) != 0 ? long_places : later_places;
    }
};

}  // namespace tern
