// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>

namespace tern::base {

// Gives a vector room for `size` elements in all, so that entering them later, on the data path or
// while a failure is handled, neither allocates nor throws. Unlike reserve(), which takes exactly
// what is asked for, it may be called for each new element: the room doubles.
template <class Vector>
void make_room(Vector& vector, size_t size) {
    if (size > vector.capacity()) vector.reserve(std::max(size, 2 * vector.capacity()));
}

}  // namespace tern::base
