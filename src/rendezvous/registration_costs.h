// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include "pinning/cache/pin_cache.h"
#include "rendezvous/cost_model.h"

namespace tern {

// Measures what the device takes to register memory: a line through the best of a few short and a
// few long registrations. Well below a millisecond on hardware. What cannot be registered costs
// infinitely much.
RegistrationCosts measure_registration(ibv_pd* pd);

// What it takes to find out that memory is pinned already, in seconds.
double measure_look(PinCache& pins);

}  // namespace tern
