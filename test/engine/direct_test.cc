// SPDX-License-Identifier: BSD-3-Clause
// Messages that the device places into posted receives.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <random>

#include "direct_node.h"

namespace tern::test {
namespace {

constexpr uint64_t kTag = 0x1234'5678'9abc'def0;

class DirectMessages : public testing::Test {
  protected:
    void SetUp() override {
        if ((device().attributes.device_cap_flags & IBV_DEVICE_XRC) == 0) GTEST_SKIP() << "no XRC";
        out = sender->attach(*receiver);
        in = receiver->attach(*sender);
        ASSERT_TRUE(out != nullptr && in != nullptr);
        ASSERT_TRUE(settled([this] { return out->up() && in->up(); }));
    }
    void TearDown() override {
        if (sender) {
            EXPECT_EQ(sender->direct->counters().not_ready, 0u);
        }
    }
    void poll() {
        if (sender) sender->poll();
        if (receiver) receiver->poll();
        if (third) third->poll();
    }
    template <class Done>
    bool settled(Done&& done) {
        return until([this] { poll(); }, done);
    }
    void quiesce(int rounds = 300) {
        while (rounds-- != 0) poll();
    }
    // A tuple that is bound, as the receiver knows.
    void bind(uint64_t tag = kTag) {
        ASSERT_TRUE(receiver->direct->bind(*in, tag));
        ASSERT_TRUE(settled([&] { return sender->direct->find(*out, tag) != nullptr; }));
        quiesce();
    }
    void send(const std::string& text, uint64_t tag = kTag, bool zcopy = false) {
        ASSERT_TRUE(settled([&] { return sender->send(*out, tag, text, zcopy); }));
    }
    // The sender may send its next message direct.
    bool granted(uint64_t tag = kTag) { return granted(*out, tag); }
    bool granted(Channel& channel, uint64_t tag) {
        return settled([&] {
            Direct::Tuple* tuple = sender->direct->find(channel, tag);
            return tuple != nullptr && sender->direct->may_send(*tuple, 0);
        });
    }
    const DirectCounters& sent() const { return sender->direct->counters(); }

