// SPDX-License-Identifier: BSD-3-Clause

// Sender and receiver of a transfer: together in a world with delays, and with malformed input.

#include <gtest/gtest.h>

#include "common/seed.h"
#include "tern/rendezvous/messages.h"
#include "transfer_world.h"

namespace tern::test {
namespace {

constexpr uint64_t kBlock = SubBlocks::kSubBlock;

TEST(TransferTest, EveryByteArrivesOnceInItsPlace) {
    Random random(any_seed());
    TransferWorld world(random);
    for (int i = 0; i < 2000; ++i) {
        const TransferCase what = any_case(random);
        const std::string wrong = world.run(what);
        ASSERT_EQ(wrong, "") << "transfer " << i << ": " << what.describe();
    }
}

TransferCase staged(uint64_t length, uint32_t slots, uint32_t staging_slots) {
    TransferCase what;
    what.length = length;
    what.slots = slots;
    what.staging_slots = staging_slots;
    what.parts = {{.upto = length}};
    return what;
}

TEST(TransferTest, RingsOfEverySize) {
    TransferWorld world(Random(1));
    for (uint32_t slots = 1; slots <= 12; ++slots)
        for (uint32_t staging = 1; staging <= 12; ++staging)
            for (const bool notified : {false, true}) {
                TransferCase what = staged(40 * kBlock + 17, slots, staging);
                what.notified = notified;
                ASSERT_EQ(world.run(what), "") << what.describe();
            }
}

TEST(TransferTest, LengthsAroundWholeBlocks) {
    TransferWorld world(Random(2));
    for (uint64_t blocks = 1; blocks <= 20; ++blocks)
        for (uint64_t length = blocks * kBlock - 2; length <= blocks * kBlock + 2; ++length) {
            const TransferCase what = staged(length, 7, 7);
            ASSERT_EQ(world.run(what), "") << what.describe();
        }
}

// The first part is shorter than the sub-blocks that are acknowledged at a time, and the placed
// tail needs its staging memory.
TEST(TransferTest, TailThroughTheMemoryOfTheHead) {
    TransferWorld world(Random(3));
    for (uint64_t head = 1; head < 30; ++head) {
        TransferCase what = staged(200 * kBlock, 63, 63);
        what.copied = true;
        what.parts = {{.upto = head * kBlock},
                      {.upto = what.length, .address = 1, .rkey = 1, .placed = true}};
        what.parts[1].address = 0x10000;
        what.parts[1].rkey = 1;
        ASSERT_EQ(world.run(what), "") << what.describe();
    }
}

class SenderTest : public testing::Test {
  protected:
    static constexpr uint64_t kLength = 100 * kBlock;
    ChunkSource sender{kLength, 8, 8, {}};
    ChunkSource::Chunk chunk;
};

TEST_F(SenderTest, DoesNothingBeforeItIsToldHow) {
    EXPECT_FALSE(sender.next(UINT64_MAX, chunk));
    EXPECT_FALSE(sender.all_posted());
}

TEST_F(SenderTest, PartsThatMakeNoSense) {
    EXPECT_FALSE(sender.add({.upto = 0}));
    EXPECT_FALSE(sender.add({.upto = kLength + 1}));
    EXPECT_FALSE(sender.add({.upto = UINT64_MAX, .placed = true}));
    EXPECT_TRUE(sender.add({.upto = kBlock}));
    EXPECT_FALSE(sender.add({.upto = kBlock}));
    EXPECT_FALSE(sender.add({.upto = 1}));
    EXPECT_TRUE(sender.add({.upto = kLength}));
    EXPECT_FALSE(sender.add({.upto = kLength}));
}

TEST_F(SenderTest, PartsAreNotCollectedWithoutEnd) {
    uint64_t upto = 0;
    while (upto < kLength && sender.add({.upto = ++upto, .placed = true})) {
    }
    EXPECT_LE(upto, ChunkSource::kMostParts + 1);
}

TEST_F(SenderTest, AcknowledgementsThatMakeNoSense) {
    EXPECT_TRUE(sender.acknowledged(0));
    EXPECT_FALSE(sender.acknowledged(1));
    EXPECT_FALSE(sender.acknowledged(UINT32_MAX));
    ASSERT_TRUE(sender.add({.upto = kLength}));
    ASSERT_TRUE(sender.next(UINT64_MAX, chunk));
    sender.posted(chunk);
    EXPECT_FALSE(sender.acknowledged(chunk.blocks + 1));
    EXPECT_TRUE(sender.acknowledged(chunk.blocks));
    EXPECT_FALSE(sender.acknowledged(chunk.blocks - 1)) << "back";
    EXPECT_TRUE(sender.acknowledged(chunk.blocks)) << "again";
}

TEST(ReceiverTest, NotificationsThatMakeNoSense) {
    RingReader polled(100 * kBlock, 8, 1, false, 2);
    polled.add({.upto = 100 * kBlock});
    EXPECT_FALSE(polled.arrived(1)) << "not asked for";
    RingReader receiver(10 * kBlock, 8, 1, true, 2);
    EXPECT_FALSE(receiver.arrived(1)) << "nothing is to come yet";
    receiver.add({.upto = 10 * kBlock});
    EXPECT_FALSE(receiver.arrived(9)) << "more than the window";
    EXPECT_TRUE(receiver.arrived(8));
    EXPECT_FALSE(receiver.arrived(1)) << "nothing is taken";
    const std::vector<std::byte> window(8 * SubBlocks::kSlot);
    RingReader::Block block;
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(receiver.next(window.data(), block));
        receiver.taken();
    }
    EXPECT_FALSE(receiver.arrived(3)) << "more than the message";
    EXPECT_FALSE(receiver.arrived(UINT32_MAX));
    EXPECT_TRUE(receiver.arrived(2));
}

TEST(ReceiverTest, EndsThatMakeNoSense) {
    RingReader staged(kBlock, 8, 1, true, 2);
    staged.add({.upto = kBlock});
    EXPECT_FALSE(staged.finished()) << "nothing is placed";
    RingReader receiver(3 * kBlock, 8, 1, true, 2);
    receiver.add({.upto = kBlock, .placed = true});
    EXPECT_FALSE(receiver.finished()) << "before all is told";
    receiver.add({.upto = 3 * kBlock});
    EXPECT_FALSE(receiver.complete());
    EXPECT_TRUE(receiver.finished());
    EXPECT_FALSE(receiver.finished()) << "twice";
    EXPECT_FALSE(receiver.complete()) << "what is staged has not come";
}

// The sender writes no more, which its notifications may say later than it does.
TEST(ReceiverTest, WithdrawalsThatOvertakeNotifications) {
    RingReader polled(9 * kBlock, 8, 1, false, 2);
    polled.add({.upto = 9 * kBlock});
    EXPECT_FALSE(polled.withdrawn_completely());
    EXPECT_TRUE(polled.withdrawn(5));
    EXPECT_TRUE(polled.withdrawn_completely()) << "flags come in order";
    RingReader receiver(9 * kBlock, 8, 1, true, 2);
    receiver.add({.upto = 5 * kBlock});
    EXPECT_TRUE(receiver.arrived(2));
    EXPECT_FALSE(receiver.withdrawn(1)) << "fewer than have come";
    EXPECT_FALSE(receiver.withdrawn(6)) << "more than was asked for";
    EXPECT_TRUE(receiver.withdrawn(4));
    EXPECT_FALSE(receiver.withdrawn(4)) << "twice";
    EXPECT_FALSE(receiver.withdrawn_completely());
    EXPECT_FALSE(receiver.arrived(3)) << "more than were written";
    EXPECT_TRUE(receiver.arrived(2));
    EXPECT_TRUE(receiver.withdrawn_completely());
    EXPECT_FALSE(receiver.arrived(1));
}

// A receiver does not take flags of an earlier transfer for its own, whichever sub-block of that
// transfer was in the slot.
TEST(ReceiverTest, FlagsOfEarlierTransfers) {
    std::vector<std::byte> window(4 * SubBlocks::kSlot);
    for (uint32_t slot = 0; slot < 4; ++slot)
        for (uint64_t index = slot; index < 64; index += 4) {
            const uint64_t flag = flag_of(6, index);
            memcpy(window.data() + slot * SubBlocks::kSlot + kBlock, &flag, sizeof(flag));
            RingReader receiver(100 * kBlock, 4, 7, false, 1);
            receiver.add({.upto = 100 * kBlock});
            RingReader::Block block;
            EXPECT_FALSE(receiver.next(window.data(), block));
        }
}

TEST(MessagesTest, WindowsAndPartsThatMakeNoSense) {
    const WireRing good{.address = 1, .rkey = 1, .slots = 63, .flags = 0, .generation = 1};
    EXPECT_TRUE(good.valid());
    WireRing bad[3] = {good, good, good};
    bad[0].slots = WireRing::kMostSlots + 1;
    bad[1].flags = 2;
    bad[2].generation = WireRing::kGeneration + 1;
    for (const WireRing& window : bad) EXPECT_FALSE(window.valid());
    WirePart part;
    EXPECT_TRUE(part.valid());
    part.flags = 2;
    EXPECT_FALSE(part.valid());
}

}  // namespace
}  // namespace tern::test
