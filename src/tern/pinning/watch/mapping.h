// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Mappings of this process that follow one another without a gap, each as a whole.
struct Mappings {
    uint64_t start = 0;
    uint64_t end = 0;
    bool followed = false;  // another private mapping of no file begins at `end`
    bool other = false;     // a part of the range is shared or comes from a file
};

// The mappings that have a part of this range, and the reserved mappings (without any access) next
// to them: allocators open reserved memory piece by piece, and then the kernel merges the pieces.
// False: there is a gap, or memory that is shared or comes from a file. No other process can take
// the pages of private memory that comes from no file.
//
// `by_query`: not by a list of all mappings, unless the kernel is older than 6.11.
bool private_mappings(uint64_t start, uint64_t end, Mappings& whole, bool by_query = true);

}  // namespace tern
