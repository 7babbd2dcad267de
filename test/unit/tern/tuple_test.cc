// SPDX-License-Identifier: BSD-3-Clause
// Tuples at both ends: numbers that wrap, limits, and peers that do not keep to the rules.
#include <gtest/gtest.h>

#include <deque>
#include <memory>

#include "schedules.h"
#include "tupleq/tuple_posted.h"
#include "tupleq/tuple_receivers.h"
#include "tupleq/tuple_senders.h"

namespace tern {
namespace {

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
    uint64_t slots[2] = {0, Grant(0, 1, 10).raw()};
    TupleSender sender(slots, 2);
    EXPECT_FALSE(sender.may_send_direct(11, false));
    EXPECT_FALSE(sender.may_send_direct(10, true));
    ASSERT_TRUE(sender.may_send_direct(10, false));
    EXPECT_EQ(sender.sent_direct(), 1);
    EXPECT_EQ(slots[1], 0u);
    EXPECT_FALSE(sender.may_send_direct(0, false));
}

TEST(TupleSender, AnOrdinaryMessageEndsTheEpoch) {
    uint64_t slots[4] = {0, Grant(0, 1, 10).raw(), Grant(0, 2, 10).raw(), 0};
    TupleSender sender(slots, 4);
    EXPECT_EQ(sender.sent_ordinary(), 1);
    EXPECT_FALSE(sender.may_send_direct(1, false));
    slots[2] = Grant(1, 2, 10).raw();
    EXPECT_TRUE(sender.may_send_direct(1, false));
    EXPECT_EQ(sender.close(), 1);
    EXPECT_FALSE(sender.may_send_direct(1, false));
}

// Sequence and epoch go on together when all messages are ordinary, and are the same again after
// 2^16 of them. A grant from before must not be.
TEST(TupleSender, AGrantDoesNotComeBackWhenTheNumbersDo) {
    constexpr uint32_t kDepth = 4;
    uint64_t slots[kDepth] = {};
    TupleSender sender(slots, kDepth);
    for (uint16_t sequence = 1; sequence <= kDepth; ++sequence)
        slots[sequence % kDepth] = Grant(0, sequence, 10).raw();
    for (int i = 0; i < 3 * 65536; ++i) {
        sender.sent_ordinary();
        ASSERT_FALSE(sender.may_send_direct(1, false)) << i;
    }
}

// One sender and one receiver for several times as many messages as there are numbers.
TEST(TupleReceiver, KeepsPaceWithTheSenderWhenNumbersWrap) {
    constexpr uint32_t kDepth = 8;
    Random random(number_from_environment("TERN_SEED", 1));
    uint64_t slots[kDepth] = {};
    TupleSender sender(slots, kDepth);
    TupleReceiver receiver(kDepth);
    receiver.bind();
    receiver.bound();
    uint64_t direct = 0;
    uint64_t next = 1;              // receive to be granted
    std::deque<uint64_t> in_queue;  // receives
    for (int message = 0; message < 400'000; ++message) {
        while (receiver.may_grant() && random.chance(80)) {
            const Grant grant = receiver.grant(next, 100);
            in_queue.push_back(next++);
            if (random.chance(90)) slots[grant.sequence() % kDepth] = grant.raw();
        }
        TupleReceiver::Entry entry;
        uint32_t place = 0;
        bool claimed = false;
        if (sender.may_send_direct(random.between(90, 101), false)) {
            sender.sent_direct();
            ++direct;
            ASSERT_TRUE(receiver.arrive(entry, place, claimed));
            ASSERT_EQ(entry.receive, in_queue.front());
            in_queue.pop_front();
            continue;
        }
        const bool close = random.chance(5);
        const uint16_t last = close ? sender.close() : sender.sent_ordinary() - 1;
        uint32_t begin = 0;
        uint32_t voids = 0;
        uint32_t end = 0;
        ASSERT_TRUE(receiver.end_epoch(last, begin, voids, end));
        ASSERT_EQ(begin, voids);
        ASSERT_EQ(end, in_queue.size());
        if (!close) receiver.count_ordinary();
        for (uint32_t left = receiver.drain(); left != 0; --left)
            ASSERT_TRUE(receiver.drained(place));
        ASSERT_TRUE(receiver.empty());
        in_queue.clear();
    }
    EXPECT_GT(direct, 200'000u);
}

TEST(TupleSenders, RefuseWhatTheyHaveNoRoomFor) {
    std::vector<uint64_t> grants(2 * 4);
    TupleSenders senders(grants.data(), 2, 4);
    TupleBound answer;
    ASSERT_TRUE(senders.bind(7, {100, 0, 4}, answer));
    EXPECT_NE(answer.sender, TupleBound::kRefused);
    ASSERT_TRUE(senders.bind(7, {101, 1, 8}, answer));
    EXPECT_EQ(answer.sender, TupleBound::kRefused);  // deeper than there are slots
    EXPECT_EQ(answer.tuple, 1);
    ASSERT_TRUE(senders.bind(8, {100, 5, 2}, answer));
    EXPECT_NE(answer.sender, TupleBound::kRefused);
    EXPECT_EQ(answer.slot, 4u);
    ASSERT_TRUE(senders.bind(8, {102, 6, 1}, answer));
    EXPECT_EQ(answer.sender, TupleBound::kRefused);
    EXPECT_EQ(senders.bound(), 2u);

    ASSERT_NE(senders.find(7, 100), nullptr);
    EXPECT_EQ(senders.find(8, 100)->receiver, 5);
    EXPECT_EQ(senders.find(7, 102), nullptr);
    senders.peer_died(7);
    EXPECT_EQ(senders.find(7, 100), nullptr);
    EXPECT_EQ(senders.bound(), 1u);
    ASSERT_TRUE(senders.bind(8, {102, 6, 1}, answer));
    EXPECT_EQ(answer.slot, 0u);
}

TEST(TupleSenders, TrustNoReceiver) {
    std::vector<uint64_t> grants(2 * 4);
    TupleSenders senders(grants.data(), 2, 4);
    TupleBound bound;
    TupleClosed closed;
    EXPECT_FALSE(senders.bind(7, {100, 0, 0}, bound));
    EXPECT_FALSE(senders.bind(7, {100, 0, 3}, bound));
    ASSERT_TRUE(senders.bind(7, {100, 0, 4}, bound));
    EXPECT_FALSE(senders.bind(7, {100, 1, 4}, bound));  // twice
    EXPECT_FALSE(senders.close(8, {bound.sender, false}, closed));
    EXPECT_FALSE(senders.close(7, {1, false}, closed));
    EXPECT_FALSE(senders.close(7, {2, false}, closed));
    EXPECT_FALSE(senders.close(7, {0xffff, true}, closed));
    ASSERT_TRUE(senders.close(7, {bound.sender, true}, closed));
    EXPECT_FALSE(senders.close(7, {bound.sender, true}, closed));
}

// Receives in the transport's own table.
struct Receive : PostedReceive {
    uint64_t bytes = 100;
    bool pinnable = true;
};

struct Table : TuplePosted {
    using TuplePosted::TuplePosted;

    uint64_t capacity(ReceiveHandle handle) const {
        return static_cast<Receive*>(receive(handle))->bytes;
    }
    bool prepare(ReceiveHandle handle) const {
        return static_cast<Receive*>(receive(handle))->pinnable;
    }
};

class TupleReceiversTest : public testing::Test {
  protected:
    using Receivers = TupleReceivers<Table>;
    using Verdict = Receivers::Arrival::Verdict;
    using Kind = TupleAction::Kind;

    static constexpr uint64_t kTag = 5;

    Receive& post(uint64_t tag = kTag, uint64_t mask = PostedReceive::kFullMask,
                  bool pinnable = true) {
        Receive& receive = *receives_.emplace_back(std::make_unique<Receive>());
        posted_.post(receive, tag, mask);
        receive.pinnable = pinnable;
        if (mask == PostedReceive::kFullMask) receivers_.posted(tag);
        return receive;
    }
    std::vector<TupleAction> actions() {
        std::vector<TupleAction> all;
        for (; !receivers_.actions().empty(); receivers_.actions().pop())
            all.push_back(receivers_.actions().front());
        return all;
    }
    void bind(uint32_t peer = 1) {
        ASSERT_TRUE(receivers_.bind(peer, kTag));
        ASSERT_TRUE(receivers_.bound(peer, {0, 3, 40}));
        actions();
    }
    Verdict ordinary(uint32_t peer, TupleMark mark) {
        return receivers_.ordinary(peer, kTag, &mark).verdict;
    }

    std::vector<std::unique_ptr<Receive>> receives_;
    PostedReceives posted_{16};
    Table table_{posted_};
    Receivers receivers_{table_, 2, 4};
};

TEST_F(TupleReceiversTest, GrantsWhatIsPostedBeforeAndAfterTheTupleIsBound) {
    Receive& first = post();
    bind();
    EXPECT_EQ(receivers_.counters().grants, 1u);
    Receive& second = post();
    const auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kGrant);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&second));
    EXPECT_EQ(all[0].grant.sequence(), 2);
    EXPECT_EQ(all[0].grant.capacity(), 100u);
    EXPECT_EQ(all[0].slot, 42u);
    EXPECT_EQ(receivers_.direct(0).receive, TuplePosted::handle(&first));
    EXPECT_FALSE(first.posted);
    EXPECT_TRUE(second.posted);
}

