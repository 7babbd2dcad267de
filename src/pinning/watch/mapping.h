// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Whether the range is mapped without gaps, by memory that is this process's alone and comes from
// no file. Of such memory nobody else can take the pages.
bool private_anonymous(uint64_t start, uint64_t end);

}  // namespace tern
