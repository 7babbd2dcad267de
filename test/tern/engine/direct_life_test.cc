// SPDX-License-Identifier: BSD-3-Clause
// Direct messages when peers, and links with them, come and go.
#include <algorithm>

#include "direct_pair.h"

namespace tern::test {
namespace {

TEST_F(DirectMessages, PeerThatGoesTakesItsGrantsWithIt) {
    bind();
    auto& receive = receiver->post(kTag);
    quiesce();
    sender.reset();
    ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
    quiesce();
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
    EXPECT_FALSE(receive.done);
    EXPECT_TRUE(receive.posted) << "anybody may send it";
    // The queue serves the next peer.
    sender = std::make_unique<DirectNode>();
    ASSERT_NO_FATAL_FAILURE(meet());
    bind();
    ASSERT_TRUE(granted());
    send("from another");
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
    EXPECT_EQ(receive.text, "from another");
}

// A peer that is asked for a tuple goes before it answers: the tuple's place is free again, for the
// policy too.
TEST_F(DirectMessages, PeerThatGoesBeforeItIsBound) {
    for (uint64_t tag = 1; tag <= 4; ++tag) ASSERT_TRUE(receiver->tupleq->bind(*in, tag));
    EXPECT_FALSE(receiver->tupleq->bind(*in, 5));
    sender.reset();
    ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
    sender = std::make_unique<DirectNode>();
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint64_t tag = 1; tag <= 4; ++tag) bind(tag);
    auto& receive = receiver->post(4);
    ASSERT_TRUE(granted(4));
    send("hello", 4);
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
}

// The peer may have destroyed the queue already, and another tuple's queue may have its number.
TEST_F(DirectMessages, NothingIsSentOnAChannelThatHasFailed) {
    bind();
    receiver->post(kTag);
    ASSERT_TRUE(granted());
    sender->engine->fail(*out, Status::kTimedOut, "the test wants it so");
    EXPECT_EQ(sender->tupleq->sender().find(*out, kTag), nullptr);
    EXPECT_FALSE(sender->send(*out, kTag, "nothing"));
    EXPECT_EQ(sent().sent, 0u);
    ASSERT_TRUE(settled([this] { return sender->ends == 1 && receiver->ends == 1; }));
}

// The sender's device does not take the link's settings. The tuple is refused each time it is asked
// for, and its messages go the ordinary way.
TEST_F(DirectMessages, LinkThatCannotBeMade) {
    TupleQSettings settings = few_tuples();
    settings.retry.retries = 8;
    sender = std::make_unique<DirectNode>(settings);
    ASSERT_NO_FATAL_FAILURE(meet());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(receiver->tupleq->bind(*in, kTag));
        EXPECT_EQ(receiver->tupleq->queues_in_use(), 1u);
        ASSERT_TRUE(settled([&] { return receiver->tupleq->queues_in_use() == 0; }));
        auto& receive = receiver->post(kTag);
        send("the ordinary way");
        ASSERT_TRUE(settled([&] { return receive.done; }));
        EXPECT_FALSE(receive.direct);
    }
    EXPECT_TRUE(settled([&] { return sender->tupleq->arm() == Status::kOk; }));
    EXPECT_EQ(sent().links, 0u);
    EXPECT_TRUE(out->up() && in->up());
}

// A sender that asks for the other end of a link may sleep until the answer comes, however long the
// peer computes.
TEST_F(DirectMessages, SleepsWhileALinkIsAskedFor) {
    std::string why;
    ASSERT_GE(sender->engine->sleep()->event_fd(why), 0) << why;
    const auto asked = [this] { return sender->engine->counters().received_cold; };
    const uint64_t before = asked();
    ASSERT_TRUE(receiver->tupleq->bind(*in, kTag));
    ASSERT_TRUE(until([this] { sender->poll(); }, [&] { return asked() > before; }));
    EXPECT_TRUE(
        until([this] { sender->poll(); }, [this] { return sender->tupleq->arm() == Status::kOk; }));
    EXPECT_EQ(sent().links, 0u);
    ASSERT_TRUE(settled([&] { return sender->tupleq->sender().find(*out, kTag) != nullptr; }));
    EXPECT_EQ(sent().links, 1u);
}

