// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Whether the range is mapped without gaps, by private memory that comes from no file. No other
// process can take the pages of such memory.
bool private_anonymous(uint64_t start, uint64_t end);

}  // namespace tern