    std::unique_ptr<DirectNode> sender = std::make_unique<DirectNode>();
    std::unique_ptr<DirectNode> receiver = std::make_unique<DirectNode>();
    std::unique_ptr<DirectNode> third;
    Channel* out = nullptr;
    Channel* in = nullptr;
};

TEST_F(DirectMessages, GrantedMessageIsPlaced) {
    bind();
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("hello");
    EXPECT_EQ(sent().sent, 1u);
    // The receiver does nothing.
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
    EXPECT_EQ(receiver->direct->matching().direct, 2u);
    EXPECT_EQ(receiver->direct->queues_in_use(), 1u);
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
    ASSERT_TRUE(settled([&] { return receiver->direct->matching().drains == 2; }));
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

TEST_F(DirectMessages, CancelledReceiveGetsNothing) {
    bind();
    auto& first = receiver->post(kTag);
    auto& second = receiver->post(kTag);
    EXPECT_EQ(receiver->direct->cancel(first), Direct::Cancel::kLater);
    ASSERT_TRUE(settled([&] { return first.cancelled; }));
    quiesce();
    send("for the second");
    ASSERT_TRUE(settled([&] { return second.done; }));
    EXPECT_EQ(second.text, "for the second");
    EXPECT_FALSE(first.done);
}

TEST_F(DirectMessages, MessageThatIsOnItsWayIsNotCancelled) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    send("placed");
    const auto result = receiver->direct->cancel(receive);
    EXPECT_NE(result, Direct::Cancel::kDone);
    ASSERT_TRUE(settled([&] { return receive.done || receive.cancelled; }));
    EXPECT_TRUE(receive.done);
    EXPECT_FALSE(receive.cancelled);
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
        receiver->direct->unbind(tag);
        ASSERT_TRUE(settled([&] { return receiver->direct->queues_in_use() == 0; }));
        EXPECT_EQ(sender->direct->find(*out, tag), nullptr);
        send("more", tag);
        ASSERT_TRUE(settled([&] { return unused.done; }));
        EXPECT_FALSE(unused.direct);
    }
    EXPECT_EQ(receiver->direct->queues_in_use(), 0u);
}

TEST_F(DirectMessages, NoMoreTuplesThanQueues) {
    for (uint64_t tag = 1; tag <= 4; ++tag) bind(tag);
    EXPECT_FALSE(receiver->direct->bind(*in, 5));
    EXPECT_FALSE(receiver->direct->bind(*in, 4)) << "has one";
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
    int cookie = 0;
    const Status status = sender->direct->flush(*out, &cookie);
    if (status == Status::kInProgress) {
        ASSERT_TRUE(settled([&] { return !sender->completions.empty(); }));
        EXPECT_EQ(sender->completions.front(), Status::kOk);
    } else {
        EXPECT_EQ(status, Status::kOk);
    }
    EXPECT_TRUE(sender->direct->idle());
    EXPECT_EQ(receive.memory[0], 'f');
}

TEST_F(DirectMessages, WakesWhoSleeps) {
    bind();
    auto& receive = receiver->post(kTag);
    ASSERT_TRUE(granted());
    std::string why;
    const int fd = receiver->engine->event_fd(why);
    ASSERT_GE(fd, 0) << why;
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    // What was there before may wake it once.
    ASSERT_TRUE(settled([&] {
        return receiver->engine->arm() == Status::kOk && receiver->direct->arm() == Status::kOk &&
               ::poll(&wait, 1, 0) == 0;
    }));
    ASSERT_TRUE(sender->send(*out, kTag, "wake up"));
    EXPECT_EQ(sent().sent, 1u);
    EXPECT_EQ(::poll(&wait, 1, 5000), 1);
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
}

// The k-th message of a tag ends in the k-th receive posted for it, whatever happens meanwhile.
TEST_F(DirectMessages, RandomTrafficEndsWhereItShould) {
    const unsigned seed = std::random_device{}();
    std::cout << "seed " << seed << std::endl;
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
                if (chance(20)) (void)receiver->direct->bind(*in, tag);
                break;
            case 7:
                if (chance(5)) receiver->direct->unbind(tag);
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
    std::cout << receiver->direct->matching().direct << " direct, " << receiver->ordinary
              << " ordinary, " << receiver->direct->matching().voids << " void grants, "
              << receiver->direct->matching().drains << " drains" << std::endl;
    EXPECT_EQ(sender->warnings.size() + receiver->warnings.size(), 0u);
}

TEST_F(DirectMessages, PeerThatGoesTakesItsGrantsWithIt) {
    bind();
    auto& receive = receiver->post(kTag);
    quiesce();
    sender.reset();
    ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
    quiesce();
    EXPECT_EQ(receiver->direct->queues_in_use(), 0u);
    EXPECT_FALSE(receive.done);
    EXPECT_TRUE(receive.posted) << "anybody may send it";
    // And its queue serves the next.
    sender = std::make_unique<DirectNode>();
    out = sender->attach(*receiver);
    in = receiver->attach(*sender);
    ASSERT_TRUE(settled([this] { return out->up() && in->up(); }));
    bind();
    ASSERT_TRUE(granted());
    send("from another");
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
    EXPECT_EQ(receive.text, "from another");
}

// Asked for a tuple, it goes before it answers: its place is free again, for the policy too.
TEST_F(DirectMessages, PeerThatGoesBeforeItIsBound) {
    for (uint64_t tag = 1; tag <= 4; ++tag) ASSERT_TRUE(receiver->direct->bind(*in, tag));
    EXPECT_FALSE(receiver->direct->bind(*in, 5));
    sender.reset();
    ASSERT_TRUE(settled([&] { return receiver->ends == 1; }));
    EXPECT_EQ(receiver->direct->queues_in_use(), 0u);
    sender = std::make_unique<DirectNode>();
    out = sender->attach(*receiver);
    in = receiver->attach(*sender);
    ASSERT_TRUE(settled([this] { return out->up() && in->up(); }));
    for (uint64_t tag = 1; tag <= 4; ++tag) bind(tag);
    auto& receive = receiver->post(4);
    ASSERT_TRUE(granted(4));
    send("hello", 4);
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
}

// Two receivers on one node share the sender's link; the one that has its end leaves.
TEST_F(DirectMessages, LinkOutlivesNeitherItsHostNorAnybodysMessages) {
    bind();
    third = std::make_unique<DirectNode>();
    Channel* to_third = sender->attach(*third);
    Channel* from_third = third->attach(*sender);
    ASSERT_TRUE(settled([&] { return to_third->up() && from_third->up(); }));
    ASSERT_TRUE(third->direct->bind(*from_third, 7));
    ASSERT_TRUE(settled([&] { return sender->direct->find(*to_third, 7) != nullptr; }));
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
    ASSERT_TRUE(third->direct->bind(*from_third, 8));
    ASSERT_TRUE(settled([&] { return sender->direct->find(*to_third, 8) != nullptr; }));
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

// The end of the link goes without a word while a message to another process of the node is on its
// way: that may not have arrived, and is not sent twice.
TEST_F(DirectMessages, LinkThatBreaksEndsTheChannelsWhoseMessagesItHad) {
    bind();
    third = std::make_unique<DirectNode>();
    Channel* to_third = sender->attach(*third);
    Channel* from_third = third->attach(*sender);
    ASSERT_TRUE(settled([&] { return to_third->up() && from_third->up(); }));
    ASSERT_TRUE(third->direct->bind(*from_third, 7));
    ASSERT_TRUE(settled([&] { return sender->direct->find(*to_third, 7) != nullptr; }));
    quiesce();
    auto& receive = third->post(7);
    ASSERT_TRUE(granted(*to_third, 7));
    ASSERT_EQ(sent().links, 1u);
    receiver.reset();
    // The sender has not heard of that.
    const std::string text(64, 'l');
    Direct::Tuple* tuple = sender->direct->find(*to_third, 7);
    ASSERT_TRUE(sender->direct->may_send(*tuple, text.size()));
    ASSERT_EQ(sender->direct->send_zcopy(*to_third, *tuple, text.data(), 64, &tuple),
              Status::kInProgress);
    int cookie = 0;
    ASSERT_EQ(sender->direct->flush(*to_third, &cookie), Status::kInProgress);
    ASSERT_TRUE(settled([&] { return sender->completions.size() == 2; }));
    EXPECT_NE(sender->completions[0], Status::kOk);
    EXPECT_NE(sender->completions[1], Status::kOk);
    ASSERT_TRUE(settled([&] { return third->ends == 1 && sender->ends == 2; }));
    EXPECT_EQ(sent().links_lost, 1u);
    EXPECT_NE(sender->closures.back(), Status::kOk);
    EXPECT_FALSE(receive.done);
    EXPECT_EQ(third->direct->queues_in_use(), 0u);
    // All begins anew.
    to_third = sender->attach(*third);
    from_third = third->attach(*sender);
    ASSERT_TRUE(settled([&] { return to_third->up() && from_third->up(); }));
    ASSERT_TRUE(third->direct->bind(*from_third, 7));
    ASSERT_TRUE(settled([&] { return sender->direct->find(*to_third, 7) != nullptr; }));
    ASSERT_TRUE(granted(*to_third, 7));
    ASSERT_TRUE(sender->send(*to_third, 7, "again"));
    ASSERT_TRUE(settled([&] { return receive.done; }));
    EXPECT_TRUE(receive.direct);
    EXPECT_EQ(receive.text, "again");
}

// A tag that two peers send: messages of the second wait until it is known whose the receives are.
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
    ASSERT_TRUE(settled([&] { return receiver->direct->queues_in_use() == 0; }));
    EXPECT_EQ(receiver->ordinary, 1u);
}

}  // namespace
}  // namespace tern::test