TEST_F(TupleReceiversTest, GrantsNoMoreThanTheQueueHolds) {
    bind();
    for (int i = 0; i < 6; ++i) post();
    EXPECT_EQ(actions().size(), 4u);
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    EXPECT_EQ(actions().size(), 1u);
}

TEST_F(TupleReceiversTest, AReceiveThatCannotBePinnedStopsThoseBehindIt) {
    bind();
    post();
    Receive& stubborn = post(kTag, PostedReceive::kFullMask, false);
    Receive& last = post();
    EXPECT_EQ(actions().size(), 1u);
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    // Message 2 goes to it the ordinary way.
    const TupleMark mark{0, 2};
    EXPECT_EQ(receivers_.ordinary(1, kTag, &mark).receive, TuplePosted::handle(&stubborn));
    const auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&last));
    EXPECT_EQ(all[0].grant.epoch(), 1);
    EXPECT_EQ(all[0].grant.sequence(), 3);
}

TEST_F(TupleReceiversTest, AWildcardOfOtherTagsIsNoObstacle) {
    bind();
    post(0x100, 0xff00);
    post();
    EXPECT_EQ(actions().size(), 1u);
    Receive& obstacle = post(kTag, 0x0f);
    post();
    EXPECT_EQ(actions().size(), 0u);
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&obstacle), kTag, false),
              Receivers::Cancel::kDone);
    EXPECT_EQ(actions().size(), 1u);
}

