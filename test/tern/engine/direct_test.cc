// SPDX-License-Identifier: BSD-3-Clause
// Messages that the device places into posted receives.
#include <poll.h>

#include <algorithm>
#include <random>

#include "common/seed.h"
#include "direct_pair.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

TEST_F(DirectMessages, GrantedMessageIsPlaced) {
    bind();
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("hello");
    EXPECT_EQ(sent().sent, 1u);
    // The receiver does not poll.
    ASSERT_TRUE(until([&] { sender->poll(); },
                      [&] { return std::string(first.memory.data(), 5) == "hello"; }));
    EXPECT_FALSE(first.done);
    ASSERT_TRUE(granted());
    send("");
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_TRUE(first.direct && second.direct);
    EXPECT_EQ(first.text, "hello");
    EXPECT_EQ(second.text, "");
    EXPECT_EQ(receiver->ordinary, 0u);
    EXPECT_EQ(receiver->tupleq->matching().direct, 2u);
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 1u);
}

TEST_F(DirectMessages, AllSizesAndWays) {
    bind();
    for (const bool zcopy : {false, true})
        for (const size_t size :
             {size_t{1}, size_t{127}, size_t{129}, size_t{1000}, size_t{4000}}) {
            std::string text(size, 'x');
            text.front() = 'a';
            text.back() = 'z';
            auto& receive = receiver->post(kTag, size);
            ASSERT_TRUE(granted());
            send(text, kTag, zcopy);
            ASSERT_TRUE(settled([&] { return receive.done; }));
            EXPECT_TRUE(receive.direct) << size;
            EXPECT_EQ(receive.text, text) << size;
            if (!zcopy) continue;
            ASSERT_TRUE(settled([&] { return sender->completions.size() == 1; }));
            EXPECT_EQ(sender->completions.front(), Status::kOk);
            sender->completions.clear();
        }
    EXPECT_EQ(sent().sent, 10u);
    EXPECT_EQ(receiver->ordinary, 0u);
}

TEST_F(DirectMessages, UngrantedMessageIsOrdinaryAndWhatFollowsIsDirectAgain) {
    bind();
    send("first");
    ASSERT_TRUE(settled([&] { return receiver->unexpected.size() == 1; }));
    EXPECT_EQ(receiver->post(kTag).text, "first");
    auto& second = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("second");
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_EQ(second.text, "second");
    EXPECT_TRUE(second.direct);
}

TEST_F(DirectMessages, LongerThanItsReceiveIsOrdinaryAndGrantsAreDrained) {
    bind();
    auto& small = receiver->post(kTag, 8);
    auto& next = receiver->post(kTag, 64);
    ASSERT_TRUE(granted());
    send("longer than eight");
    ASSERT_TRUE(settled([&] { return small.done; }));
    EXPECT_FALSE(small.direct);
    EXPECT_EQ(small.text, "longer than eight") << "to be truncated by whom it concerns";
    ASSERT_TRUE(settled([&] { return receiver->tupleq->matching().drains == 2; }));
    ASSERT_TRUE(granted());
    send("fits");
    ASSERT_TRUE(settled([&] { return next.done; }));
    EXPECT_TRUE(next.direct) << "granted anew after the drain";
    EXPECT_EQ(next.text, "fits");
}

TEST_F(DirectMessages, WildcardTakesWhatIsItsOwn) {
    bind();
    auto& wild = receiver->post(0, 64, 0);
    auto& exact = receiver->post(kTag);
    send("for the wildcard");
    ASSERT_TRUE(settled([&] { return wild.done; }));
    EXPECT_FALSE(wild.direct);
    EXPECT_FALSE(exact.done);
    ASSERT_TRUE(granted());
    send("for the other");
    ASSERT_TRUE(settled([&] { return exact.done; }));
    EXPECT_TRUE(exact.direct);
    EXPECT_EQ(exact.text, "for the other");
}

