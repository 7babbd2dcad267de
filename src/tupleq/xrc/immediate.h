// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Immediate data of what arrives in a queue: the receiver's number of the tuple, and the message's
// number. No message has the immediate data of a drain.
inline constexpr uint32_t kDrainName = 0xffffffff;

constexpr uint32_t message_name(uint16_t tuple, uint16_t sequence) {
    return uint32_t{tuple} << 16 | sequence;
}

}  // namespace tern
