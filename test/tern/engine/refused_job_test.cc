// SPDX-License-Identifier: BSD-3-Clause

// Short jobs in which the n-th call of a function of libibverbs is refused, for each n: a job
// works, or ends with an error, which is logged once; and nothing is left.

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "direct_pair.h"
#include "rendezvous_node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

// Sets up, runs `job` and `end` while the n-th call is refused, with n = 1, 2 ... until fewer calls
// are made.
template <class SetUp, class Job, class End>
void for_each_call(Verb verb, SetUp&& set_up, Job&& job, End&& end) {
    watch_posts(device().context.get());
    unsigned n = 0, calls = 0;
    do {
        ASSERT_LT(++n, 1000u);
        SCOPED_TRACE("call " + std::to_string(n));
        set_up();
        const VerbsFault fault(verb, n, ENOMEM);
        ASSERT_NO_FATAL_FAILURE(job());
        end();
        calls = fault.calls();
    } while (calls >= n);
}

// Each side connects to the other, and sends messages, gets, puts and leaves.
class RefusedJob : public testing::TestWithParam<Verb> {
  protected:
    static constexpr size_t kLength = 48 * 1024;
    static constexpr size_t kMessages = 40;
    static constexpr size_t kOperations = 3;

    struct Side {
        RendezvousNode node{SchemeSetting::kAuto, PollMode::kAuto, 2};
        std::vector<std::byte> memory{kLength};
        Channel* channel = nullptr;
        std::string why;
        size_t sent = 0;
        size_t begun = 0;  // gets, puts and a flush
        bool left = false;

        bool lost() const { return !why.empty() || !node.closed_with.empty(); }
        bool done() const { return left || lost(); }
    };

    static void begin(Side& side, const Side& other) {
        Rendezvous& rendezvous = *side.node.rendezvous;
        const Buffers::Piece piece{side.memory.data(), side.memory.size()};
        const WireKey key = other.node.key(other.node.open);
        Status status = Status::kOk;
        switch (side.begun) {
            case 0:
                status = rendezvous.get(*side.channel, {&piece, 1}, other.node.address(), key, 0,
                                        {}, {&side});
                break;
            case 1:
                status = rendezvous.put(*side.channel, {&piece, 1}, other.node.address(), key, 0,
                                        {&side});
                break;
            default:
                status = rendezvous.flush(*side.channel, {&side, &side});
                if (status == Status::kOk) side.node.completions.push_back(status);
        }
        side.begun += status == Status::kInProgress || status == Status::kOk;
    }
    static void step(Side& side, Side& other) {
        side.node.poll();
        // Nothing was lost: it connects again.
        if (std::erase(side.node.closed_with, Status::kOk) != 0) side.channel = nullptr;
        if (side.done()) return;
        if (side.channel == nullptr) {
            side.channel = side.node.engine->attach(other.node.engine->address(), &side, side.why);
        } else if (side.sent < kMessages) {
            uint32_t length = 0;
            const auto fill = [](void* to) {
                memset(to, 'x', 300);
                return 300u;
            };
            side.sent += side.node.engine->am_bcopy(*side.channel, 1, fill, length) == Status::kOk;
        } else if (side.begun < kOperations) {
            begin(side, other);
        } else if (side.node.completions.size() == kOperations &&
                   (other.done() || other.node.completions.size() == kOperations)) {
            side.node.engine->leave(side.channel, &side);
            side.left = true;
        }
    }
    static void run(Side& a, Side& b) {
        const auto over = [&] { return a.done() && b.done(); };
        ASSERT_TRUE(until([&] { step(a, b), step(b, a); }, over))
            << a.sent << " sent, " << a.begun << " begun, " << b.sent << " sent, " << b.begun
            << " begun by the other; " << a.node.reason << "; " << b.node.reason;
        for (Side* side : {&a, &b}) {
            EXPECT_LE(side->node.reasons.size(), 1u) << "lines in the log";
            EXPECT_EQ(side->lost(), !side->node.reason.empty() || !side->why.empty());
            EXPECT_LE(side->node.completions.size(), kOperations);
            if (side->lost()) {
                EXPECT_EQ(side->node.completions.size(), side->begun) << "some are not reported";
            } else {
                EXPECT_EQ(side->node.completions, std::vector<Status>(kOperations, Status::kOk));
            }
        }
        EXPECT_TRUE(until([&] { a.node.poll(), b.node.poll(); },
                          [&] {
                              return a.node.engine->connections() == 0 &&
                                     b.node.engine->connections() == 0;
                          }));
    }
};