TEST_F(DirectMessages, CanceledReceiveGetsNothing) {
    bind();
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    EXPECT_EQ(receiver->tupleq->cancel(first), TupleQ::Cancel::kLater);
    ASSERT_TRUE(settled([&] { return first.canceled; }));
    quiesce();
    send("for the second");
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_EQ(second.text, "for the second");
    EXPECT_FALSE(first.done);
}

// Only the receiver polls: a cancel needs no processor of another process.
TEST_F(DirectMessages, CancelWaitsForNobody) {
    bind();
    third = std::make_unique<DirectNode>();
    ASSERT_NO_FATAL_FAILURE(meet_third());
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    quiesce();
    ASSERT_TRUE(granted());
    // Meanwhile the sender is asked for another tuple; it answers requests in order.
    ASSERT_TRUE(receiver->tupleq->bind(*in, kTag + 1));
    EXPECT_EQ(receiver->tupleq->cancel(first), TupleQ::Cancel::kLater);
    ASSERT_TRUE(until([&] { receiver->poll(); }, [&] { return first.canceled; }));
    EXPECT_FALSE(second.canceled);
    // The sender does not know of the cancel, but its next message is for the second receive.
    ASSERT_TRUE(sender->send(*out, kTag, "for the second"));
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_EQ(second.text, "for the second");
    EXPECT_FALSE(first.done);
    // Direct messages continue.
    auto& next = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("direct");
    ASSERT_TRUE(settled([&] { return next.done; }));
    EXPECT_TRUE(next.direct);
    EXPECT_EQ(receiver->ends + sender->ends, 0u);
}

// cancel_now() cancels within the call: no node is polled.
TEST_F(DirectMessages, CancelNow) {
    bind();
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    quiesce();
    ASSERT_TRUE(granted());
    ASSERT_EQ(receiver->tupleq->cancel(second), TupleQ::Cancel::kLater);
    EXPECT_TRUE(receiver->tupleq->cancel_now(second));
    EXPECT_TRUE(second.canceled);
    EXPECT_FALSE(second.posted);
    EXPECT_FALSE(first.canceled);
    EXPECT_TRUE(first.posted);
    ASSERT_TRUE(sender->send(*out, kTag, "for the first"));
    ASSERT_TRUE(settled([&] { return first.done; }));
    EXPECT_EQ(first.text, "for the first");
    quiesce();
    // This receive's message has been sent.
    auto& used = receiver->post(kTag);
    ASSERT_TRUE(granted());
    const uint64_t tupleq = sent().sent;
    ASSERT_TRUE(sender->send(*out, kTag, "on its way"));
    ASSERT_EQ(sent().sent, tupleq + 1);
    EXPECT_NE(receiver->tupleq->cancel(used), TupleQ::Cancel::kDone);
    EXPECT_FALSE(receiver->tupleq->cancel_now(used));
    EXPECT_FALSE(used.canceled);
    ASSERT_TRUE(settled([&] { return used.done; }));
    EXPECT_EQ(used.text, "on its way");
    EXPECT_EQ(receiver->ends + sender->ends, 0u);
}

// A peer that announces a message and does not send it loses its connection and its queue.
TEST_F(DirectMessages, AnnouncedAndNeverSent) {
    bind();
    auto& receive = receiver->post(kTag);
    quiesce();
    ASSERT_TRUE(granted());
    sender->tupleq->sender().find(*out, kTag)->sender.announce();
    ASSERT_EQ(receiver->tupleq->cancel(receive), TupleQ::Cancel::kLater);
    ASSERT_TRUE(until([&] { receiver->poll(); }, [&] { return receiver->ends == 1; }));
    EXPECT_TRUE(receive.canceled);
    EXPECT_FALSE(receive.done);
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
}

