// SPDX-License-Identifier: BSD-3-Clause
// Receives, grants, cancels and deaths of peers, one step at a time, over the transport's own table
// of posted receives.
#include "tern/tupleq/core/matcher.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tern/tupleq/core/posted.h"

namespace tern {
namespace {

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

class TupleMatcherTest : public testing::Test {
  protected:
    using Receivers = TupleMatcher<Table>;
    using Verdict = Receivers::Arrival::Verdict;
    using Kind = TupleAction::Kind;

    static constexpr uint64_t kTag = 5;

    Receive& post(uint64_t tag = kTag, uint64_t mask = PostedReceive::kFullMask,
                  bool pinnable = true) {
        Receive& receive = *receives_.emplace_back(std::make_unique<Receive>());
        posted_.post(receive, tag, mask);
        receive.pinnable = pinnable;
        if (posted_.is_keyed(receive)) receivers_.posted(tag);
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

    // Message `sequence` is ordinary; the void entries that it leaves are drained.
    void miss(uint16_t sequence) {
        EXPECT_EQ(ordinary(1, {0, sequence}), Verdict::kMatched);
        uint32_t place = 0;
        while (receivers_.drained(0, place)) continue;
    }

    std::vector<std::unique_ptr<Receive>> receives_;
    PostedReceives posted_{16};
    Table table_{posted_};
    Receivers receivers_{table_, 2, 4};
};

TEST_F(TupleMatcherTest, GrantsWhatIsPostedBeforeAndAfterTheTupleIsBound) {
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

TEST_F(TupleMatcherTest, GrantsNoMoreThanTheQueueHolds) {
    bind();
    for (int i = 0; i < 6; ++i) post();
    EXPECT_EQ(actions().size(), 4u);
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    EXPECT_EQ(actions().size(), 1u);
}

TEST_F(TupleMatcherTest, GrantsLessWhenGrantsAreNotUsedAndThenNone) {
    bind();
    for (int i = 0; i < 3; ++i) post();
    const auto granted = [this] { return receivers_.queue(0).granted(); };
    EXPECT_EQ(granted(), 3u);
    miss(1);
    EXPECT_EQ(granted(), 1u);  // a quarter of the first width, granted late
    miss(2);
    EXPECT_EQ(granted(), 0u);  // late grants pause
    Receive& last = post();
    EXPECT_EQ(granted(), 1u);  // grants for posted receives do not
    miss(3);
    EXPECT_EQ(granted(), 0u);  // now both pause
    const TupleMark mark{0, 4};
    EXPECT_EQ(receivers_.ordinary(1, kTag, &mark).receive, TuplePosted::handle(&last));
    post();
    post();
    EXPECT_EQ(granted(), 1u);  // a try
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    EXPECT_EQ(granted(), 1u);
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    for (int i = 0; i < 4; ++i) post();
    EXPECT_EQ(granted(), 2u);
}

// A cancel is done at once, and an unbind waits only for the sender's answer.
TEST_F(TupleMatcherTest, WhatIsNotGrantedIsCanceledAtOnce) {
    bind();
    for (uint16_t sequence = 1; sequence < 3; ++sequence) {
        post();
        miss(sequence);
    }
    Receive& first = post();
    Receive& second = post();
    ASSERT_EQ(receivers_.queue(0).granted(), 0u);
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true), Receivers::Cancel::kDone);
    actions();
    receivers_.unbind(0);
    const auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(all[0].close.unbind);
    ASSERT_TRUE(receivers_.closed(1, {0, 2, true}));
    EXPECT_EQ(receivers_.queue(0).state(), TupleReceiver::State::kFree);
    EXPECT_EQ(receivers_.ordinary(1, kTag, nullptr).receive, TuplePosted::handle(&second));
}

// A grant that the receiver takes back says nothing about the sender.
TEST_F(TupleMatcherTest, ACancelDoesNotCountAsAMiss) {
    bind();
    Receive& first = post();
    for (int i = 0; i < 3; ++i) post();
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true),
              Receivers::Cancel::kLater);
    receivers_.revoked(0, 1, 0);
    uint32_t place = 0;
    actions();
    while (receivers_.drained(0, place)) continue;
    EXPECT_EQ(receivers_.queue(0).granted(), 3u);
}