TEST_F(TupleReceiversTest, ACancelWaitsForTheSender) {
    bind();
    Receive& first = post();
    Receive& second = post();
    actions();
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true),
              Receivers::Cancel::kLater);
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&second), kTag, true),
              Receivers::Cancel::kLater);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kClose);
    EXPECT_EQ(all[0].close.sender, 3);
    // One message has gone the direct way before Close came.
    ASSERT_TRUE(receivers_.closed(1, {0, 1, false}));
    all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kCancelled);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&second));
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true),
              Receivers::Cancel::kNever);
    EXPECT_EQ(receivers_.direct(0).receive, TuplePosted::handle(&first));
    all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kDrain);
    EXPECT_EQ(all[0].count, 1u);
    uint32_t place = 0;
    EXPECT_TRUE(receivers_.drained(0, place));
    EXPECT_EQ(place, 1u);
    EXPECT_EQ(posted_.size(), 0u);
}

TEST_F(TupleReceiversTest, BindsNoMoreThanItHasQueues) {
    EXPECT_TRUE(receivers_.bind(1, 10));
    EXPECT_FALSE(receivers_.bind(2, 10));
    EXPECT_TRUE(receivers_.bind(1, 11));
    EXPECT_FALSE(receivers_.bind(1, 12));
    // A refusal frees the queue.
    ASSERT_TRUE(receivers_.bound(1, {0, TupleBound::kRefused, 0}));
    EXPECT_TRUE(receivers_.bind(1, 12));
}

