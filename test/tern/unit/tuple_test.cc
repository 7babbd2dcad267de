// SPDX-License-Identifier: BSD-3-Clause
// One tuple at both ends, numbers that wrap around, and the table of tuples at a sender.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "schedules.h"
#include "tern/matching/key_mask.h"
#include "tern/tupleq/core/receiver.h"
#include "tern/tupleq/core/senders.h"

namespace tern {
namespace tuple_test {

constexpr uint64_t kFull = KeyMask::kFull;

TEST(Grant, PermitsOneMessageThatFits) {
    const Grant grant(0x7fff, 0xffff, 100);
    EXPECT_TRUE(grant.valid());
    EXPECT_EQ(grant.epoch(), 0x7fff);
    EXPECT_EQ(grant.sequence(), 0xffff);
    EXPECT_EQ(grant.capacity(), 100u);
    EXPECT_TRUE(grant.permits(0x7fff, 0xffff, 100));
    EXPECT_TRUE(grant.permits(0x7fff, 0xffff, 0));
    EXPECT_FALSE(grant.permits(0x7fff, 0xffff, 101));
    EXPECT_FALSE(grant.permits(0x7ffe, 0xffff, 1));
    EXPECT_FALSE(grant.permits(0x7fff, 0, 1));
    EXPECT_FALSE(grant.permits(0x7fff, 0xffff, uint64_t{1} << 32));
}

TEST(Grant, OfNothingIsStillOne) {
    EXPECT_TRUE(Grant(0, 0, 0).permits(0, 0, 0));
    EXPECT_FALSE(Grant().permits(0, 0, 0));
    EXPECT_FALSE(Grant().valid());
}

TEST(Grant, LongReceivesTakeWhatTheWordCanSay) {
    const Grant grant(0, 1, uint64_t{1} << 40);
    EXPECT_TRUE(grant.permits(0, 1, Grant::kMostCapacity));
    EXPECT_FALSE(grant.permits(0, 1, Grant::kMostCapacity + 1));
}

TEST(TupleSender, TakesAGrantOnce) {
    uint64_t slots[TupleSender::words(2)] = {0, Grant(0, 1, 10).raw()};
    TupleSender sender(slots, 2);
    EXPECT_FALSE(sender.may_send_direct(11));
    ASSERT_TRUE(sender.may_send_direct(10));
    ASSERT_TRUE(sender.send_direct(10));
    EXPECT_EQ(sender.sequence(), 1);
    EXPECT_EQ(slots[1], 0u);
    EXPECT_EQ(slots[2], 1u) << "announced";
    EXPECT_FALSE(sender.may_send_direct(0));
    EXPECT_FALSE(sender.send_direct(0));
    EXPECT_EQ(sender.sequence(), 1);
}

// The sender withdraws its announcement.
TEST(TupleSender, AGrantMayBeTakenBackInBetween) {
    uint64_t slots[TupleSender::words(2)] = {0, Grant(0, 1, 10).raw()};
    TupleSender sender(slots, 2);
    ASSERT_TRUE(sender.may_send_direct(10));
    sender.announce();
    EXPECT_EQ(slots[2], 1u);
    slots[1] = 0;
    EXPECT_FALSE(sender.decide(10));
    EXPECT_EQ(slots[2], 0u);
    EXPECT_EQ(sender.sent_ordinary(), 1);
    EXPECT_EQ(slots[2], 1u);
}

TEST(TupleSender, AnOrdinaryMessageEndsTheEpoch) {
    uint64_t slots[TupleSender::words(4)] = {0, Grant(0, 1, 10).raw(), Grant(0, 2, 10).raw()};
    TupleSender sender(slots, 4);
    EXPECT_EQ(sender.sent_ordinary(), 1);
    EXPECT_FALSE(sender.may_send_direct(1));
    slots[2] = Grant(1, 2, 10).raw();
    EXPECT_TRUE(sender.may_send_direct(1));
    EXPECT_EQ(sender.close(), 1);
    EXPECT_FALSE(sender.may_send_direct(1));
}

// When all messages are ordinary, sequence and epoch advance together, and have the same values
// again after 2^16 messages. An old grant must not be valid then.
TEST(TupleSender, AGrantDoesNotComeBackWhenTheNumbersDo) {
    constexpr uint32_t kDepth = 4;
    uint64_t slots[TupleSender::words(kDepth)] = {};
    TupleSender sender(slots, kDepth);
    for (uint16_t sequence = 1; sequence <= kDepth; ++sequence)
        slots[sequence % kDepth] = Grant(0, sequence, 10).raw();
    for (int i = 0; i < 3 * 65536; ++i) {
        sender.sent_ordinary();
        ASSERT_FALSE(sender.may_send_direct(1)) << i;
    }
}

// One sender and one receiver, for several times as many messages as there are numbers.
TEST(TupleReceiver, KeepsPaceWithTheSenderWhenNumbersWrap) {
    constexpr uint32_t kDepth = 8;
    Random random(number_from_environment("TERN_TEST_SEED", 1));
    uint64_t slots[TupleSender::words(kDepth)] = {};
    TupleSender sender(slots, kDepth);
    TupleReceiver receiver(kDepth);
    receiver.bind();
    receiver.bound();
    uint64_t direct = 0;
    uint64_t next = 1;              // receive to be granted
    std::deque<uint64_t> in_queue;  // receives
    for (int message = 0; message < 400'000; ++message) {
        while (receiver.may_grant(false) && random.chance(80)) {
            const Grant grant = receiver.grant(next, 100, false);
            in_queue.push_back(next++);
            if (random.chance(90)) slots[grant.sequence() % kDepth] = grant.raw();
        }
        TupleReceiver::Entry entry;
        uint32_t place = 0;
        bool claimed = false;
        const uint64_t length = random.between(90, 101);
        if (sender.may_send_direct(length)) {
            ASSERT_TRUE(sender.send_direct(length));
            ++direct;
            ASSERT_TRUE(receiver.arrive(entry, place, claimed));
            ASSERT_EQ(entry.receive, in_queue.front());
            in_queue.pop_front();
            continue;
        }
        const bool close = random.chance(5);
        const uint16_t last = close ? sender.close() : sender.sent_ordinary() - 1;
        const auto ended = receiver.end_epoch(last, !close);
        ASSERT_TRUE(ended);
        if (!close) receiver.passed(1);
        ASSERT_EQ(ended->begin, ended->first_void);
        ASSERT_EQ(ended->end, in_queue.size());
        for (uint32_t left = receiver.begin_drain(); left != 0; --left)
            ASSERT_TRUE(receiver.drained(place));
        ASSERT_TRUE(receiver.empty());
        in_queue.clear();
    }
    EXPECT_GT(direct, 200'000u);
}

TEST(TupleSenders, RefuseWhatTheyHaveNoRoomFor) {
    std::vector<uint64_t> grants(2 * TupleSender::words(4));
    TupleSenders senders(grants.data(), 2, 4);
    TupleBound answer;
    ASSERT_TRUE(senders.bind(7, {100, kFull, 0, 4}, answer));
    EXPECT_NE(answer.sender, TupleBound::kRefused);
    ASSERT_TRUE(senders.bind(7, {101, kFull, 1, 8}, answer));
    EXPECT_EQ(answer.sender, TupleBound::kRefused);  // deeper than this sender's tuples can be
    EXPECT_EQ(answer.tuple, 1);
    ASSERT_TRUE(senders.bind(8, {100, kFull, 5, 2}, answer));
    EXPECT_NE(answer.sender, TupleBound::kRefused);
    EXPECT_EQ(answer.slot, TupleSender::words(4));
    ASSERT_TRUE(senders.bind(8, {102, kFull, 6, 1}, answer));
    EXPECT_EQ(answer.sender, TupleBound::kRefused);
    EXPECT_EQ(senders.bound(), 2u);

    ASSERT_NE(senders.find(7, 100), nullptr);
    EXPECT_EQ(senders.find(8, 100)->receiver, 5);
    EXPECT_EQ(senders.find(7, 102), nullptr);
    senders.peer_died(7);
    EXPECT_EQ(senders.find(7, 100), nullptr);
    EXPECT_EQ(senders.bound(), 1u);
    ASSERT_TRUE(senders.bind(8, {102, kFull, 6, 1}, answer));
    EXPECT_EQ(answer.slot, 0u);
}

TEST(TupleSenders, MayHaveNoRoomAtAll) {
    TupleSenders senders(nullptr, 0, 4);
    TupleBound answer;
    ASSERT_TRUE(senders.bind(7, {100, kFull, 0, 4}, answer));
    EXPECT_EQ(answer.sender, TupleBound::kRefused);
    EXPECT_EQ(senders.find(7, 100), nullptr);
}

TEST(TupleSenders, TrustNoReceiver) {
    std::vector<uint64_t> grants(2 * TupleSender::words(4));
    TupleSenders senders(grants.data(), 2, 4);
    TupleBound bound;
    TupleClosed closed;
    EXPECT_FALSE(senders.bind(7, {100, kFull, 0, 0}, bound));
    EXPECT_FALSE(senders.bind(7, {100, kFull, 0, 3}, bound));
    ASSERT_TRUE(senders.bind(7, {100, kFull, 0, 4}, bound));
    EXPECT_FALSE(senders.bind(7, {100, kFull, 1, 4}, bound));   // twice
    EXPECT_FALSE(senders.bind(7, {101, ~3ull, 1, 4}, bound));   // another mask
    EXPECT_FALSE(senders.bind(8, {100, ~31ull, 1, 4}, bound));  // too many open bits
    EXPECT_FALSE(senders.close(8, {bound.sender, false}, closed));
    EXPECT_FALSE(senders.close(7, {1, false}, closed));
    EXPECT_FALSE(senders.close(7, {2, false}, closed));
    EXPECT_FALSE(senders.close(7, {0xffff, true}, closed));
    ASSERT_TRUE(senders.close(7, {bound.sender, true}, closed));
    EXPECT_FALSE(senders.close(7, {bound.sender, true}, closed));
}

TEST(TupleSenders, FindTheTupleByTheKeyOfEachPeer) {
    std::vector<uint64_t> grants(4 * TupleSender::words(2));
    TupleSenders senders(grants.data(), 4, 2);
    TupleBound bound;
    TupleClosed closed;
    ASSERT_TRUE(senders.bind(7, {0x100, kFull, 0, 2}, bound));
    ASSERT_TRUE(senders.bind(8, {0x101, ~3ull, 1, 2}, bound));
    const uint16_t wide = bound.sender;
    EXPECT_FALSE(senders.bind(8, {0x102, ~3ull, 2, 2}, bound)) << "it has the same key";
    ASSERT_TRUE(senders.bind(9, {0x100, ~0x30ull, 2, 2}, bound));
    ASSERT_TRUE(senders.bind(7, {0x101, kFull, 3, 2}, bound));
    EXPECT_EQ(senders.find(7, 0x100)->receiver, 0);
    EXPECT_EQ(senders.find(7, 0x101)->receiver, 3);
    EXPECT_EQ(senders.find(7, 0x102), nullptr);
    for (uint64_t tag : {0x100, 0x101, 0x102, 0x103}) {
        ASSERT_NE(senders.find(8, tag), nullptr);
        EXPECT_EQ(senders.find(8, tag)->number, wide);
    }
    EXPECT_EQ(senders.find(8, 0x104), nullptr);
    EXPECT_EQ(senders.find(9, 0x120)->receiver, 2);
    EXPECT_EQ(senders.find(9, 0x101), nullptr);
    // Grants are for the tag that the tuple was bound with.
    for (uint64_t& word : grants) word = Grant(0, 1, 10).raw();
    EXPECT_TRUE(senders.find(8, 0x101)->may_send_direct(0x101, 10));
    EXPECT_FALSE(senders.find(8, 0x100)->may_send_direct(0x100, 10));
    // A peer may use another mask once all its tuples are unbound.
    ASSERT_TRUE(senders.close(8, {wide, true}, closed));
    ASSERT_TRUE(senders.bind(8, {0x102, kFull, 2, 2}, bound));
    EXPECT_EQ(senders.find(8, 0x103), nullptr);
    EXPECT_EQ(senders.find(7, 0x101)->receiver, 3);
}

}  // namespace tuple_test
}  // namespace tern
