// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/line_order.h"

#include <gtest/gtest.h>

#include <vector>

namespace softhca {
namespace {

std::vector<LineOrder::Line> lines_of(uint64_t address, uint64_t length) {
    std::vector<LineOrder::Line> lines;
    for (LineOrder order(address, length); !order.done();) lines.push_back(order.next());
    return lines;
}

TEST(LineOrder, EachByteComesOnceAndNoLineIsCut) {
    for (uint64_t address : {0, 1, 40, 63, 64, 100}) {
        for (uint64_t length = 0; length < 1500; ++length) {
            std::vector<int> times(length);
            for (const auto& [offset, bytes] : lines_of(address, length)) {
                ASSERT_GT(bytes, 0u);
                ASSERT_LE(offset + bytes, length);
                ASSERT_EQ((address + offset) / 64, (address + offset + bytes - 1) / 64);
                for (uint64_t i = offset; i < offset + bytes; ++i) ++times[i];
            }
            ASSERT_EQ(times, std::vector<int>(length, 1)) << length << " bytes at " << address;
        }
    }
}

TEST(LineOrder, TheLastLineComesFirst) {
    for (uint64_t length = 1; length < 10000; length += 37) {
        const auto [offset, bytes] = lines_of(8, length).front();
        ASSERT_EQ(offset + bytes, length);
    }
}

TEST(LineOrder, LongCopiesAreShuffled) {
    int up = 0, down = 0;
    uint64_t before = 4096;
    for (const auto& [offset, bytes] : lines_of(0, 4096)) {
        up += offset == before + 64 ? 1 : 0;
        down += offset + 64 == before ? 1 : 0;
        before = offset;
    }
    EXPECT_EQ(up, 0);
    EXPECT_LE(down, 1) << "the first one";
}

}  // namespace
}  // namespace softhca
