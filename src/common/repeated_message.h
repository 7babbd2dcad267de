// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

// The layout of an active message that the transport may send as a repetition of an earlier one, in
// one work request with the write before it (tern/uct/put_am.h): words of 8 bytes that are those of
// the earlier message, and behind them a value that has grown. Of librwapi, a notification.
namespace tern::repeated_message {

inline constexpr size_t kWords = 5;
inline constexpr size_t kValue = kWords - 1;  // the value's word
inline constexpr size_t kBytes = kWords * sizeof(uint64_t);

}  // namespace tern::repeated_message
