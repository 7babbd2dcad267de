// SPDX-License-Identifier: BSD-3-Clause
// The memory of queues, against values worked out by hand from the providers' sources.
#include "softhca/core/queue_memory.h"

#include <gtest/gtest.h>

namespace softhca {
namespace {

constexpr auto kMlx5 = QueueDriver::kMlx5;
constexpr uint64_t kPage = 4096;

uint64_t connection(QueueDriver driver, const SendQueueShape& sends) {
    return queue_pair_memory(driver, QpType::kRc, sends, {});
}

// 192 bytes before the data and 144 of inline data make 384; 256 of them round to 128 KiB. 16 bytes
// of records for each block of 64.
TEST(QueueMemory, Mlx5RoundsTheWholeSendQueue) {
    EXPECT_EQ(connection(kMlx5, {256, 8, 128}), 128u << 10 | 2048 * 16);
    // Without room for memory windows: 48 and 144 bytes.
    EXPECT_EQ(connection(kMlx5, {256, 8, 128, false}), 64u << 10 | 1024 * 16);
    EXPECT_EQ(connection(kMlx5, {16, 2, 128}), 8192 + 128 * 16);
    EXPECT_EQ(connection(kMlx5, {16, 2, 128, false}), kPage + 64 * 16) << "3072 bytes in one page";
    EXPECT_EQ(connection(kMlx5, {42, 8, 128, false}), 8192 + 128 * 16) << "8064 bytes in two pages";
    EXPECT_EQ(connection(kMlx5, {}), 0u);
}

TEST(QueueMemory, Mlx5TypesDiffer) {
    const SendQueueShape sends = {64, 1, 0};
    // 192 + 16 = 208, rounded to 256; XRC has 16 more, which fit; UD 64 + 16, rounded to 128.
    EXPECT_EQ(queue_pair_memory(kMlx5, QpType::kRc, sends, {}), 16384u + 256 * 16);
    EXPECT_EQ(queue_pair_memory(kMlx5, QpType::kXrcSend, sends, {}), 16384u + 256 * 16);
    EXPECT_EQ(queue_pair_memory(kMlx5, QpType::kUd, sends, {}), 8192u + 128 * 16);
    EXPECT_EQ(queue_pair_memory(kMlx5, QpType::kXrcRecv, sends, {}), 0u);
    // Both queues share a buffer: 16 KiB and 100, rounded to 128, receives of 16 bytes.
    EXPECT_EQ(queue_pair_memory(kMlx5, QpType::kRc, sends, {100, 1}),
              16384u + 256 * 16 + 2048 + 128 * 8 + 2048 /* the rest of a page */);
}

TEST(QueueMemory, Mlx5CompletionAndSharedQueues) {
    EXPECT_EQ(completion_queue_memory(kMlx5, 1), kPage);
    EXPECT_EQ(completion_queue_memory(kMlx5, 255), 256u * 64);
    EXPECT_EQ(completion_queue_memory(kMlx5, 256), 512u * 64);
    // 512 receives: 1025 with those that wait, 2048 of 32 bytes; records, and a bit for each.
    EXPECT_EQ(shared_queue_memory(kMlx5, {512, 1}), 2048u * 32 + 2048 * 8 + 256);
    // Too many for a second half.
    EXPECT_EQ(shared_queue_memory(kMlx5, {16384, 1}), 32768u * 32 + 32768 * 8 + 4096);
}

// 128 bytes inline need 3 segments of 4: 144 bytes, 16 + 16 more, rounded to 256. 9 more entries.
TEST(QueueMemory, Mlx4HasSpareEntries) {
    EXPECT_EQ(connection(QueueDriver::kMlx4, {256, 8, 128}), 512u * 256 + 512 * 8);
    EXPECT_EQ(connection(QueueDriver::kMlx4, {247, 8, 128}), 256u * 256 + 256 * 8);
    EXPECT_EQ(completion_queue_memory(QueueDriver::kMlx4, 256), 512u * 64);
    EXPECT_EQ(shared_queue_memory(QueueDriver::kMlx4, {512, 1}), 1024u * 32 + 1024 * 8);
}

// 8 elements and one for immediate data: 8 quanta. 2048 + 258 round to 4096 quanta of 32 bytes.
TEST(QueueMemory, IrdmaReservesQuanta) {
    EXPECT_EQ(connection(QueueDriver::kIrdma, {256, 8, 101}),
              4096u * 32 + 4096 * 16 + kPage + 8 * 8);
    EXPECT_EQ(completion_queue_memory(QueueDriver::kIrdma, 255), 2u * 256 * 32);
}

// 256 + 129 entries round to 512, of 128 bytes with 16 more.
TEST(QueueMemory, BnxtReHasRequestsOfOneSize) {
    EXPECT_EQ(connection(QueueDriver::kBnxtRe, {256, 6, 96}), 512u * 144 + 512 * 40);
    EXPECT_EQ(connection(QueueDriver::kBnxtRe, {16, 1, 0}),
              connection(QueueDriver::kBnxtRe, {100, 6, 96}));
    EXPECT_EQ(completion_queue_memory(QueueDriver::kBnxtRe, 255), 512u * 32);
    EXPECT_EQ(shared_queue_memory(QueueDriver::kBnxtRe, {511, 1}), 512u * 128 + 512 * 40);
}

// Two elements are within the request; 6 more, or the 8 of 128 bytes inline, are outside.
TEST(QueueMemory, HnsHasElementsOutside) {
    EXPECT_EQ(connection(QueueDriver::kHns, {256, 2, 32}), 256u * 64 + 256 * 8);
    EXPECT_EQ(connection(QueueDriver::kHns, {256, 8, 128}), 256u * 64 + 256 * 8 * 16 + 256 * 8);
    EXPECT_EQ(connection(QueueDriver::kHns, {1, 1, 0}), 64u * 64 + 64 * 8);
    EXPECT_EQ(completion_queue_memory(QueueDriver::kHns, 256), 256u * 64);
    EXPECT_EQ(shared_queue_memory(QueueDriver::kHns, {512, 1}),
              512u * 16 + kPage + 512 * 8 + 512 / 8);
}

// 208 bytes and 128 of data, rounded to 512.
TEST(QueueMemory, RxeHasOneQueueInEachMapping) {
    EXPECT_EQ(connection(QueueDriver::kRxe, {255, 8, 128}), 256u * 512 + kPage);
    EXPECT_EQ(completion_queue_memory(QueueDriver::kRxe, 255), 256u * 64 + kPage);
    EXPECT_EQ(shared_queue_memory(QueueDriver::kRxe, {511, 1}), 512u * 64 + kPage);
}

}  // namespace
}  // namespace softhca