// Two receivers on one node share the sender's link. The receiver with the link's other end leaves.
TEST_F(DirectMessages, LinkOutlivesNeitherItsHostNorAnybodysMessages) {
    bind();
    third = std::make_unique<DirectNode>();
    ASSERT_NO_FATAL_FAILURE(meet_third());
    quiesce();
    EXPECT_EQ(sent().links, 1u);
    auto& first = third->post(7);
    ASSERT_TRUE(granted(*to_third, 7));
    ASSERT_TRUE(sender->send(*to_third, 7, "by the first's link"));
    ASSERT_TRUE(settled([&] { return first.done; }));
    EXPECT_TRUE(first.direct);

    receiver->engine->leave(in, receiver.get());
    sender->engine->leave(out, sender.get());
    ASSERT_TRUE(settled([&] { return receiver->ends == 1 && sender->ends == 1; }));
    auto& second = third->post(7);
    quiesce();
    ASSERT_TRUE(sender->send(*to_third, 7, "the ordinary way"));
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_FALSE(second.direct);
    EXPECT_EQ(second.text, "the ordinary way");
    // A new tuple makes a new link.
    ASSERT_TRUE(third->tupleq->bind(*from_third, 8));
    ASSERT_TRUE(settled([&] { return sender->tupleq->sender().find(*to_third, 8) != nullptr; }));
    auto& other = third->post(8);
    ASSERT_TRUE(granted(*to_third, 8));
    ASSERT_TRUE(sender->send(*to_third, 8, "by its own"));
    ASSERT_TRUE(settled([&] { return other.done; }));
    EXPECT_TRUE(other.direct);
    EXPECT_EQ(sent().links, 2u);
    EXPECT_EQ(sent().links_lost, 0u);
    EXPECT_TRUE(sender->closures == std::vector<Status>() ||
                sender->closures == std::vector{Status::kOk});
}

// The link's other end vanishes while a message to another process of the node is under way. The
// message may have arrived, so it is not sent again.
TEST_F(DirectMessages, LinkThatBreaksEndsTheChannelsWhoseMessagesItHad) {
    bind();
    third = std::make_unique<DirectNode>();
    ASSERT_NO_FATAL_FAILURE(meet_third());
    quiesce();
    auto& receive = third->post(7);
    ASSERT_TRUE(granted(*to_third, 7));
    ASSERT_EQ(sent().links, 1u);
    receiver.reset();
    // The sender does not know of this yet.
    const std::string text(64, 'l');
    TupleQ::Tuple* tuple = sender->tupleq->sender().find(*to_third, 7);
    ASSERT_TRUE(sender->tupleq->sender().may_send(*tuple, 7, text.size()));
    ASSERT_EQ(sender->tupleq->sender().send_zcopy(*to_third, *tuple, text.data(), 64, &tuple),
              Status::kInProgress);
    uint64_t cookie = 0;  // aligned as users' cookies are
    ASSERT_EQ(sender->tupleq->sender().flush(*to_third, {&cookie}), Status::kInProgress);
    ASSERT_TRUE(settled([&] { return sender->completions.size() == 2; }));
    EXPECT_NE(sender->completions[0], Status::kOk);
    EXPECT_NE(sender->completions[1], Status::kOk);
    ASSERT_TRUE(settled([&] { return third->ends == 1 && sender->ends == 2; }));
    EXPECT_EQ(sent().links_lost, 1u);
    // That of the receiver lost nothing.
    ASSERT_EQ(sender->closures.size(), 2u);
    EXPECT_EQ(std::ranges::count(sender->closures, Status::kOk), 1);
    EXPECT_FALSE(receive.done);
    EXPECT_EQ(third->tupleq->queues_in_use(), 0u);
    // Everything begins anew.
    ASSERT_NO_FATAL_FAILURE(meet_third());
    ASSERT_TRUE(granted(*to_third, 7));
    ASSERT_TRUE(sender->send(*to_third, 7, "again"));
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
    EXPECT_EQ(receive.text, "again");
}

