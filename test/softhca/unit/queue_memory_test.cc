// SPDX-License-Identifier: BSD-3-Clause
// The memory of queues, against values worked out by hand from the sources of mlx5's provider.
#include "softhca/core/queue_memory.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t connection(const SendQueueShape& sends) {
    return queue_pair_memory(QpType::kRc, sends, {});
}

// 192 bytes before the data and 144 of inline data make 384; 256 of them round to 128 KiB. 16 bytes
// of records for each block of 64.
TEST(QueueMemory, RoundsTheWholeSendQueue) {
    EXPECT_EQ(connection({256, 8, 128}), 128u << 10 | 2048 * 16);
    // Without room for memory windows: 48 and 144 bytes.
    EXPECT_EQ(connection({256, 8, 128, false}), 64u << 10 | 1024 * 16);
    EXPECT_EQ(connection({16, 2, 128}), 8192 + 128 * 16);
    EXPECT_EQ(connection({16, 2, 128, false}), kPage + 64 * 16) << "3072 bytes in one page";
    EXPECT_EQ(connection({42, 8, 128, false}), 8192 + 128 * 16) << "8064 bytes in two pages";
    EXPECT_EQ(connection({}), 0u);
}

TEST(QueueMemory, TypesDiffer) {
    const SendQueueShape sends = {64, 1, 0};
    // 192 + 16 = 208, rounded to 256; XRC has 16 more, which fit; UD 64 + 16, rounded to 128.
    EXPECT_EQ(queue_pair_memory(QpType::kRc, sends, {}), 16384u + 256 * 16);
    EXPECT_EQ(queue_pair_memory(QpType::kXrcSend, sends, {}), 16384u + 256 * 16);
    EXPECT_EQ(queue_pair_memory(QpType::kUd, sends, {}), 8192u + 128 * 16);
    EXPECT_EQ(queue_pair_memory(QpType::kXrcRecv, sends, {}), 0u);
    // Both queues share a buffer: 16 KiB and 100, rounded to 128, receives of 16 bytes.
    EXPECT_EQ(queue_pair_memory(QpType::kRc, sends, {100, 1}),
              16384u + 256 * 16 + 2048 + 128 * 8 + 2048 /* the rest of a page */);
}

TEST(QueueMemory, CompletionAndSharedQueues) {
    EXPECT_EQ(completion_queue_memory(1), kPage);
    EXPECT_EQ(completion_queue_memory(255), 256u * 64);
    EXPECT_EQ(completion_queue_memory(256), 512u * 64);
    // 512 receives: 1025 with those that wait, 2048 of 32 bytes; records, and a bit for each.
    EXPECT_EQ(shared_queue_memory({512, 1}), 2048u * 32 + 2048 * 8 + 256);
    // Too many for a second half.
    EXPECT_EQ(shared_queue_memory({16384, 1}), 32768u * 32 + 32768 * 8 + 4096);
}

}  // namespace
}  // namespace softhca
