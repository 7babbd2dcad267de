// SPDX-License-Identifier: BSD-3-Clause

// Active messages that travel with the end of a get.

#include <algorithm>
#include <memory>

#include "rendezvous_node.h"

namespace tern::test {
namespace {

constexpr std::byte kSent{0x5a};

Reply make_reply(uint8_t id, const std::string& text) {
    Reply reply{.id = id, .length = static_cast<uint8_t>(text.size())};
    memcpy(reply.bytes, text.data(), text.size());
    return reply;
}

// `near` gets from `far`, to which the replies go.
class ReplyTest : public testing::TestWithParam<SchemeSetting> {
  protected:
    ReplyTest() {
        std::ranges::fill(far->memory, kSent);
        std::string why;
        channel = near.engine->attach(far->engine->address(), this, why);
        EXPECT_TRUE(channel) << why;
    }
    void poll() {
        near.poll();
        if (far) far->poll();
    }
    void begin(size_t length, const WireKey& key, const Reply* reply) {
        std::ranges::fill(near.memory, std::byte{});
        const Buffers::Piece piece{near.memory.data(), length};
        Status status = Status::kNoResource;
        ASSERT_TRUE(until(
            [&] {
                status = near.rendezvous->get(*channel, {&piece, 1}, far->address(), key, 0, {},
                                              {this}, reply);
                poll();
            },
            [&] { return status == Status::kInProgress; }));
    }
    // Waits for the end of a get, and some time more.
    Status end() {
        EXPECT_TRUE(until([this] { poll(); }, [this] { return !near.completions.empty(); }));
        for (int i = 0; i < 2000; ++i) poll();
        EXPECT_EQ(near.completions.size(), 1u);
        const Status status = near.completions.empty() ? Status::kTimedOut : near.completions[0];
        near.completions.clear();
        return status;
    }
    bool has_come(size_t length) const {
        return std::all_of(near.memory.begin(),
                           near.memory.begin() + static_cast<std::ptrdiff_t>(length),
                           [](std::byte byte) { return byte == kSent; });
    }

    RendezvousNode near{GetParam()};
    std::unique_ptr<RendezvousNode> far = std::make_unique<RendezvousNode>(GetParam());
    Channel* channel = nullptr;
};

// The first get begins before the connection is up.
TEST_P(ReplyTest, ComesOnceAfterTheBytes) {
    uint64_t sent = 0;
    for (const std::string& text : {std::string(17, 'a'), std::string(32, 'b'), std::string()})
        for (const size_t length : {size_t{1}, size_t{4096}, size_t{100000}, RendezvousNode::kSize})
            for (int again = 0; again < 3; ++again) {
                const Reply reply = make_reply(static_cast<uint8_t>(again * 15), text);
                far->on_reply = [&] { EXPECT_TRUE(has_come(length)); };
                begin(length, far->key(far->open), &reply);
                EXPECT_EQ(end(), Status::kOk);
                ASSERT_EQ(far->replies.size(), 1u) << length;
                EXPECT_EQ(far->replies[0], std::pair(uint32_t{reply.id}, text));
                EXPECT_EQ(near.rendezvous->counters().replies, ++sent);
                far->replies.clear();
                begin(length, far->key(far->open), nullptr);
                EXPECT_EQ(end(), Status::kOk);
                EXPECT_TRUE(far->replies.empty()) << "none was asked for";
            }
    EXPECT_TRUE(near.replies.empty());
    EXPECT_EQ(far->rendezvous->counters().replies, 0u);
}

TEST_P(ReplyTest, ManyAtATimeReachThePeerEachOnce) {
    constexpr size_t kCount = 50, kEach = 5000;
    for (size_t i = 0; i < kCount; ++i) {
        const Reply reply = make_reply(static_cast<uint8_t>(i % 32), std::to_string(i));
        const Buffers::Piece piece{near.memory.data() + i * kEach, kEach};
        Status status = Status::kNoResource;
        ASSERT_TRUE(until(
            [&] {
                status = near.rendezvous->get(*channel, {&piece, 1}, far->address(),
                                              far->key(far->open), 0, {}, {this}, &reply);
                if (status == Status::kNoResource) poll();
            },
            [&] { return status == Status::kInProgress; }));
    }
    ASSERT_TRUE(until([this] { poll(); }, [&] { return far->replies.size() >= kCount; }));
    for (int i = 0; i < 2000; ++i) poll();
    std::vector<std::string> texts, expected;
    for (const auto& [id, text] : far->replies) {
        EXPECT_EQ(id, std::stoul(text) % 32);
        texts.push_back(text);
    }
    for (size_t i = 0; i < kCount; ++i) expected.push_back(std::to_string(i));
    std::ranges::sort(texts);
    std::ranges::sort(expected);
    EXPECT_EQ(texts, expected);
}

TEST_P(ReplyTest, StaysIfTheGetIsRefused) {
    const Reply reply = make_reply(9, "text");
    begin(1000, far->key(far->secret), &reply);
    EXPECT_EQ(end(), Status::kRemoteAccess);
    EXPECT_TRUE(far->replies.empty());
    EXPECT_EQ(near.rendezvous->counters().replies, 0u);
}

TEST_P(ReplyTest, StaysIfTheMemoryIsUndeclared) {
    const Reply reply = make_reply(9, "text");
    unsigned failed = 0;
    for (int turns = 0; turns < 60; ++turns) {
        begin(RendezvousNode::kSize, far->key(far->open), &reply);
        for (int i = 0; i < turns; ++i) poll();
        (void)far->regions.undeclare(far->open);
        far->open = far->regions.declare(far->memory.data(), far->memory.size(),
                                         kLocalRead | kLocalWrite | kRemoteAll);
        const bool good = end() == Status::kOk;
        failed += !good;
        // The connection is lost if the device read the memory; the reply may be lost with it.
        if (near.closures == 0 && channel->failed) {
            ASSERT_TRUE(until([this] { poll(); }, [this] { return near.closures != 0; }));
        }
        const bool lost = near.closures != 0;
        ASSERT_LE(far->replies.size(), good ? 1u : 0u) << turns;
        ASSERT_TRUE(lost || !good || far->replies.size() == 1) << turns;
        ASSERT_TRUE(!good || has_come(RendezvousNode::kSize));
        far->replies.clear();
        if (!lost) continue;
        std::string why;
        near.closures = 0;
        channel = near.engine->attach(far->engine->address(), this, why);
        ASSERT_TRUE(channel) << why;
    }
    EXPECT_NE(failed, 0u);
}

TEST_P(ReplyTest, StaysIfThePeerEnds) {
    const Reply reply = make_reply(9, "text");
    begin(RendezvousNode::kSize, far->key(far->open), &reply);
    ASSERT_TRUE(until([this] { poll(); }, [this] { return channel->up(); }));
    size_t replies = 0;
    far->on_reply = [&] { ++replies; };
    far.reset();
    const Status status = end();
    EXPECT_EQ(replies, near.rendezvous->counters().replies);
    EXPECT_EQ(replies, status == Status::kOk ? 1u : 0u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, ReplyTest,
                         testing::Values(SchemeSetting::kSuperpipeline, SchemeSetting::kZeroCopy),
                         [](const auto& test) {
                             return test.param == SchemeSetting::kZeroCopy ? "zcopy"
                                                                           : "superpipeline";
                         });

}  // namespace
}  // namespace tern::test
