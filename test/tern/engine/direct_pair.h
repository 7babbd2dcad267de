// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "direct_node.h"

namespace tern::test {

inline constexpr uint64_t kTag = 0x1234'5678'9abc'def0;

class DirectMessages : public testing::Test {
  protected:
    void SetUp() override {
        if (!has_xrc()) GTEST_SKIP() << "no XRC";
        meet();
    }
    void meet() {
        out = sender->attach(*receiver);
        in = receiver->attach(*sender);
        ASSERT_TRUE(out != nullptr && in != nullptr);
        ASSERT_TRUE(settled([this] { return out->up() && in->up(); }));
    }
    // Connects the sender to another receiver, and binds a tuple of tag 7.
    void meet_third() {
        to_third = sender->attach(*third);
        from_third = third->attach(*sender);
        ASSERT_TRUE(to_third != nullptr && from_third != nullptr);
        ASSERT_TRUE(settled([this] { return to_third->up() && from_third->up(); }));
        ASSERT_TRUE(third->tupleq->bind(*from_third, 7));
        ASSERT_TRUE(
            settled([this] { return sender->tupleq->sender().find(*to_third, 7) != nullptr; }));
    }
    void TearDown() override {
        if (sender && sender->tupleq) {
            EXPECT_EQ(sender->tupleq->counters().not_ready, 0u);
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
    // Binds a tuple, and waits until both sides know.
    void bind(uint64_t tag = kTag) {
        ASSERT_TRUE(receiver->tupleq->bind(*in, tag));
        ASSERT_TRUE(settled([&] { return sender->tupleq->sender().find(*out, tag) != nullptr; }));
        quiesce();
    }
    void send(const std::string& text, uint64_t tag = kTag, bool zcopy = false) {
        ASSERT_TRUE(settled([&] { return sender->send(*out, tag, text, zcopy); }));
    }
    // Waits until the sender may send its next message direct.
    bool granted(uint64_t tag = kTag) { return granted(*out, tag); }
    bool granted(Channel& channel, uint64_t tag) { return granted(channel, tag, *sender); }
    bool granted(Channel& channel, uint64_t tag, const DirectNode& from) {
        return settled([&] {
            TupleQ::Tuple* tuple = from.tupleq->sender().find(channel, tag);
            return tuple != nullptr && from.tupleq->sender().may_send(*tuple, tag, 0);
        });
    }
    TupleQCounters sent() const { return sender->tupleq->counters(); }

    std::unique_ptr<DirectNode> sender = std::make_unique<DirectNode>();
    std::unique_ptr<DirectNode> receiver = std::make_unique<DirectNode>();
    std::unique_ptr<DirectNode> third;
    Channel* out = nullptr;
    Channel* in = nullptr;
    Channel* to_third = nullptr;
    Channel* from_third = nullptr;
};

}  // namespace tern::test