TEST_P(RefusedJob, WorksOrEnds) {
    std::unique_ptr<Side> a, b;
    const auto set_up = [&] {
        a = std::make_unique<Side>();
        b = std::make_unique<Side>();
    };
    ASSERT_NO_FATAL_FAILURE(for_each_call(
        GetParam(), set_up, [&] { run(*a, *b); }, [&] { a.reset(), b.reset(); }));
}

INSTANTIATE_TEST_SUITE_P(Verbs, RefusedJob,
                         testing::Values(Verb::kCreateQp, Verb::kCreateAh, Verb::kModifyQp,
                                         Verb::kRegMr, Verb::kPostSend, Verb::kPostRecv,
                                         Verb::kPostSrqRecv),
                         verb_name);

// A tuple is bound, and gets messages in posted receives.
class RefusedDirectJob : public DirectMessages, public testing::WithParamInterface<Verb> {
  protected:
    void SetUp() override {
        if (!has_xrc()) GTEST_SKIP() << "no XRC";
    }
    void make_nodes() {
        sender = std::make_unique<DirectNode>();
        receiver = std::make_unique<DirectNode>();
    }
    void run() {
        std::string why;
        out = sender->engine->attach(receiver->engine->address(), sender.get(), why);
        in = receiver->engine->attach(sender->engine->address(), receiver.get(), why);
        if (out == nullptr || in == nullptr) {
            EXPECT_FALSE(why.empty());
            return;
        }
        const auto lost = [this] { return sender->ends + receiver->ends != 0; };
        ASSERT_TRUE(settled([&] { return lost() || (out->up() && in->up()); }));
        if (!lost()) (void)receiver->tupleq->bind(*in, kTag);
        constexpr size_t kReceives = 6;
        for (size_t i = 0; i < kReceives && !lost(); ++i) {
            auto& receive = receiver->post(kTag);
            for (int round = 0; round < 200 && !lost(); ++round) poll();
            bool is_sent = false;
            ASSERT_TRUE(settled([&] {
                is_sent = is_sent || lost() || sender->send(*out, kTag, std::to_string(i));
                return lost() || receive.done;
            })) << "message "
                << i;
            if (receive.done && receive.status == Status::kOk) {
                EXPECT_EQ(receive.text, std::to_string(i));
            }
        }
        if (lost()) {
            EXPECT_TRUE(settled([this] { return sender->ends != 0 && receiver->ends != 0; }));
        }
        EXPECT_LE(sender->reasons.size(), 1u);
        EXPECT_LE(receiver->reasons.size(), 1u);
        EXPECT_TRUE(sender->breakdowns.empty() && receiver->breakdowns.empty());
        direct += sent().sent;
    }

    uint64_t direct = 0;
};

TEST_P(RefusedDirectJob, WorksOrEnds) {
    ASSERT_NO_FATAL_FAILURE(for_each_call(
        GetParam(), [this] { make_nodes(); }, [this] { run(); },
        [this] { sender.reset(), receiver.reset(); }));
    EXPECT_GT(direct, 0u);
}

INSTANTIATE_TEST_SUITE_P(Verbs, RefusedDirectJob,
                         testing::Values(Verb::kModifyQp, Verb::kPostSend, Verb::kPostSrqRecv),
                         verb_name);

}  // namespace
}  // namespace tern::test
