// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include "pinning/cache/pin_cache.h"
#include "rendezvous/cost_model.h"

namespace tern {

// Measures what the cost model needs to know of this processor and this device: copies,
// registrations, and the look for memory that is pinned already. The network is left out. Takes
// about two milliseconds. What cannot be registered costs infinitely much.
Costs calibrate(ibv_pd* pd, PinCache& pins);

// How fast this processor copies: from the cache, and to or from memory, whichever is slower. The
// best of the rounds that fit into `seconds`, at least one (half a millisecond). Without memory for
// the measurement, copies count as infinitely fast.
CopyCosts measure_copies(double seconds = 1e-3);

}  // namespace tern
