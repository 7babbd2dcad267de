// SPDX-License-Identifier: BSD-3-Clause

// Devices with less room than Tern asks for, or that refuse to make an object.

#include <cerrno>
#include <string>
#include <vector>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace capacity_test {

class Owner final : public EngineOwner {
  public:
    void lost(const PeerAddress&, Status, const std::string&) override {}
    Status ended(Channel&, Status status) override { return status; }
    void closed(void*, Status) override {}
    void on_probe_timeout(void*) override {}
    void completed(void*, Status) override {}
    void warn(const std::string&) override {}
};

class CapacityTest : public testing::Test {
  protected:
    static bool talk(Node& a, Channel& channel, Node& b, int messages) {
        for (int i = 0; i < messages; ++i)
            if (!a.send(channel, 1, std::string(300, 'x'), b)) return false;
        return until(
            [&] {
                a.poll();
                b.poll();
            },
            [&] { return b.messages.size() == static_cast<size_t>(messages); });
    }
    static Channel* attach(Node& from, Node& to, void* user, std::string& why) {
        return from.engine->attach(to.engine->address(), user, why);
    }

    std::string why_;
    int user_ = 0;
};

TEST_F(CapacityTest, LessInlineDataThanAskedFor) {
    for (const uint32_t most : {1024, 101, 96, 88}) {
        const PoorDevice poor(most);
        EngineSettings settings = quick_settings();
        settings.inline_bytes = 512;
        Node a(settings), b(settings);
        EXPECT_LE(a.engine->max_inline(), most);
        EXPECT_GE(a.engine->max_inline(), 64u);
        Channel* channel = attach(a, b, &user_, why_);
        ASSERT_NE(channel, nullptr) << why_;
        EXPECT_TRUE(talk(a, *channel, b, 300)) << most;
    }
}

TEST_F(CapacityTest, TooLittleInlineDataIsAnError) {
    const PoorDevice poor(32);
    Owner owner;
    EXPECT_EQ(Engine::create(device(), port(), quick_settings(), owner, why_), nullptr);
    EXPECT_FALSE(why_.empty());
}

// The queue has room for many connections from the start.
TEST_F(CapacityTest, CompletionQueuesThatCannotGrow) {
    const PoorDevice poor(UINT32_MAX, false);
    EngineSettings settings = quick_settings();
    settings.receive_queue = 32;
    settings.send_queue = 32;
    Node center(settings);
    std::vector<std::unique_ptr<Node>> others;
    for (int i = 0; i < 12; ++i) {
        others.push_back(std::make_unique<Node>(settings));
        Channel* channel = attach(*others.back(), center, &user_, why_);
        ASSERT_NE(channel, nullptr) << why_;
        center.messages.clear();
        ASSERT_TRUE(talk(*others.back(), *channel, center, 3)) << i;
    }
    EXPECT_EQ(center.engine->connections(), 12u);
    EXPECT_TRUE(center.warnings.empty());
}

// A small job, in which the n-th call of a function fails, for each n: it works, or fails with a
// reason; and nothing is left.
class RefusalTest : public CapacityTest, public testing::WithParamInterface<Verb> {
  protected:
    enum class End : uint8_t { kWorked, kRefused, kFailed };

    End run() {
        Owner owner;
        for (int i = 0; i < 2; ++i) {
            // The set-up of a third interface fails, if it is the set-up that fails.
            why_.clear();
            if (Engine::create(device(), port(), quick_settings(), owner, why_) == nullptr) {
                EXPECT_FALSE(why_.empty());
                EXPECT_EQ(why_.find("Success"), std::string::npos) << why_;
                return End::kRefused;
            }
        }
        return End::kWorked;
    }
};

TEST_P(RefusalTest, OfTheSetUp) {
    watch_posts(device().context.get());
    unsigned n = 1;
    for (;; ++n) {
        const VerbsFault fault(GetParam(), n, ENOMEM);
        if (run() == End::kWorked && fault.calls() < n) break;
        ASSERT_LT(n, 1000u);
    }
    EXPECT_EQ(n == 1, GetParam() == Verb::kCreateAh) << "whether it is never called";
}

TEST_P(RefusalTest, OfAConnection) {
    for (unsigned n = 1;; ++n) {
        Node a, b;
        const VerbsFault fault(GetParam(), n, ENOMEM);
        Channel* channel = attach(a, b, &user_, why_);
        if (channel == nullptr) {
            EXPECT_FALSE(why_.empty());
            continue;
        }
        uint32_t length = 0;
        const auto fill = [](void* to) {
            memcpy(to, "hello", 5);
            return 5u;
        };
        Status status = a.engine->am_bcopy(*channel, 1, fill, length);
        const bool ended = until(
            [&] {
                a.poll();
                b.poll();
                if (status == Status::kNoResource && a.closures.empty())
                    status = a.engine->am_bcopy(*channel, 1, fill, length);
            },
            [&] { return !a.closures.empty() || !b.messages.empty(); });
        ASSERT_TRUE(ended) << "call " << n;
        EXPECT_LE(a.losses.size(), 1u) << "one line in the log";
        if (!a.closures.empty()) {
            EXPECT_NE(a.closures[0].second, Status::kOk);
            EXPECT_FALSE(a.reason.empty());
        }
        if (fault.calls() < n) break;
        ASSERT_LT(n, 100u);
    }
}

// The n-th work request is refused, whoever posts it and for what: a connection ends, or a datagram
// is sent again.
TEST_F(CapacityTest, RefusedWorkRequests) {
    watch_posts(device().context.get());
    constexpr size_t kMessages = 40;
    for (unsigned n = 1;; ++n) {
        Node a, b;
        const VerbsFault fault(Verb::kPostSend, n, ENOMEM);
        Channel* channel = attach(a, b, &user_, why_);
        ASSERT_NE(channel, nullptr) << why_;
        size_t sent = 0;
        const bool ended = until(
            [&] {
                uint32_t length = 0;
                const auto fill = [](void* to) {
                    memset(to, 'x', 200);
                    return 200u;
                };
                if (a.closures.empty() && sent < kMessages)
                    sent += a.engine->am_bcopy(*channel, 1, fill, length) == Status::kOk;
                a.poll();
                b.poll();
            },
            [&] { return !a.closures.empty() || b.messages.size() == kMessages; });
        ASSERT_TRUE(ended) << "work request " << n;
        EXPECT_LE(a.losses.size(), 1u);
        EXPECT_LE(b.losses.size(), 1u);
        EXPECT_TRUE(a.breakdowns.empty() && b.breakdowns.empty());
        if (fault.calls() < n) break;
        ASSERT_LT(n, 500u);
    }
}

INSTANTIATE_TEST_SUITE_P(Verbs, RefusalTest,
                         testing::Values(Verb::kCreateQp, Verb::kCreateCq, Verb::kCreateSrq,
                                         Verb::kCreateAh, Verb::kModifyQp, Verb::kRegMr,
                                         Verb::kPostRecv, Verb::kPostSrqRecv),
                         verb_name);

}  // namespace capacity_test
}  // namespace tern::test
