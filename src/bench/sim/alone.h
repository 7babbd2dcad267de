// SPDX-License-Identifier: BSD-3-Clause
// What UCX and the transports must not have in a simulation, or must have another of: threads,
// which run by the machine's time; random numbers; the machine's clock rate. alone.cc replaces the
// functions by which they get them, for this program and all libraries in it.
#pragma once

namespace bench::sim {

// The device's threads may be started, and no others. Threads start before the first call.
void let_threads_start(bool let);

}  // namespace bench::sim
