// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Immediate data of what arrives in a queue: the message's number, or kDrainName, in the low 17
// bits, and the nonce of the bind, combined by exclusive or. The device may give the number of a
// destroyed queue to a new one, of any process. A message that was posted for the destroyed queue
// then arrives in the new one, and must not pass for a message of the new tuple, whose numbers are
// the same. With a random nonce it does so once in 2^32 times.
inline constexpr uint32_t kDrainName = 0x10000;

constexpr uint32_t to_immediate(uint32_t nonce, uint32_t name) {
    return nonce ^ name;
}
constexpr uint32_t from_immediate(uint32_t nonce, uint32_t immediate) {
    return nonce ^ immediate;
}

}  // namespace tern
