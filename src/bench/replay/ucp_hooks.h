// SPDX-License-Identifier: BSD-3-Clause
// What a replay replaces of UCX, beside sim/alone.h: threads of UCP and of its registration cache;
// and it counts the messages.
#pragma once

#include <cstdint>

namespace bench::replay {

// Active messages that the transports have handed to UCP, so far.
uint64_t messages_received();

}  // namespace bench::replay