TEST_F(TupleMatcherTest, AReceiveThatCannotBePinnedStopsThoseBehindIt) {
    bind();
    post();
    Receive& stubborn = post(kTag, PostedReceive::kFullMask, false);
    Receive& last = post();
    EXPECT_EQ(actions().size(), 1u);
    EXPECT_NE(receivers_.direct(0).receive, 0u);
    // Message 2 is ordinary, and takes the receive that was not granted.
    const TupleMark mark{0, 2};
    EXPECT_EQ(receivers_.ordinary(1, kTag, &mark).receive, TuplePosted::handle(&stubborn));
    const auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&last));
    EXPECT_EQ(all[0].grant.epoch(), 1);
    EXPECT_EQ(all[0].grant.sequence(), 3);
}

TEST_F(TupleMatcherTest, AWildcardOfOtherTagsIsNoObstacle) {
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

TEST_F(TupleMatcherTest, ACancelWaitsForWhatTheSenderHasAnnounced) {
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
    EXPECT_EQ(all[0].kind, Kind::kRevoke);
    EXPECT_EQ(receivers_.tuple(0).announced_slot() - receivers_.tuple(0).slot(0),
              receivers_.queue(0).depth());
    EXPECT_TRUE(receivers_.undecided(0));
    receivers_.revoked(0, all[0].count + 1, 0);  // the answer to another kRevoke
    EXPECT_TRUE(actions().empty());
    // One message has been sent direct before.
    receivers_.revoked(0, all[0].count, 1);
    all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kCanceled);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&second));
    EXPECT_TRUE(receivers_.undecided(0));
    post();
    EXPECT_TRUE(actions().empty()) << "nothing is granted behind void entries";
    EXPECT_EQ(receivers_.direct(0).receive, TuplePosted::handle(&first));
    all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kDrain);
    EXPECT_EQ(all[0].count, 1u);
    EXPECT_FALSE(receivers_.undecided(0));
    uint32_t place = 0;
    EXPECT_TRUE(receivers_.drained(0, place));
    EXPECT_EQ(place, 1u);
    EXPECT_EQ(posted_.size(), 1u);
    // The epoch is the same as before.
    all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].grant.epoch(), 0);
    EXPECT_EQ(all[0].grant.sequence(), 2);
}

// The first read finds the number of a message that the sender then withdraws.
TEST_F(TupleMatcherTest, AnAnnouncementMayBeWithdrawn) {
    bind();
    Receive& first = post();
    actions();
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true),
              Receivers::Cancel::kLater);
    receivers_.revoked(0, actions().at(0).count, 1);
    EXPECT_TRUE(actions().empty());
    ASSERT_TRUE(receivers_.undecided(0));
    receivers_.ask_again(0);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kRevoke);
    receivers_.ask_again(0);
    EXPECT_TRUE(actions().empty()) << "it is being read";
    receivers_.revoked(0, all[0].count, 0);
    all = actions();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].kind, Kind::kCanceled);
    EXPECT_EQ(all[1].kind, Kind::kDrain);
    EXPECT_EQ(ordinary(1, {0, 1}), Verdict::kMatched);
}

// A message of another peer waits until the last message that was sent direct has come, and not for
// the sender's answer to Close, nor for any other frame of the sender.
TEST_F(TupleMatcherTest, HeldMessagesWaitForNoAnswer) {
    bind();
    Receive& first = post();
    Receive& second = post();
    actions();
    EXPECT_EQ(receivers_.ordinary(2, kTag, nullptr).verdict, Verdict::kHold);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kRevoke);
    receivers_.revoked(0, all[0].count, 1);
    EXPECT_TRUE(actions().empty()) << "the first message is on its way, or will be withdrawn";
    EXPECT_TRUE(receivers_.undecided(0));
    EXPECT_TRUE(receivers_.awaited(0));
    EXPECT_EQ(receivers_.direct(0).receive, TuplePosted::handle(&first));
    all = actions();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].kind, Kind::kRetry);
    EXPECT_EQ(all[0].peer, 2u);
    EXPECT_EQ(all[1].kind, Kind::kClose);
    EXPECT_EQ(all[2].kind, Kind::kDrain);
    EXPECT_EQ(receivers_.retry(2, kTag).receive, TuplePosted::handle(&second));
    EXPECT_FALSE(receivers_.undecided(0));
}

