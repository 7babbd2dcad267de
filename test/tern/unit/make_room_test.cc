// SPDX-License-Identifier: BSD-3-Clause
#include "common/make_room.h"

#include <gtest/gtest.h>

#include <vector>

namespace tern {
namespace {

TEST(MakeRoom, IsForAllAndDoubles) {
    std::vector<int> numbers;
    unsigned moves = 0;
    for (size_t size = 1; size <= 1000; ++size) {
        const int* const before = numbers.data();
        base::make_room(numbers, size);
        const int* const after = numbers.data();
        moves += after != before;
        while (numbers.size() < size) numbers.push_back(1);
        EXPECT_EQ(numbers.data(), after) << "of " << size;
    }
    EXPECT_LE(moves, 11u);
}

}  // namespace
}  // namespace tern
