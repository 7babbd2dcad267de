// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include "tern/pinning/cache/pin_cache.h"
#include "tern/rendezvous/cost_model.h"

namespace tern {

// Measures the costs of this processor and this device for the model: copies, registrations and
// deregistrations, and the check whether memory is pinned already. All are the best of several, so
// that processes that start together measure about the same; the first of each does not count. Does
// not measure the network. Takes about four milliseconds; the log has what was measured, at level
// debug. If a registration fails, registrations cost infinitely much.
Costs calibrate(ibv_pd* pd, PinCache& pins);

// Seconds to look whether memory is pinned, without what follows if it is not; 0 if no memory can
// be pinned.
double measure_look(PinCache& pins);

// The higher of each cost.
RegistrationCosts dearer(const RegistrationCosts& one, const RegistrationCosts& other);

// The bandwidths of copies by this processor: from a ring to a buffer in the cache, and to or from
// memory, whichever is slower. Returns the best of the rounds that fit into `seconds`, and of three
// (half a millisecond each) however long they take. If there is no memory for the measurement, the
// bandwidths are infinite.
CopyCosts measure_copies(double seconds = 1e-3);

}  // namespace tern
