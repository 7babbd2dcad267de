// SPDX-License-Identifier: BSD-3-Clause
// The processor's time-stamp counter in virtual time.
#pragma once

#include <cstdint>

namespace bench::sim {

// From now on, who reads the counter in this thread gets what `ticks` returns; null: the counter
// again. False: only Tern gets that, and UCX reads the counter. Throws Failure where neither is
// possible.
bool replace_counter(uint64_t (*ticks)());

}  // namespace bench::sim
