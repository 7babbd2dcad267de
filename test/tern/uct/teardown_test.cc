// SPDX-License-Identifier: BSD-3-Clause
// Endpoints and interfaces are destroyed in any order and at any stage.
#include <algorithm>
#include <memory>
#include <string>

#include "traffic.h"

namespace uct_test {
namespace {

enum class Step : uint8_t { kEpA, kEpB, kInterfaceA, kInterfaceB };

// What the two interfaces have done before the end begins.
enum class Stage : uint8_t { kUnused, kConnecting, kCold, kHot, kBusy };

class TeardownTest : public TernTest, public testing::WithParamInterface<Stage> {
  protected:
    struct Pair {
        std::unique_ptr<Entity> a = std::make_unique<Entity>(impatient());
        std::unique_ptr<Entity> b = std::make_unique<Entity>(impatient());
        Endpoint ep_a = a->connect(*b);
        Endpoint ep_b = b->connect(*a);
        int received = 0;

        Pair() {
            for (Entity* entity : {a.get(), b.get()})
                entity->handle(0, [this](Bytes) { ++received; });
        }
        void send(int count) {
            for (int i = 0; i < count; ++i) {
                for (const Endpoint* ep : {&ep_a, &ep_b}) {
                    ASSERT_TRUE(accepted({a.get(), b.get()},
                                         [&] { return am_bcopy(*ep, 0, pattern(0, 100)); }));
                }
            }
        }
        void reach(Stage stage) {
            if (stage == Stage::kConnecting) {
                am_bcopy(ep_a, 0, pattern(0, 100));
                a->progress();
                b->progress();
                am_bcopy(ep_b, 0, pattern(0, 100));
            }
            if (stage == Stage::kCold) send(3);
            if (stage >= Stage::kHot) send(300);
            if (stage != Stage::kBusy) return;
            for (const Endpoint* ep : {&ep_a, &ep_b}) fill_up(*ep, 0, pattern(0, 500));
        }
        void take(Step step) {
            switch (step) {
                case Step::kEpA:
                    ep_a.reset();
                    break;
                case Step::kEpB:
                    ep_b.reset();
                    break;
                case Step::kInterfaceA:
                    a->close();
                    break;
                case Step::kInterfaceB:
                    b->close();
                    break;
            }
        }
        void linger() {
            for (int i = 0; i < 50; ++i) {
                a->progress();
                b->progress();
            }
        }
    };
};

TEST_P(TeardownTest, InAnyOrder) {
    std::array order{Step::kEpA, Step::kEpB, Step::kInterfaceA, Step::kInterfaceB};
    do {
        const auto place = [&](Step step) { return std::ranges::find(order, step); };
        if (place(Step::kInterfaceA) < place(Step::kEpA) ||
            place(Step::kInterfaceB) < place(Step::kEpB)) {
            continue;
        }
        for (const bool between : {false, true}) {
            Pair pair;
            pair.reach(GetParam());
            for (const Step step : order) {
                pair.take(step);
                if (between) pair.linger();
            }
        }
    } while (std::ranges::next_permutation(order).found);
}

// UCP flushes an endpoint and then destroys it. All flushed messages must be handled, then or soon.
TEST_P(TeardownTest, FlushedMessagesSurviveTheEndpoint) {
    if (GetParam() < Stage::kCold) GTEST_SKIP() << "nothing is sent";
    Pair pair;
    pair.reach(GetParam());
    const Group all{pair.a.get(), pair.b.get()};
    // Ends all traffic, then sends a known number of messages while the receiver makes no progress.
    ASSERT_TRUE(eventually(all, [&] {
        return uct_ep_flush(pair.ep_a.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK &&
               uct_ep_flush(pair.ep_b.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
    }));
    linger(all);
    pair.received = 0;
    int sent = 0;
    while (sent < 10 && am_bcopy(pair.ep_a, 0, pattern(0, 50)) == UCS_OK) ++sent;
    EXPECT_GT(sent, 0);
    ASSERT_TRUE(eventually({pair.a.get()}, [&] {
        return uct_ep_flush(pair.ep_a.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
    }));
    pair.ep_a.reset();
    for (int i = 0; i < 100; ++i) pair.a->progress();
    EXPECT_TRUE(eventually(all, [&] { return pair.received == sent; }))
        << pair.received << " of " << sent;
    EXPECT_TRUE(pair.b->failures().empty());
}

// The peer closes its interface while this side keeps its endpoint.
TEST_P(TeardownTest, PeerClosesItsInterface) {
    Pair pair;
    pair.reach(GetParam());
    pair.ep_b.reset();
    pair.b->close();
    // Sooner or later a send fails, once.
    ASSERT_TRUE(eventually({pair.a.get()}, [&] {
        am_bcopy(pair.ep_a, 0, pattern(0, 100));
        return pair.a->failures(pair.ep_a) > 0;
    }));
    linger({pair.a.get()});
    EXPECT_EQ(pair.a->failures(pair.ep_a), 1u);
    pair.ep_a.reset();
    // Another interface can take the place of the peer, with a connection of its own.
    Entity next;
    std::size_t received = 0;
    next.handle(0, [&](Bytes) { ++received; });
    pair.ep_a = pair.a->connect(next);
    ASSERT_TRUE(
        accepted({pair.a.get(), &next}, [&] { return am_bcopy(pair.ep_a, 0, pattern(0, 100)); }));
    ASSERT_TRUE(eventually({pair.a.get(), &next}, [&] { return received == 1; }));
    pair.ep_a.reset();
}

TEST_P(TeardownTest, AgainAndAgain) {
    Entity a(impatient()), b(impatient());
    std::size_t received = 0;
    a.handle(0, [&](Bytes) { ++received; });
    b.handle(0, [&](Bytes) { ++received; });
    const int messages = GetParam() >= Stage::kHot ? 50 : 2;
    for (int round = 0; round < 40; ++round) {
        Endpoint there = a.connect(b), back = b.connect(a);
        for (int i = 0; i < messages && GetParam() != Stage::kUnused; ++i) {
            if (GetParam() == Stage::kConnecting) {
                am_bcopy(round % 2 ? there : back, 0, pattern(0, 10));
                break;
            }
            ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(there, 0, pattern(0, 10)); }));
            if (round % 3) {
                ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(back, 0, pattern(0, 10)); }));
            }
        }
        if (round % 2) there.reset();
        for (int i = 0; i < round; ++i) a.progress();
        for (int i = 0; i < round * 7 % 11; ++i) b.progress();
    }
    linger({&a, &b});
    EXPECT_TRUE(a.failures().empty());
    EXPECT_TRUE(b.failures().empty());
}

std::string stage_name(const testing::TestParamInfo<Stage>& stage) {
    constexpr const char* kNames[] = {"Unused", "Connecting", "Cold", "Hot", "Busy"};
    return kNames[static_cast<int>(stage.param)];
}

INSTANTIATE_TEST_SUITE_P(Stages, TeardownTest,
                         testing::Values(Stage::kUnused, Stage::kConnecting, Stage::kCold,
                                         Stage::kHot, Stage::kBusy),
                         stage_name);

}  // namespace
}  // namespace uct_test
