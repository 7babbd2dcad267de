// SPDX-License-Identifier: BSD-3-Clause
// What else is replaced of UCX, beside alone.h, where UCP or librwapi runs: threads of workers and
// of UCX's registration cache; and messages are counted.
#pragma once

#include <cstdint>

namespace bench::sim {

// Active messages that the transports have handed to UCP, so far.
uint64_t messages_received();

}  // namespace bench::sim