// The device fails a tuple's queue, or one that no tuple has any more.
TEST_F(DirectMessages, QueueThatTheDeviceFails) {
    bind();
    bind(kTag + 1);
    auto& other = receiver->post(kTag + 1);
    receiver->post(kTag);
    ASSERT_TRUE(granted() && granted(kTag + 1));
    receiver->tupleq->queue_failed(&other, "of somebody else");
    receiver->tupleq->queue_failed(nullptr, "none");
    quiesce();
    EXPECT_EQ(receiver->ends, 0u);
    receiver->tupleq->queue_failed(receiver->tupleq->queue_identity(0), "an error");
    ASSERT_TRUE(settled([this] { return receiver->ends == 1 && sender->ends == 1; }));
    EXPECT_NE(receiver->reason.find("an error"), std::string::npos) << receiver->reason;
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
    EXPECT_FALSE(other.done);
}

// The device reports the error by an event: only the peer of that queue is lost.
TEST_F(DirectMessages, QueueOfWhichTheDeviceReportsAnError) {
    third = std::make_unique<DirectNode>();
    Channel* const other = third->attach(*receiver);
    Channel* const back = receiver->attach(*third);
    ASSERT_TRUE(settled([&] { return other->up() && back->up(); }));
    bind();
    ASSERT_TRUE(receiver->tupleq->bind(*back, 9));
    ASSERT_TRUE(settled([&] { return third->tupleq->sender().find(*other, 9) != nullptr; }));
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    raise_event(IBV_EVENT_SRQ_ERR, receiver->tupleq->queue_identity(0));
    ASSERT_TRUE(settled([this] { return receiver->ends == 1 && sender->ends == 1; }));
    ASSERT_EQ(receiver->reasons.size(), 1u);
    EXPECT_NE(receiver->reason.find("the device reports"), std::string::npos) << receiver->reason;
    EXPECT_TRUE(receiver->breakdowns.empty());
    EXPECT_FALSE(receive.done);
    EXPECT_EQ(third->ends, 0u);
    auto& next = receiver->post(9);
    ASSERT_TRUE(granted(*other, 9, *third));
    ASSERT_TRUE(third->send(*other, 9, "of another peer"));
    ASSERT_TRUE(settled([&] { return next.done; }));
    EXPECT_TRUE(next.direct);
}

// An error of the completion queue of direct messages: the interface has failed, for all its peers.
TEST_F(DirectMessages, CompletionQueueOfWhichTheDeviceReportsAnError) {
    // The receiver's is the one that was made last.
    const void* const queue = last_completion_queue();
    third = std::make_unique<DirectNode>();
    Channel* const other = third->attach(*receiver);
    ASSERT_TRUE(settled([&] { return other->up(); }));
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    raise_event(IBV_EVENT_CQ_ERR, queue);
    ASSERT_TRUE(settled([this] {
        return receiver->breakdowns.size() == 1 && sender->ends == 1 && third->ends == 1;
    }));
    EXPECT_NE(receiver->breakdowns[0].find("direct messages"), std::string::npos)
        << receiver->breakdowns[0];
    EXPECT_TRUE(sender->breakdowns.empty() && third->breakdowns.empty());
    EXPECT_FALSE(receive.done);
    std::string why;
    EXPECT_EQ(receiver->engine->attach(sender->engine->address(), this, why), nullptr);
    EXPECT_FALSE(why.empty());
}

// Long receives that are posted all at once are registered in several calls of progress.
TEST_F(DirectMessages, RegistersALimitedAmountAtATime) {
    constexpr size_t kRoom = 3 << 20;
    bind();
    const uint64_t before = receiver->pins.counters().registrations;
    const auto registered = [&] { return receiver->pins.counters().registrations - before; };
    std::vector<DirectNode::Receive*> receives;
    for (int i = 0; i < 4; ++i) receives.push_back(&receiver->post(kTag, kRoom));
    EXPECT_EQ(registered(), 1u);
    for (uint64_t calls = 1; calls < 4; ++calls) {
        EXPECT_EQ(receiver->tupleq->arm(), Status::kInProgress);
        receiver->poll();
        EXPECT_EQ(registered(), calls + 1);
    }
    ASSERT_TRUE(settled([this] { return receiver->tupleq->arm() == Status::kOk; }));
    for (auto* receive : receives) {
        ASSERT_TRUE(granted());
        send("x");
        ASSERT_TRUE(settled([&] { return receive->done; }));
        EXPECT_TRUE(receive->direct);
    }
}