// A tuple is being unbound when the message of another peer comes, and the sender has withdrawn
// what it had announced.
TEST_F(TupleMatcherTest, GrantsOfAnUnboundTupleAreAskedForAgain) {
    bind();
    Receive& receive = post();
    actions();
    receivers_.unbind(0);
    receivers_.revoked(0, actions().at(0).count, 1);
    EXPECT_TRUE(actions().empty()) << "Close waits until the grant is decided";
    EXPECT_TRUE(receivers_.undecided(0));
    EXPECT_FALSE(receivers_.awaited(0));
    EXPECT_EQ(receivers_.ordinary(2, kTag, nullptr).verdict, Verdict::kHold);
    EXPECT_TRUE(receivers_.awaited(0));
    receivers_.ask_again(0);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    receivers_.revoked(0, all[0].count, 0);
    all = actions();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].kind, Kind::kRetry);
    EXPECT_EQ(all[1].kind, Kind::kClose);
    EXPECT_EQ(receivers_.retry(2, kTag).receive, TuplePosted::handle(&receive));
}

// The announced number is a word in the sender's memory, and may have any value.
TEST_F(TupleMatcherTest, ANumberThatCannotBeClaimsNoMoreThanThereIs) {
    bind();
    Receive& first = post();
    post();
    actions();
    EXPECT_EQ(receivers_.cancel(TuplePosted::handle(&first), kTag, true),
              Receivers::Cancel::kLater);
    receivers_.revoked(0, actions().at(0).count, 40000);
    EXPECT_EQ(receivers_.queue(0).granted(), 2u);
    EXPECT_EQ(receivers_.queue(0).void_entries(), 0u);
}

TEST_F(TupleMatcherTest, BindsNoMoreThanItHasQueues) {
    EXPECT_TRUE(receivers_.bind(1, 10));
    EXPECT_FALSE(receivers_.bind(2, 10));
    EXPECT_TRUE(receivers_.bind(1, 11));
    EXPECT_FALSE(receivers_.bind(1, 12));
    ASSERT_TRUE(receivers_.bound(1, {0, TupleBound::kRefused, 0}));
    EXPECT_TRUE(receivers_.bind(1, 12));
}

TEST_F(TupleMatcherTest, TrustsNoSender) {
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
    EXPECT_EQ(ordinary(2, {0, 1}), Verdict::kBroken);                            // another peer's
    EXPECT_EQ(ordinary(1, {1, 1}), Verdict::kBroken);
    EXPECT_EQ(ordinary(1, {0, 3}), Verdict::kBroken);  // two direct ones, but one is granted
    EXPECT_EQ(ordinary(1, {0, 0}), Verdict::kBroken);
    EXPECT_EQ(receivers_.direct(1).receive, 0u);
    uint32_t place = 0;
    EXPECT_FALSE(receivers_.drained(0, place));
    EXPECT_EQ(receivers_.retry(1, kTag).verdict, Verdict::kBroken);
    EXPECT_EQ(ordinary(1, {0, 1}), Verdict::kMatched);
}

TEST_F(TupleMatcherTest, WhenThePeerDiesWhatWasGrantedWaitsForOthers) {
    bind();
    Receive& lost = post();
    Receive& free = post();
    actions();
    // Message 1 is on its way, and message 2 was ordinary.
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
    // Both tags can be bound again only when the queue has been replaced.
    EXPECT_TRUE(receivers_.bind(2, kTag));
    EXPECT_FALSE(receivers_.bind(2, kTag + 1));
    receivers_.replaced(0);
    EXPECT_TRUE(receivers_.bind(2, kTag + 1));
}

// All messages with the key belong to the tuple, whatever their open bits are.
TEST_F(TupleMatcherTest, TuplesAreOfKeys) {
    constexpr uint64_t kTwoOpen = ~uint64_t{3};
    for (int i = 0; i < 32; ++i) post(100, kTwoOpen);
    ASSERT_TRUE(posted_.wants_other_key());
    receivers_.change_key();
    EXPECT_EQ(posted_.key_mask(), kTwoOpen) << "no tuple is in the way";
    bind();
    Receive& first = post(kTag ^ 2, kTwoOpen);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].receive, TuplePosted::handle(&first));
    EXPECT_EQ(receivers_.tuples().lookup(kTag ^ 3), 0);
    EXPECT_EQ(receivers_.tuples().lookup(kTag + 4), TupleIndex::kNone);
    EXPECT_FALSE(receivers_.bind(1, kTag ^ 1));
    EXPECT_EQ(receivers_.ordinary(1, kTag ^ 1, nullptr).verdict, Verdict::kBroken);
    const TupleMark mark{0, 1};
    EXPECT_EQ(receivers_.ordinary(1, kTag ^ 1, &mark).receive, TuplePosted::handle(&first));
    // A receive that could match only some of these messages is an obstacle.
    actions();
    post(kTag ^ 1);
    post(kTag, kTwoOpen);
    EXPECT_EQ(actions().size(), 0u);
}

