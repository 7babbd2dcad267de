// SPDX-License-Identifier: BSD-3-Clause
// Random traffic from up to three senders to one receiver: each message gets the receive that MPI's
// rules give it, whichever way the message goes.
#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../unit/schedules.h"
#include "direct_pair.h"

namespace tern::test {
namespace {

struct Totals {
    uint64_t schedules = 0;
    uint64_t messages = 0;
    uint64_t direct = 0;
    uint64_t voids = 0;
    uint64_t holds = 0;
    uint64_t cancels = 0;  // that did not end at once
    uint64_t key_changes = 0;
};

class Traffic {
  public:
    Traffic(Random random, Totals& totals) : random_(random), totals_(totals) {
        TupleQSettings settings = few_tuples();
        settings.policy = {.after = static_cast<uint32_t>(random_.between(1, 4)),
                           .least = 0,
                           .idle = static_cast<uint32_t>(random_.between(1, 8))};
        settings.tuples = static_cast<uint32_t>(random_.between(1, 4));
        settings.depth = 1u << random_.below(4);
        receiver_ = std::make_unique<DirectNode>(settings);
        for (uint64_t i = random_.between(1, 3); i != 0; --i)
            senders_.push_back({std::make_unique<DirectNode>(settings)});
        keys_ = random_.between(1, 5);
        ahead_ = random_.chance(75);
        if (random_.chance(50)) strays_ = random_.chance(70) ? 2 : 100;
        wildcards_ = random_.chance(50) ? 2 : 0;
        masks_ = static_cast<Masks>(random_.below(3));
        ends_ = random_.chance(30);
    }

    void run() {
        for (Sender& sender : senders_) {
            sender.out = sender.node->attach(*receiver_);
            sender.in = receiver_->attach(*sender.node);
            ASSERT_TRUE(sender.out != nullptr && sender.in != nullptr);
            ASSERT_TRUE(
                until([&] { poll(); }, [&] { return sender.out->up() && sender.in->up(); }));
        }
        const uint64_t steps = random_.between(600, 2400);
        for (uint64_t i = 0; i < steps; ++i) {
            if (masks_ == Masks::kChanging && random_.below(400) == 0) open_ = !open_;
            if (ends_ && i == steps / 2) end_one();
            step();
        }
        ASSERT_NO_FATAL_FAILURE(settle());
        check();
        count();
    }

  private:
    enum class Masks : uint8_t { kFull, kOpen, kChanging };
    struct Sender {
        std::unique_ptr<DirectNode> node;
        Channel* out = nullptr;
        Channel* in = nullptr;
        bool over = false;
    };
    struct Message {
        Sender& sender;
        uint64_t tag;
        std::string text;  // begins with the message's number
    };
    struct Receive {
        DirectNode::Receive& it;
        uint64_t tag;
        uint64_t mask;
        bool to_cancel = false;

        bool has_message() const { return it.done && it.status == Status::kOk; }
        bool matches(const Message& message) const { return ((message.tag ^ tag) & mask) == 0; }
    };

    void poll() {
        receiver_->poll();
        for (Sender& sender : senders_) sender.node->poll();
    }
    // Usually long enough for grants to arrive, even if a thread of the device carries them.
    void pause() {
        for (int i = 0; i < 8; ++i) {
            for (int k = 0; k < 8; ++k) poll();
            std::this_thread::sleep_for(std::chrono::microseconds(20));
        }
    }
    void step() {
        switch (random_.below(10)) {
            case 0:
            case 1:
            case 2:
                if (receives_.size() < messages_.size() + (ahead_ ? 25 : 10)) post();
                break;
            case 3:
            case 4:
            case 5:
                if (messages_.size() + (ahead_ ? 15 : 0) < receives_.size() + 10) send();
                break;
            case 6:
                senders_[random_.below(senders_.size())].node->poll();
                break;
            case 7:
                receiver_->poll();
                break;
            case 8:
                poll();
                break;
            default:
                if (random_.chance(20)) pause();
                if (random_.chance(2)) receiver_->tupleq->unbind(some_key());
                if (random_.chance(5) && !receives_.empty()) cancel();
        }
        key_changes_ += key_mask_ != receiver_->posted.key_mask();
        key_mask_ = receiver_->posted.key_mask();
    }
    uint64_t some_key() { return random_.between(1, keys_) << 4; }

    void post() {
        uint64_t mask = PostedReceive::kFullMask;
        if (masks_ == Masks::kOpen || open_) mask = random_.chance(95) ? ~uint64_t{3} : mask;
        if (random_.chance(wildcards_)) mask = random_.chance(50) ? 0 : ~uint64_t{0xf0};
        post(some_key(), random_.chance(30) ? 24 : 200, mask);
    }
    void post(uint64_t tag, size_t room, uint64_t mask) {
        receives_.push_back({receiver_->post(tag, room, mask), tag, mask});
    }
    void send() {
        const uint64_t which = random_.below(senders_.size());
        const uint64_t key = some_key();
        Sender& sender = senders_[which];
        if (sender.over) return;
        if ((key >> 4) % senders_.size() != which && !random_.chance(strays_)) return;
        const bool differs = masks_ != Masks::kFull && random_.chance(8);
        const uint64_t tag = key | (differs ? random_.below(4) : 0);
        Message& message =
            messages_.emplace_back(Message{sender, tag, std::to_string(messages_.size()) + ' '});
        if (random_.chance(30)) message.text.resize(message.text.size() + random_.below(100), 'x');
        if (!sender.node->send(*sender.out, tag, message.text, random_.chance(20)))
            messages_.pop_back();
    }
    void cancel() {
        // One of the last receives, because earlier ones are hardly ever still posted.
        const uint64_t back = random_.below(std::min<uint64_t>(receives_.size(), 20));
        Receive& receive = receives_[receives_.size() - 1 - back];
        if (!receive.it.posted || receive.to_cancel) return;
        receive.to_cancel = true;
        const TupleQ::Cancel result = receiver_->tupleq->cancel(receive.it);
        if (result == TupleQ::Cancel::kDone) receive.it.canceled = true;
        totals_.cancels += result == TupleQ::Cancel::kLater;
    }
    // Ends the first sender's connection, from either side.
    void end_one() {
        Sender& first = senders_.front();
        first.over = true;
        if (random_.chance(50))
            receiver_->engine->fail(*first.in, Status::kConnectionReset, "a test");
        else
            first.node->engine->fail(*first.out, Status::kConnectionReset, "a test");
    }