// The user sends some messages in another way, so the sender stops direct messages.
TEST_F(DirectMessages, SenderMayStop) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    EXPECT_TRUE(sender->tupleq->sender().stop());
    EXPECT_FALSE(sender->tupleq->sender().stop());
    send("ordinary");
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_FALSE(receive.direct);
    ASSERT_TRUE(receiver->tupleq->bind(*in, kTag + 1));
    quiesce();
    EXPECT_EQ(sender->tupleq->sender().find(*out, kTag + 1), nullptr);
    EXPECT_EQ(sent().sent, 0u);
}

TEST_F(DirectMessages, MessageThatIsOnItsWayIsNotCanceled) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("placed");
    const auto result = receiver->tupleq->cancel(receive);
    EXPECT_NE(result, TupleQ::Cancel::kDone);
    ASSERT_TRUE(settled([&] { return receive.done || receive.canceled; }));
    EXPECT_TRUE(receive.done);
    EXPECT_FALSE(receive.canceled);
}

TEST_F(DirectMessages, UnboundTupleIsOrdinaryAndItsQueueIsUsedAgain) {
    for (uint64_t tag = 1; tag <= 12; ++tag) {
        bind(tag);
        auto& receive = receiver->post(tag);
        auto& unused = receiver->post(tag);
        ASSERT_TRUE(granted(tag));
        send("text", tag);
        ASSERT_TRUE(settled([&] { return receive.done; }));
        EXPECT_TRUE(receive.direct);
        receiver->tupleq->unbind(tag);
        ASSERT_TRUE(settled([&] { return receiver->tupleq->queues_in_use() == 0; }));
        EXPECT_EQ(sender->tupleq->sender().find(*out, tag), nullptr);
        send("more", tag);
        ASSERT_TRUE(settled([&] { return unused.done; }));
        EXPECT_FALSE(unused.direct);
    }
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
}

TEST_F(DirectMessages, NoMoreTuplesThanQueues) {
    for (uint64_t tag = 1; tag <= 4; ++tag) bind(tag);
    EXPECT_FALSE(receiver->tupleq->bind(*in, 5));
    EXPECT_FALSE(receiver->tupleq->bind(*in, 4)) << "has one";
    for (uint64_t tag = 1; tag <= 5; ++tag) {
        auto& receive = receiver->post(tag);
        ASSERT_TRUE(tag > 4 || granted(tag));
        send("text", tag);
        ASSERT_TRUE(settled([&] { return receive.done; }));
        EXPECT_EQ(receive.direct, tag <= 4);
    }
}

TEST_F(DirectMessages, FlushCoversThem) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send(std::string(60, 'f'));
    uint64_t cookie = 0;  // aligned as users' cookies are
    const Status status = sender->tupleq->sender().flush(*out, {&cookie});
    if (status == Status::kInProgress) {
        ASSERT_TRUE(settled([&] { return !sender->completions.empty(); }));
        EXPECT_EQ(sender->completions.front(), Status::kOk);
    } else {
        EXPECT_EQ(status, Status::kOk);
    }
    EXPECT_TRUE(sender->tupleq->sender().idle());
    EXPECT_EQ(receive.memory[0], 'f');
}

TEST_F(DirectMessages, WakesWhoSleeps) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    std::string why;
    const int fd = receiver->engine->sleep()->event_fd(why);
    ASSERT_GE(fd, 0) << why;
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    // Earlier events may wake the receiver once.
    ASSERT_TRUE(settled([&] {
        return receiver->engine->sleep()->arm() == Status::kOk &&
               receiver->tupleq->arm() == Status::kOk && ::poll(&wait, 1, 0) == 0;
    }));
    ASSERT_TRUE(sender->send(*out, kTag, "wake up"));
    EXPECT_EQ(sent().sent, 1u);
    EXPECT_EQ(::poll(&wait, 1, 5000), 1);
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
}

