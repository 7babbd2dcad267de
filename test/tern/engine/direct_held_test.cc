// SPDX-License-Identifier: BSD-3-Clause
// Messages that are held until it is known whether a direct one of another peer comes.
#include "direct_pair.h"

namespace tern::test {
namespace {

class HeldMessages : public DirectMessages {
  protected:
    // Makes a receive whose message the sender has announced and does not send, and connects the
    // third node to the receiver.
    void begin(const TupleQSettings& settings) {
        receiver = std::make_unique<DirectNode>(settings);
        ASSERT_TRUE(settled([this] { return sender->ends == 1; }));
        ASSERT_NO_FATAL_FAILURE(meet());
        bind();
        third = std::make_unique<DirectNode>();
        other_ = third->attach(*receiver);
        ASSERT_TRUE(settled([this] { return other_->up(); }));
        receive_ = &receiver->post(kTag);
        ASSERT_TRUE(granted());
        sender->tupleq->sender().find(*out, kTag)->sender.announce();
    }

    Channel* other_ = nullptr;  // of the third node
    DirectNode::Receive* receive_ = nullptr;
};

// A message of another peer waits for the announced one, but not for ever.
TEST_F(HeldMessages, AnnouncedAndNeverSentThoughAnotherPeerWaits) {
    TupleQSettings settings = few_tuples();
    settings.announced_limit = 100'000'000;
    ASSERT_NO_FATAL_FAILURE(begin(settings));
    ASSERT_TRUE(third->send(*other_, kTag, "of another peer"));
    ASSERT_TRUE(until([&] { receiver->poll(), third->poll(); }, [&] { return receive_->done; }));
    EXPECT_EQ(receive_->text, "of another peer");
    EXPECT_EQ(receiver->tupleq->queues_in_use(), 0u);
}

// Many messages wait for an announced one: their sender pauses, and nothing is lost.
TEST_F(HeldMessages, SenderOfManyHeldMessagesPauses) {
    TupleQSettings settings = few_tuples();
    settings.held.pause = 4096;
    settings.announced_limit = 3'600'000'000'000;
    ASSERT_NO_FATAL_FAILURE(begin(settings));
    unsigned sent = 0;
    const auto send_more = [&](unsigned upto) {
        while (sent < upto && third->send(*other_, kTag, "message " + std::to_string(sent))) ++sent;
    };
    ASSERT_TRUE(settled([&] { return send_more(10'000), third->pauses == 1; }));
    const unsigned before = sent;
    quiesce();
    send_more(10'000);
    EXPECT_EQ(sent, before);
    EXPECT_FALSE(receive_->done);
    // The announced message: its grant has gone, so it is ordinary.
    ASSERT_TRUE(settled([&] { return sender->send(*out, kTag, "of the first sender"); }));
    ASSERT_TRUE(settled([&] { return receiver->unexpected.size() == before; }));
    EXPECT_EQ(receive_->text, "of the first sender");
    ASSERT_TRUE(settled([&] {
        send_more(before + 100);
        return receiver->unexpected.size() == before + 100;
    }));
    for (unsigned i = 0; i < sent; ++i)
        ASSERT_EQ(receiver->unexpected[i].text, "message " + std::to_string(i));
    EXPECT_EQ(third->pauses, 1u);
    EXPECT_EQ(receiver->tupleq->counters().pauses, 1u);
    EXPECT_EQ(receiver->ends, 0u);
}

}  // namespace
}  // namespace tern::test
