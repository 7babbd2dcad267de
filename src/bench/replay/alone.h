// SPDX-License-Identifier: BSD-3-Clause
// What UCP and the transports must not have in a simulation, or must have another of: threads,
// which run by the machine's time; random numbers; the machine's clock rate. alone.cc replaces the
// functions by which they get them, for this program and all libraries in it.
#pragma once

#include <cstdint>

namespace bench::replay {

// The device's threads may be started, and no others.
void let_threads_start(bool let);

// Active messages that the transports have handed to UCP, so far.
uint64_t messages_received();

}  // namespace bench::replay
