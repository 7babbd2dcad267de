// SPDX-License-Identifier: BSD-3-Clause
// What tern-bench measures with, as far as it can be wrong.
#include <gtest/gtest.h>

#include <vector>

#include "bench/measure/mark.h"

namespace bench {
namespace {

TEST(BenchMarks, EveryByteOfAShortMessageCounts) {
    for (const uint32_t size : {1, 2, 4, 5, 7, 8, 16, 24}) {
        std::vector<char> message(size + 2, 'x');
        mark(message.data() + 1, size, 0x1122334455667788);
        EXPECT_EQ(message.front(), 'x') << size;
        EXPECT_EQ(message.back(), 'x') << size;
        EXPECT_TRUE(is_marked(message.data() + 1, size, 0x1122334455667788)) << size;
        EXPECT_FALSE(is_marked(message.data() + 1, size, 0x1122334455667787)) << size;
        for (const uint32_t wrong : {0u, size - 1}) {
            message[1 + wrong] ^= 1;
            EXPECT_FALSE(is_marked(message.data() + 1, size, 0x1122334455667788)) << size;
            message[1 + wrong] ^= 1;
        }
    }
}

TEST(BenchMarks, TheTailIsTheLastWordOrByte) {
    for (const uint32_t size : {1u, 2u, 4u, 7u, 8u, 16u}) {
        alignas(8) char message[24] = {};
        Tail tail(message, size);
        tail.store(0x1ff);
        EXPECT_TRUE(tail.has(0x1ff)) << size;
        EXPECT_FALSE(tail.has(0x1fe)) << size;
        EXPECT_FALSE(tail.has(0x200)) << size;
        for (uint32_t i = 0; i < sizeof message; ++i) {
            const uint32_t first = size < 8 ? size - 1 : size - 8;
            const bool part = i >= first && i < size;
            EXPECT_EQ(message[i], !part ? 0 : i == first ? '\xff' : i == first + 1 ? 1 : 0) << size;
        }
    }
}

}  // namespace
}  // namespace bench