TEST_F(TupleReceiversTest, TrustsNoSender) {
    EXPECT_FALSE(receivers_.bound(1, {0, 0, 0}));
    EXPECT_FALSE(receivers_.bound(1, {77, 0, 0}));
    EXPECT_EQ(ordinary(1, {0, 1}), Verdict::kBroken);
    bind();
    post();
    EXPECT_FALSE(receivers_.bound(1, {0, 3, 40}));
    EXPECT_FALSE(receivers_.closed(1, {0, 0, false}));
    EXPECT_FALSE(receivers_.closed(1, {0, 0, true}));
    EXPECT_FALSE(receivers_.closed(2, {0, 0, true}));
    EXPECT_EQ(receivers_.ordinary(1, kTag, nullptr).verdict, Verdict::kBroken);  // not numbered
    EXPECT_EQ(ordinary(2, {0, 1}), Verdict::kBroken);                            // another's
    EXPECT_EQ(ordinary(1, {1, 1}), Verdict::kBroken);
    EXPECT_EQ(ordinary(1, {0, 3}), Verdict::kBroken);  // two direct ones, but one is granted
    EXPECT_EQ(ordinary(1, {0, 0}), Verdict::kBroken);
    EXPECT_EQ(receivers_.direct(1).receive, 0u);
    uint32_t place = 0;
    EXPECT_FALSE(receivers_.drained(0, place));
    EXPECT_EQ(receivers_.retry(1, kTag).verdict, Verdict::kBroken);
    EXPECT_EQ(ordinary(1, {0, 1}), Verdict::kMatched);
}

TEST_F(TupleReceiversTest, WhenThePeerDiesWhatWasGrantedWaitsForOthers) {
    bind();
    Receive& lost = post();
    Receive& free = post();
    actions();
    // Message 1 is on its way, and message 2 came the ordinary way.
    const TupleMark mark{0, 2};
    EXPECT_EQ(receivers_.ordinary(1, kTag, &mark).receive, TuplePosted::handle(&free));
    Receive& third = post();
    receivers_.peer_died(1);
    const auto all = actions();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].kind, Kind::kFailed);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&lost));
    EXPECT_EQ(all[1].kind, Kind::kDiscard);
    EXPECT_EQ(receivers_.ordinary(2, kTag, nullptr).receive, TuplePosted::handle(&third));
    // Two tags can be bound again once the queue is a new one.
    EXPECT_TRUE(receivers_.bind(2, kTag));
    EXPECT_FALSE(receivers_.bind(2, kTag + 1));
    receivers_.replaced(0);
    EXPECT_TRUE(receivers_.bind(2, kTag + 1));
}

// A message of a peer whose receive is granted to another one waits for that one's answer.
TEST_F(TupleReceiversTest, ATagOfTwoPeersIsNoTuple) {
    bind();
    Receive& receive = post();
    actions();
    EXPECT_EQ(receivers_.ordinary(2, kTag, nullptr).verdict, Verdict::kHold);
    EXPECT_EQ(receivers_.ordinary(2, kTag + 1, nullptr).verdict, Verdict::kHold);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(all[0].close.unbind);
    ASSERT_TRUE(receivers_.closed(1, {0, 0, true}));
    all = actions();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].kind, Kind::kRetry);
    EXPECT_EQ(all[0].peer, 2u);
    EXPECT_EQ(all[1].kind, Kind::kDrain);
    EXPECT_EQ(receivers_.retry(2, kTag).receive, TuplePosted::handle(&receive));
    EXPECT_EQ(receivers_.retry(2, kTag + 1).receive, 0u);
    EXPECT_EQ(receivers_.retry(2, kTag + 1).verdict, Verdict::kBroken);
}

}  // namespace
}  // namespace tern
