// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern {

// The send queues of connections. One has many places while all together have few; then the others
// are short, as most peers are silent, until a connection turns out to be busy. Pure.
struct SendQueues {
    uint32_t long_places;
    uint32_t short_places;
    uint32_t long_queues;  // so many from the beginning

    // Long queues that may still be made without need, if all queues have `places` places.
    uint32_t long_queues_left(uint32_t places) const {
        return long_queues - std::min(places / long_places, long_queues);
    }
    // Places of the next connection's queue. `busy`: a short one does not suffice.
    uint32_t places_of_next(uint32_t places, bool busy) const {
        return busy || long_queues_left(places) != 0 ? long_places : short_places;
    }
};

}  // namespace tern