// The receives take any of four tags. One tag is the tuple's; messages of the others go the
// ordinary way. Tuples that were bound with other keys are unbound first.
TEST_F(DirectMessages, ReceivesThatLeaveBitsOpen) {
    constexpr uint64_t kTwoOpen = ~uint64_t{3};
    bind();
    auto& earlier = receiver->post(kTag);
    ASSERT_TRUE(granted());
    std::vector<DirectNode::Receive*> open;
    while (!receiver->posted.wants_other_key()) open.push_back(&receiver->post(11, 64, kTwoOpen));
    EXPECT_EQ(receiver->posted.key_mask(), PostedReceive::kFullMask) << "a tuple is bound";
    EXPECT_FALSE(receiver->tupleq->bind(*in, 9)) << "it would be in the way";
    ASSERT_TRUE(settled([&] { return receiver->posted.key_mask() == kTwoOpen; }));
    EXPECT_EQ(sender->tupleq->sender().find(*out, kTag), nullptr);
    send("what is exact takes its turn");
    ASSERT_TRUE(settled([&] { return earlier.done; }));
    EXPECT_FALSE(earlier.direct);

    bind(9);
    ASSERT_TRUE(granted(9));
    send("another tag", 10);
    ASSERT_TRUE(settled([&] { return open[0]->done; }));
    EXPECT_FALSE(open[0]->direct);
    ASSERT_TRUE(granted(9));
    send("the tuple's", 9);
    ASSERT_TRUE(settled([&] { return open[1]->done; }));
    EXPECT_TRUE(open[1]->direct);
    EXPECT_EQ(open[1]->message_tag, 9u);
    EXPECT_EQ(open[1]->text, "the tuple's");
    EXPECT_FALSE(open[2]->done);
}

// A peer to which nothing can be sent now does not delay others' grants, and loses none of its own.
TEST_F(DirectMessages, PeerWithoutRoomDelaysNobodyElse) {
    bind();
    third = std::make_unique<DirectNode>();
    Channel* other = third->attach(*receiver);
    Channel* back = receiver->attach(*third);
    ASSERT_TRUE(settled([&] { return other->up() && back->up(); }));
    ASSERT_TRUE(receiver->tupleq->bind(*back, 9));
    ASSERT_TRUE(settled([&] { return third->tupleq->sender().find(*other, 9) != nullptr; }));
    quiesce();
    const uint32_t kept = in->sends.reserved();
    in->sends.reserve(SendQueue::kAllPlaces);
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    auto& others = receiver->post(9);
    TupleQ::Tuple* tuple = third->tupleq->sender().find(*other, 9);
    ASSERT_TRUE(settled([&] { return third->tupleq->sender().may_send(*tuple, 9, 0); }));
    EXPECT_FALSE(
        sender->tupleq->sender().may_send(*sender->tupleq->sender().find(*out, kTag), kTag, 0));
    EXPECT_TRUE(settled([&] { return receiver->tupleq->arm() == Status::kOk; }))
        << "it waits for room, and has nothing to do before";
    ASSERT_TRUE(third->send(*other, 9, "of another peer"));
    ASSERT_TRUE(settled([&] { return others.done; }));
    EXPECT_TRUE(others.direct);
    in->sends.reserve(kept);
    ASSERT_TRUE(granted());
    send("one");
    ASSERT_TRUE(granted());
    send("two");
    ASSERT_TRUE(settled([&] { return first.done && second.done; }));
    EXPECT_TRUE(first.direct && second.direct);
    EXPECT_EQ(first.text + second.text, "onetwo");
    receiver->engine->leave(back, receiver.get());
    third->engine->leave(other, third.get());
}