    const Message& message_of(const Receive& receive) const {
        return messages_.at(std::stoul(receive.it.text));
    }
    // Posts receives for unexpected messages until all due messages and cancels have come.
    void settle() {
        const auto turn = [this] {
            pause();
            while (!receiver_->unexpected.empty())
                post(receiver_->unexpected.front().tag, 200, PostedReceive::kFullMask);
        };
        const auto is_due = [](const Message& message) { return !message.sender.over; };
        const auto due = std::ranges::count_if(messages_, is_due);
        const auto all_there = [&] {
            return due == std::ranges::count_if(receives_, [&](const Receive& receive) {
                       return receive.has_message() && is_due(message_of(receive));
                   });
        };
        ASSERT_TRUE(until(turn, all_there)) << "of " << due << " messages; " << receiver_->reason;
        ASSERT_TRUE(until(turn, [&] {
            return std::ranges::all_of(receives_, [](const Receive& receive) {
                return !receive.to_cancel || receive.it.canceled || receive.it.done;
            });
        }));
        ASSERT_TRUE(until(turn, [&] { return receiver_->ends >= ends_; }));
        for (int i = 0; i < 5; ++i) turn();
        ASSERT_EQ(receiver_->ends, unsigned{ends_}) << receiver_->reason;
    }
    void check() const {
        std::vector<unsigned> had(messages_.size());
        for (const Receive& receive : receives_) {
            if (!receive.has_message()) continue;
            const Message& message = message_of(receive);
            ++had[std::stoul(receive.it.text)];
            EXPECT_EQ(receive.it.text, message.text);
            EXPECT_TRUE(receive.matches(message));
            EXPECT_FALSE(receive.it.canceled);
            if (receive.it.direct) {
                EXPECT_EQ(receive.it.message_tag, message.tag);
            }
        }
        for (size_t i = 0; i < had.size(); ++i)
            EXPECT_TRUE(had[i] == 1 || (had[i] == 0 && messages_[i].sender.over)) << i;
        for (const Sender& sender : senders_)
            EXPECT_EQ(sender.node->tupleq->counters().not_ready, 0u);
        for (size_t i = 0; i < receives_.size() && !testing::Test::HasFailure(); ++i)
            if (receives_[i].has_message()) check_order(i);
    }
    // Earlier receives that match the message are done, none with a later message of its sender.
    void check_order(size_t later) const {
        const Message& message = message_of(receives_[later]);
        for (size_t i = 0; i < later; ++i) {
            const Receive& receive = receives_[i];
            if (!receive.matches(message) || receive.it.canceled) continue;
            ASSERT_TRUE(receive.it.done) << message.text << "has not taken the first receive";
            if (!receive.has_message() || &message_of(receive).sender != &message.sender) continue;
            ASSERT_LT(std::stoul(receive.it.text), std::stoul(message.text)) << "overtaken";
        }
    }
    void count() {
        const TupleCounters& counters = receiver_->tupleq->matching();
        ++totals_.schedules;
        totals_.messages += messages_.size();
        totals_.direct += counters.direct;
        totals_.voids += counters.void_grants;
        totals_.holds += counters.holds;
        totals_.key_changes += key_changes_;
    }

    Random random_;
    Totals& totals_;
    uint64_t keys_ = 0;
    bool ahead_ = false;   // most receives are posted before their messages are sent
    unsigned strays_ = 0;  // percent of messages whose key is another sender's
    unsigned wildcards_ = 0;
    Masks masks_ = Masks::kFull;
    bool open_ = false;
    bool ends_ = false;
    uint64_t key_mask_ = PostedReceive::kFullMask;
    uint64_t key_changes_ = 0;
    std::deque<Message> messages_;  // must outlive the nodes, which send from here
    std::deque<Receive> receives_;
    std::unique_ptr<DirectNode> receiver_;
    std::vector<Sender> senders_;
};

TEST(DirectTraffic, EveryMessageHasTheReceiveThatIsIts) {
    if (!has_xrc()) GTEST_SKIP() << "no XRC";
    constexpr uint64_t kSchedules = 40;
    Totals totals;
    // With a sanitizer, too: check.sh runs this suite with one only.
    each_schedule(kSchedules * kShareOfSchedules, [&](Random random) -> std::string {
        Traffic(random, totals).run();
        return testing::Test::HasFailure() ? "see above" : "";
    });
    if (totals.schedules != kSchedules) return;
    // The test is about direct messages. 5 to 30 % are direct, fewer if the device has a thread and
    // waits for it.
    EXPECT_GT(100 * totals.direct, totals.messages);
    EXPECT_GT(totals.voids, 0u);
    EXPECT_GT(totals.key_changes, 0u);
    RecordProperty("messages", std::to_string(totals.messages));
    RecordProperty("direct", std::to_string(totals.direct));
    RecordProperty("held", std::to_string(totals.holds));
    RecordProperty("cancels", std::to_string(totals.cancels));
}

}  // namespace
}  // namespace tern::test
