// SPDX-License-Identifier: BSD-3-Clause
// Queues that are destroyed while completions wait, and while other threads poll. With `stale-cq`,
// the device fails a poll that reaches a completion of a destroyed queue, as some drivers do.
#include <atomic>
#include <thread>

#include "direct_pair.h"

namespace tern::test {
namespace {

constexpr uint64_t kOther = kTag + 1;

class DirectStop : public DirectMessages {
  protected:
    // Posts a receive in declared memory: the end of the declaration stops the queue.
    DirectNode::Receive& post_declared(uint64_t tag, Region*& region) {
        auto& receive = receiver->receives.emplace_back();
        receive.memory.resize(64);
        receive.buffer = reinterpret_cast<std::byte*>(receive.memory.data());
        receive.room = receive.memory.size();
        region = receiver->regions.declare(receive.buffer, receive.room, kLocalWrite);
        receive.region = region->key();
        receiver->posted.post(receive, tag, PostedReceive::kFullMask);
        receiver->tupleq->receiver().posted(receive);
        return receive;
    }
    // Sends a direct message without polling the receiver.
    void send_unseen(uint64_t tag, const std::string& text) {
        TupleQ::Tuple* const tuple = sender->tupleq->sender().find(*out, tag);
        ASSERT_TRUE(tuple != nullptr &&
                    sender->tupleq->sender().may_send(*tuple, tag, text.size()));
        const uint64_t before = sent().sent;
        ASSERT_TRUE(sender->send(*out, tag, text));
        ASSERT_EQ(sent().sent, before + 1);
        for (int i = 0; i < 100; ++i) sender->poll();
    }
};

TEST_F(DirectStop, CompletionsThatWaitAreNotLost) {
    bind();
    bind(kOther);
    auto& other = receiver->post(kOther);
    Region* region = nullptr;
    auto& first = post_declared(kTag, region);
    Region* second_region = nullptr;
    auto& second = post_declared(kTag, second_region);
    ASSERT_TRUE(granted() && granted(kOther));
    quiesce();
    send_unseen(kOther, "of another queue");
    send_unseen(kTag, "has come in time");
    (void)receiver->regions.undeclare(second_region);
    ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
    EXPECT_TRUE(other.done);
    EXPECT_EQ(other.text, "of another queue");
    EXPECT_TRUE(first.done);
    EXPECT_EQ(first.text, "has come in time");
    EXPECT_FALSE(second.done);
    EXPECT_EQ(receiver->tupleq->counters().stopped, 1u);
    (void)receiver->regions.undeclare(region);
}

// A peer ends, and its queue with it, while completions of messages that have been placed wait.
TEST_F(DirectStop, PeerEndsWithCompletionsThatWait) {
    bind();
    third = std::make_unique<DirectNode>();
    Channel* const other = third->attach(*receiver);
    Channel* const back = receiver->attach(*third);
    ASSERT_TRUE(settled([&] { return other->up() && back->up(); }));
    ASSERT_TRUE(receiver->tupleq->bind(*back, 9));
    ASSERT_TRUE(settled([&] { return third->tupleq->sender().find(*other, 9) != nullptr; }));
    for (int round = 0; round < 10; ++round) {
        auto& receive = receiver->post(9);
        ASSERT_TRUE(settled([&] {
            return third->tupleq->sender().may_send(*third->tupleq->sender().find(*other, 9), 9, 0);
        }));
        if (round == 5) {
            receiver->post(kTag);
            ASSERT_TRUE(granted());
            quiesce();
            send_unseen(kTag, "the last");
            receiver->engine->fail(*in, Status::kConnectionReset, "a test");
        }
        ASSERT_TRUE(third->send(*other, 9, "of another queue"));
        ASSERT_TRUE(settled([&] { return receive.done; }));
        EXPECT_TRUE(receive.direct);
    }
    EXPECT_TRUE(settled([&] { return receiver->ends == 1; }));
}

// One thread polls and gets messages through one queue. Another thread has queues of other tuples
// stopped, with completions in the completion queue.
TEST_F(DirectStop, WhileMessagesCome) {
    constexpr unsigned kRounds = 50;
    third = std::make_unique<DirectNode>();
    Channel* const other = third->attach(*receiver);
    Channel* const back = receiver->attach(*third);
    ASSERT_TRUE(settled([&] { return other->up() && back->up(); }));
    ASSERT_TRUE(receiver->tupleq->bind(*back, 9));
    ASSERT_TRUE(settled([&] { return third->tupleq->sender().find(*other, 9) != nullptr; }));
    unsigned count = 0;
    for (unsigned round = 0; round < kRounds; ++round) {
        bind();
        Region* regions[3] = {};
        DirectNode::Receive* posted[3] = {};
        for (int i = 0; i < 3; ++i) posted[i] = &post_declared(kTag, regions[i]);
        ASSERT_TRUE(granted());
        quiesce(30);
        send_unseen(kTag, "one");
        std::atomic<bool> over = false;
        std::thread stopper([&] {
            for (Region* region : {regions[2], regions[1], regions[0]})
                (void)receiver->regions.undeclare(region);
            over = true;
        });
        const unsigned until = count + 5;
        while (!over || count < until) {
            auto& receive = receiver->post(9);
            ASSERT_TRUE(settled([&] {
                return third->tupleq->sender().may_send(*third->tupleq->sender().find(*other, 9), 9,
                                                        0);
            }));
            ASSERT_TRUE(third->send(*other, 9, std::to_string(count)));
            ASSERT_TRUE(settled([&] { return receive.done; })) << "message " << count;
            EXPECT_TRUE(receive.direct);
            ASSERT_EQ(receive.text, std::to_string(count++));
        }
        stopper.join();
        ASSERT_TRUE(settled([&] { return receiver->ends == round + 1; }));
        ASSERT_TRUE(settled([&] { return sender->ends == round + 1; }));
        for (DirectNode::Receive* each : posted)
            if (each->posted) {
                EXPECT_EQ(receiver->tupleq->cancel(*each), TupleQ::Cancel::kDone);
            }
        if (round + 1 != kRounds) {
            ASSERT_NO_FATAL_FAILURE(meet());
        }
    }
    EXPECT_EQ(receiver->tupleq->counters().stopped, kRounds);
}

}  // namespace
}  // namespace tern::test