// Everything that can wait ends with its peer: grants, the end of an epoch, and void receives.
TEST_F(DirectMessages, PeerWithoutRoomGoes) {
    for (const bool by_force : {false, true}) {
        bind();
        const uint32_t kept = in->sends.reserved();
        in->sends.reserve(SendQueue::kAllPlaces);
        auto& first = receiver->post(kTag);
        auto& second = receiver->post(kTag);
        send("the ordinary way");
        ASSERT_TRUE(settled([&] { return first.done; }));
        EXPECT_FALSE(first.direct);
        if (!by_force) {
            in->sends.reserve(kept);
            ASSERT_TRUE(granted());
            send("direct");
            ASSERT_TRUE(settled([&] { return second.done; }));
            EXPECT_TRUE(second.direct);
            receiver->tupleq->unbind(kTag);
            ASSERT_TRUE(settled([&] { return receiver->tupleq->queues_in_use() == 0; }));
            continue;
        }
        sender.reset();
        ASSERT_TRUE(settled([&] { return receiver->tupleq->queues_in_use() == 0; }));
        EXPECT_FALSE(second.done);
        EXPECT_TRUE(second.posted);
        EXPECT_EQ(receiver->tupleq->arm(), Status::kOk);
    }
}

// The k-th message of a tag goes to the k-th receive posted for it, whatever happens meanwhile.
TEST_F(DirectMessages, RandomTrafficEndsWhereItShould) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    const auto chance = [&](unsigned percent) { return random() % 100 < percent; };
    constexpr uint64_t kTags = 6;  // more than there are queues
    struct Row {
        std::vector<DirectNode::Receive*> receives;
        std::vector<std::string> texts;
        std::vector<std::string> got;
    };
    Row rows[kTags];
    const auto text_of = [&](uint64_t tag, size_t number) {
        std::string text = std::to_string(tag) + ":" + std::to_string(number) + " ";
        text.resize(text.size() + random() % (chance(20) ? 3000 : 40), 'x');
        return text;
    };
    for (int step = 0; step < 6000; ++step) {
        const uint64_t tag = random() % kTags;
        Row& row = rows[tag];
        switch (random() % 8) {
            case 0:
            case 1:
                if (row.receives.size() < row.texts.size() + 8)
                    row.receives.push_back(&receiver->post(tag, chance(30) ? 32 : 4096));
                break;
            case 2:
            case 3:
                if (row.texts.size() < row.receives.size() + 3) {
                    const std::string text = text_of(tag, row.texts.size());
                    if (sender->send(*out, tag, text)) row.texts.push_back(text);
                }
                break;
            case 4:
                sender->poll();
                break;
            case 5:
                receiver->poll();
                break;
            case 6:
                if (chance(20)) (void)receiver->tupleq->bind(*in, tag);
                break;
            case 7:
                if (chance(5)) receiver->tupleq->unbind(tag);
                break;
        }
    }
    for (uint64_t tag = 0; tag < kTags; ++tag)
        while (rows[tag].receives.size() < rows[tag].texts.size())
            rows[tag].receives.push_back(&receiver->post(tag, 4096));
    const auto complete = [&] {
        return std::all_of(std::begin(rows), std::end(rows), [](const Row& row) {
            return std::all_of(row.receives.begin(),
                               row.receives.begin() + static_cast<long>(row.texts.size()),
                               [](const auto* receive) { return receive->done; });
        });
    };
    ASSERT_TRUE(settled(complete));
    for (const Row& row : rows)
        for (size_t i = 0; i < row.receives.size(); ++i) {
            if (i < row.texts.size())
                ASSERT_EQ(row.receives[i]->text, row.texts[i]);
            else
                ASSERT_FALSE(row.receives[i]->done);
        }
    std::cout << receiver->tupleq->matching().direct << " direct, " << receiver->ordinary
              << " ordinary, " << receiver->tupleq->matching().void_grants << " void grants, "
              << receiver->tupleq->matching().drains << " drains" << std::endl;
    EXPECT_EQ(sender->warnings.size() + receiver->warnings.size(), 0u);
}

}  // namespace
}  // namespace tern::test