// The tuple can then be bound again, with the tag that most messages have.
TEST_F(TupleMatcherTest, ATupleWhoseTagDoesNotComeAnyMoreIsUnbound) {
    for (int i = 0; i < 32; ++i) post(100, ~uint64_t{3});
    receivers_.change_key();
    bind();
    uint16_t sequence = 0;
    const auto other = [&](uint64_t tag) {
        const TupleMark mark{0, ++sequence};
        EXPECT_EQ(receivers_.ordinary(1, tag, &mark).verdict, Verdict::kMatched);
        return !actions().empty();
    };
    for (int i = 0; i < 15; ++i) EXPECT_FALSE(other(kTag ^ 1));
    EXPECT_FALSE(other(kTag));
    for (int i = 0; i < 15; ++i) EXPECT_FALSE(other(kTag ^ 1));
    EXPECT_TRUE(other(kTag ^ 2));
    ASSERT_TRUE(receivers_.closed(1, {0, sequence, true}));
    EXPECT_TRUE(receivers_.bind(1, kTag ^ 1));
}

TEST_F(TupleMatcherTest, TheKeyMaskChangesWhenAllTuplesAreUnbound) {
    bind();
    Receive& receive = post();
    ASSERT_TRUE(receivers_.bind(2, kTag + 1));
    actions();
    for (int i = 0; i < 32; ++i) post(100, ~uint64_t{3});
    receivers_.change_key();
    receivers_.change_key();
    auto all = actions();
    ASSERT_EQ(all.size(), 1u) << "the other one is not bound yet";
    EXPECT_EQ(all[0].kind, Kind::kRevoke);
    receivers_.revoked(0, all[0].count, 0);
    all = actions();
    ASSERT_EQ(all.size(), 2u);
    EXPECT_TRUE(all[0].close.unbind);
    EXPECT_EQ(all[1].kind, Kind::kDrain);
    EXPECT_FALSE(receivers_.bind(1, kTag + 2));
    ASSERT_TRUE(receivers_.closed(1, {0, 0, true}));
    uint32_t place = 0;
    ASSERT_TRUE(receivers_.drained(0, place));
    EXPECT_EQ(receivers_.queue(0).state(), TupleReceiver::State::kFree);
    EXPECT_EQ(posted_.key_mask(), PostedReceive::kFullMask);
    EXPECT_TRUE(posted_.is_keyed(receive));
    ASSERT_TRUE(receivers_.bound(2, {1, 4, 0}));
    ASSERT_TRUE(receivers_.closed(2, {1, 0, true}));
    EXPECT_EQ(posted_.key_mask(), ~uint64_t{3});
    EXPECT_FALSE(posted_.is_keyed(receive));
    EXPECT_TRUE(receivers_.bind(1, kTag + 2));
}

// A message whose receive is granted to another peer is held until that grant is taken back.
TEST_F(TupleMatcherTest, ATagOfTwoPeersIsNoTuple) {
    bind();
    Receive& receive = post();
    actions();
    EXPECT_EQ(receivers_.ordinary(2, kTag, nullptr).verdict, Verdict::kHold);
    EXPECT_EQ(receivers_.ordinary(2, kTag + 1, nullptr).verdict, Verdict::kHold);
    auto all = actions();
    ASSERT_EQ(all.size(), 1u);
    EXPECT_EQ(all[0].kind, Kind::kRevoke);
    receivers_.revoked(0, all[0].count, 0);
    all = actions();
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0].kind, Kind::kRetry) << "the first peer need not say anything";
    EXPECT_EQ(all[0].peer, 2u);
    EXPECT_TRUE(all[1].close.unbind);
    EXPECT_EQ(all[2].kind, Kind::kDrain);
    EXPECT_EQ(receivers_.retry(2, kTag).receive, TuplePosted::handle(&receive));
    EXPECT_EQ(receivers_.retry(2, kTag + 1).receive, 0u);
    EXPECT_EQ(receivers_.retry(2, kTag + 1).verdict, Verdict::kBroken);
}

}  // namespace
}  // namespace tern
