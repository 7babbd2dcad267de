// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "rendezvous/cost_model.h"

namespace tern {

// Measures how fast this processor copies: from the cache, and to or from memory, whichever is
// slower. Gives the best of the rounds that fit into `seconds`, at least one (half a millisecond).
// Without memory for it, copies are said to be infinitely fast.
CopyCosts measure_copies(double seconds = 1e-3);

}  // namespace tern