// Drains of all queues go over one link. A peer ends, and its queue with it, while drains of this
// queue are under way. These drains find no queue; drains of other queues arrive all the same.
TEST_F(DirectMessages, DrainsOutliveThoseOfAPeerThatEnds) {
    for (unsigned round = 0; round < 8; ++round) {
        if (round != 0) {
            sender = std::make_unique<DirectNode>();
            receiver = std::make_unique<DirectNode>();
            ASSERT_NO_FATAL_FAILURE(meet());
        }
        bind();
        third = std::make_unique<DirectNode>();
        Channel* other = third->attach(*receiver);
        Channel* back = receiver->attach(*third);
        ASSERT_TRUE(settled([&] { return other->up() && back->up(); }));
        ASSERT_TRUE(receiver->tupleq->bind(*back, 9));
        ASSERT_TRUE(settled([&] { return third->tupleq->sender().find(*other, 9) != nullptr; }));
        DirectNode::Receive* last = nullptr;
        for (int i = 0; i < 4; ++i) {
            receiver->post(kTag, 8);
            last = &receiver->post(9, 8);
        }
        ASSERT_TRUE(granted());
        ASSERT_TRUE(settled([&] {
            return third->tupleq->sender().may_send(*third->tupleq->sender().find(*other, 9), 9, 0);
        }));
        quiesce();
        ASSERT_TRUE(sender->send(*out, kTag, "longer than eight"));
        ASSERT_TRUE(third->send(*other, 9, "longer than eight"));
        ASSERT_TRUE(settled([&] { return receiver->tupleq->matching().void_grants == 8; }));
        receiver->engine->fail(*in, Status::kConnectionReset, "a test");
        ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
        // The other peer's queue is usable again.
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(settled([&] {
                return third->tupleq->sender().may_send(*third->tupleq->sender().find(*other, 9), 9,
                                                        0);
            }));
            ASSERT_TRUE(third->send(*other, 9, "short"));
        }
        ASSERT_TRUE(settled([&] { return last->done; })) << receiver->reason;
        EXPECT_TRUE(last->direct);
        EXPECT_EQ(receiver->ends, 1u) << receiver->reason;
        EXPECT_EQ(receiver->tupleq->counters().links_lost, 0u);
        EXPECT_TRUE(receiver->warnings.empty());
    }
}

// Two peers send one tag: messages of the second wait until it is known whose the receives are.
TEST_F(DirectMessages, TagOfTwoSenders) {
    bind();
    third = std::make_unique<DirectNode>();
    Channel* other = third->attach(*receiver);
    ASSERT_TRUE(settled([&] { return other->up(); }));
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    quiesce();
    send("of the first sender");
    ASSERT_TRUE(third->send(*other, kTag, "of the second"));
    ASSERT_TRUE(settled([&] { return first.done && second.done; }));
    EXPECT_EQ(first.text, "of the first sender");
    EXPECT_EQ(second.text, "of the second");
    ASSERT_TRUE(settled([&] { return receiver->tupleq->queues_in_use() == 0; }));
    EXPECT_EQ(receiver->ordinary, 1u);
    // The tag is not bound again, although its only ordinary message was held.
    const uint64_t binds = receiver->tupleq->matching().binds;
    for (int i = 0; i < 20; ++i) {
        auto& next = receiver->post(kTag);
        quiesce();
        send("again");
        ASSERT_TRUE(settled([&] { return next.done; }));
    }
    EXPECT_EQ(receiver->tupleq->matching().binds, binds);
}

}  // namespace
}  // namespace tern::test
