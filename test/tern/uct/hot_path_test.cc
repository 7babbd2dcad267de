// SPDX-License-Identifier: BSD-3-Clause
// The fast path, judged by its counters (hot peers, memory for blocks), and traffic under all of
// its settings.
#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <thread>

#include "traffic.h"

namespace uct_test {
namespace {

class HotPathTest : public TernTest {
  protected:
    Stream stream(uint64_t count, uint8_t id = 0) {
        Stream it;
        it.seed = seed_ + id;
        it.count = count;
        it.id = id;
        return it;
    }
    // Sends each message when the one before has been received.
    template <class Send>
    static void one_by_one(const Group& who, std::size_t count, const std::size_t& received,
                           Send&& send) {
        for (std::size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(accepted(who, send));
            ASSERT_TRUE(eventually(who, [&] { return received == i + 1; }));
        }
    }

    uint64_t seed_ = any_seed();
};

TEST_F(HotPathTest, WhoTalksGetsHot) {
    NEEDS_BLOCKS();
    Entity a, b;
    Stream small = stream(20000);
    small.most = 1000;
    {
        Flow flow(a, b, small);
        ASSERT_TRUE(run({&flow}));
    }
    const Counters sender = a.close_and_count(), receiver = b.close_and_count();
    EXPECT_EQ(sender["sent_hot"] + sender["sent_cold"] >= 20000, true) << sender.json();
    EXPECT_GT(sender["sent_hot"], 19000u) << sender.json();
    EXPECT_GE(receiver["received_hot"] + receiver["received_cold"], 20000u) << receiver.json();
    EXPECT_GT(receiver["received_hot"], 19000u) << receiver.json();
    EXPECT_GT(sender["promotions"] + receiver["promotions"], 0u);
    EXPECT_EQ(receiver["hot_peers_most"], 1u) << receiver.json();
    EXPECT_EQ(sender["short"] + sender["bcopy"] + sender["zcopy"], 20000u) << sender.json();
    EXPECT_EQ(sender["put"], 0u);
}

// A program that computes polls now and then. Each of its polls finds what has arrived, also what
// went past the block.
TEST_F(HotPathTest, WhoPollsRarelyFindsAllAtOnce) {
    NEEDS_BLOCKS();
    NEEDS_SOFTWARE_HCA();
    constexpr uint8_t kId = 7;
    Entity a, b;
    std::size_t received = 0;
    b.handle(kId, [&](Bytes) { ++received; });
    const Endpoint ep = a.connect(b);
    const std::size_t longest = a.attr().cap.am.max_bcopy;
    const auto send = [&](std::size_t length) {
        const auto pack = [](void* to, void* argument) {
            const std::size_t size = *static_cast<std::size_t*>(argument);
            memset(to, 1, size);
            return size;
        };
        const ssize_t sent = uct_ep_am_bcopy(ep.get(), kId, pack, &length, 0);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    };
    one_by_one({&a, &b}, 1000, received, [&] { return send(8); });
    for (int round = 0; round < 50; ++round) {
        // The block does not take the longest message.
        for (const std::size_t length : {std::size_t{8}, longest, std::size_t{8}}) {
            received = 0;
            ASSERT_TRUE(accepted({&a}, [&] { return send(length); }));
            std::this_thread::sleep_for(milliseconds(1));
            b.progress();
            ASSERT_EQ(received, 1u) << "round " << round << ", " << length << " bytes";
        }
    }
    const Counters counters = b.close_and_count();
    EXPECT_GE(counters["received_hot"], 100u) << counters.json();
    EXPECT_GE(counters["received_cold"], 50u) << counters.json();
}

TEST_F(HotPathTest, WhoSaysLittleStaysCold) {
    Entity a(Settings{{"HOT_AFTER", "64"}}), b(Settings{{"HOT_AFTER", "64"}});
    {
        Flow flow(a, b, stream(30));
        ASSERT_TRUE(run({&flow}));
    }
    const Counters receiver = b.close_and_count();
    EXPECT_EQ(receiver["received_hot"], 0u) << receiver.json();
    EXPECT_EQ(receiver["block_bytes_most"], 0u) << receiver.json();
    EXPECT_EQ(a.close_and_count()["sent_hot"], 0u);
}

TEST_F(HotPathTest, NobodyIsHotIfNobodyMayBe) {
    const Settings cold{{"HOT_MAX", "0"}};
    Entity a(cold), b(cold);
    {
        Flow there(a, b, stream(5000)), back(b, a, stream(5000, 2));
        ASSERT_TRUE(run({&there, &back}));
    }
    for (Entity* entity : {&a, &b}) {
        const Counters counters = entity->close_and_count();
        EXPECT_EQ(counters["received_hot"], 0u) << counters.json();
        EXPECT_EQ(counters["block_bytes_most"], 0u) << counters.json();
    }
}

// A completion would be taken for each message nevertheless.
TEST_F(HotPathTest, NobodyIsHotIfTheCompletionQueueTells) {
    Entity a, b(Settings{{"POLL", "cq"}});
    {
        Flow flow(a, b, stream(5000));
        ASSERT_TRUE(run({&flow}));
    }
    const Counters receiver = b.close_and_count();
    EXPECT_EQ(receiver["received_hot"], 0u) << receiver.json();
    EXPECT_EQ(receiver["block_bytes_most"], 0u) << receiver.json();
}

// Three peers take turns while only one may be hot: each becomes hot, and no message is lost in
// between.
TEST_F(HotPathTest, OnePlaceForThree) {
    NEEDS_BLOCKS();
    constexpr std::size_t kPeers = 3;
    Entity center(Settings{{"HOT_MAX", "1"}, {"hot_window", "256"}});
    std::vector<std::unique_ptr<Entity>> peers;
    std::vector<std::unique_ptr<Flow>> flows;
    for (std::size_t i = 0; i < kPeers; ++i) {
        peers.push_back(std::make_unique<Entity>());
        flows.push_back(
            std::make_unique<Flow>(*peers[i], center, stream(30000, static_cast<uint8_t>(2 * i))));
    }
    const Group all{&center, peers[0].get(), peers[1].get(), peers[2].get()};
    for (int turn = 0; turn < 30; ++turn) {
        Flow& flow = *flows[static_cast<std::size_t>(turn) % kPeers];
        const uint64_t target = flow.sender.sent() + 1000;
        ASSERT_TRUE(eventually(all, [&] {
            if (flow.sender.sent() < target) flow.sender.step(16);
            return flow.sender.sent() >= target;
        })) << turn;
    }
    std::vector<Flow*> rest;
    for (const auto& flow : flows) rest.push_back(flow.get());
    ASSERT_TRUE(run(rest));
    flows.clear();
    for (auto& peer : peers) {
        const Counters counters = peer->close_and_count();
        EXPECT_GT(counters["sent_hot"], 0u) << counters.json();
    }
    const Counters counters = center.close_and_count();
    EXPECT_EQ(counters["hot_peers_most"], 1u) << counters.json();
    EXPECT_GT(counters["demotions"], 1u) << counters.json();
    EXPECT_GT(counters["promotions"], 2u) << counters.json();
    EXPECT_LE(counters["block_bytes_most"], 2u * 65536) << counters.json();
}

// A silent peer gives up its block to peers that send.
TEST_F(HotPathTest, SilentPeersAreDemoted) {
    NEEDS_BLOCKS();
    Entity center(Settings{{"hot_window", "256"}}), once, steady;
    {
        Flow first(once, center, stream(2000, 0));
        ASSERT_TRUE(run({&first}));
        Flow second(steady, center, stream(20000, 2));
        const Group all{&center, &once, &steady};
        ASSERT_TRUE(eventually(all, [&] {
            second.sender.step(16);
            return second.done();
        }));
        EXPECT_EQ(second.receiver.wrong(), "");
    }
    const Counters counters = center.close_and_count();
    EXPECT_GE(counters["demotions"], 1u) << counters.json();
    EXPECT_EQ(counters["hot_peers_most"], 2u) << counters.json();
}

TEST_F(HotPathTest, BlocksGrowWithUseAndNoMore) {
    NEEDS_BLOCKS();
    Entity a, b(Settings{{"block_min", "4096"}, {"BLOCK_MAX", "32k"}});
    {
        Stream large = stream(20000);
        large.typical = 2000;
        large.most = 2500;
        Flow flow(a, b, large);
        ASSERT_TRUE(run({&flow}));
    }
    const Counters counters = b.close_and_count();
    EXPECT_GT(counters["block_bytes_most"], 4096u) << counters.json();
    EXPECT_LE(counters["block_bytes_most"], 32768u) << counters.json();
}

// Growing step by step would register three blocks.
TEST_F(HotPathTest, TheFirstBlockFitsTheMessages) {
    NEEDS_BLOCKS();
    Entity a, b;
    const Endpoint ep = a.connect(b);
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    one_by_one({&a, &b}, 200, received, [&] { return am_bcopy(ep, 0, pattern(0, 2000)); });
    const Counters counters = b.close_and_count();
    EXPECT_EQ(counters["promotions"], 1u) << counters.json();
    EXPECT_EQ(counters["demotions"], 0u) << counters.json();
    EXPECT_GE(counters["block_bytes_most"], 28672u) << counters.json();
    EXPECT_LE(counters["block_bytes_most"], 32768u) << counters.json();
}

// When little memory for blocks is left, a peer gets a smaller one.
TEST_F(HotPathTest, BlocksShareOneBudget) {
    NEEDS_BLOCKS();
    Entity center(Settings{{"HOT_MEMORY", "40k"}}), one, two;
    const Endpoint first = one.connect(center), second = two.connect(center);
    std::size_t received = 0;
    center.handle(0, [&](Bytes) { ++received; });
    const Group all{&center, &one, &two};
    for (const Endpoint* ep : {&first, &second}) {
        received = 0;
        one_by_one(all, 200, received, [&] { return am_bcopy(*ep, 0, pattern(0, 2000)); });
    }
    const Counters counters = center.close_and_count();
    EXPECT_EQ(counters["hot_peers_most"], 2u) << counters.json();
    EXPECT_GT(counters["block_bytes_most"], 28672u) << counters.json();
    EXPECT_LE(counters["block_bytes_most"], 40960u) << counters.json();
}

TEST_F(HotPathTest, SmallTrafficNeedsNoLargeBlock) {
    NEEDS_BLOCKS();
    Entity a, b(Settings{{"block_min", "4096"}, {"BLOCK_MAX", "32k"}});
    const Endpoint ep = a.connect(b);
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    one_by_one({&a, &b}, 5000, received, [&] { return am_short(ep, 0, pattern(0, 8)); });
    const Counters counters = b.close_and_count();
    EXPECT_EQ(counters["block_bytes_most"], 4096u) << counters.json();
}

// The receiver finds frames whenever it polls, as many as the sender can send meanwhile.
TEST_F(HotPathTest, AStreamDoesNotStopWhileItsReceiverIsBusy) {
    Entity a, b(Settings{{"block_min", "32768"}, {"POLL", "memory"}});
    Endpoint ep = a.connect(b);
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    one_by_one({&a, &b}, 100, received, [&] { return am_bcopy(ep, 0, pattern(0, 256)); });
    for (int burst = 0; burst < 1000; ++burst) {
        for (int i = 0; i < 8; ++i) ASSERT_EQ(am_bcopy(ep, 0, pattern(0, 256)), UCS_OK) << burst;
        b.progress();
        a.progress();
    }
    ASSERT_TRUE(eventually({&a, &b}, [&] { return received == 8100; }));
    ep.reset();
    EXPECT_EQ(a.close_and_count()["credit_stalls"], 0u);
}

// A cold message has thousands of others before it in the block.
TEST_F(HotPathTest, AProgressCallTakesABoundedNumber) {
    const Settings large{{"SEG_SIZE", "65528"},
                         {"block_min", "262136"},
                         {"BLOCK_MAX", "262136"},
                         {"POLL", "memory"}};
    Entity a(large), b(large);
    Endpoint ep = a.connect(b);
    std::size_t received = 0;
    b.handle(0, [&](Bytes) { ++received; });
    one_by_one({&a, &b}, 100, received, [&] { return am_short(ep, 0, pattern(0, 8)); });
    for (std::size_t i = 0; i < 7'500; ++i)
        ASSERT_TRUE(accepted({&a}, [&] { return am_short(ep, 0, pattern(0, 8)); }));
    ASSERT_TRUE(accepted({&a}, [&] { return am_bcopy(ep, 0, pattern(0, 30'000)); }));
    std::size_t most = 0;
    for (int call = 0; call < 100'000 && received < 7'601; ++call) {
        const std::size_t before = received;
        b.progress();
        most = std::max(most, received - before);
    }
    EXPECT_EQ(received, 7'601u);
    EXPECT_LT(most, 1100u);
    ep.reset();
    EXPECT_GT(a.close_and_count()["sent_cold"], 1u);
}

// The cumulative credits wrap every 512 KiB.
TEST_F(HotPathTest, CreditsWrapManyTimes) {
    NEEDS_BLOCKS();
    Entity a, b;
    {
        Stream it = stream(60000);
        it.typical = 1500;
        it.most = 3000;
        Stream other = it;
        other.id = 2;
        other.count = 200;
        Flow there(a, b, it), back(b, a, other);
        ASSERT_TRUE(run({&there, &back}));
    }
    EXPECT_GT(a.close_and_count()["sent_hot"], 30000u);
}

struct Setup {
    const char* name;
    Settings settings;
};

void PrintTo(const Setup& setup, std::ostream* out) {
    *out << setup.name;
}

class SetupTest : public HotPathTest, public testing::WithParamInterface<Setup> {};

TEST_P(SetupTest, TrafficIsRight) {
    Entity a(GetParam().settings), b(GetParam().settings);
    Stream there = stream(20000), back = stream(20000, 2);
    back.typical = 4000;
    Flow one(a, b, there), other(b, a, back);
    EXPECT_TRUE(run({&one, &other}));
}

// The settings of the two sides may differ.
TEST_P(SetupTest, TrafficWithADefaultPeerIsRight) {
    Entity a(GetParam().settings), b;
    Stream there = stream(10000), back = stream(10000, 2);
    there.most = back.most = 1000;
    Flow one(a, b, there), other(b, a, back);
    EXPECT_TRUE(run({&one, &other}));
}

TEST_P(SetupTest, TrafficToOneselfIsRight) {
    Entity self(GetParam().settings);
    Flow flow(self, self, stream(5000));
    EXPECT_TRUE(run({&flow}));
}

INSTANTIATE_TEST_SUITE_P(
    Setups, SetupTest,
    testing::Values(Setup{"PollMemory", {{"POLL", "memory"}}}, Setup{"PollCq", {{"POLL", "cq"}}},
                    Setup{"TinyBlocks", {{"block_min", "512"}, {"BLOCK_MAX", "512"}}},
                    Setup{"LargeBlocks", {{"block_min", "262136"}, {"BLOCK_MAX", "262136"}}},
                    Setup{"HotAtOnce", {{"HOT_AFTER", "1"}}}, Setup{"NeverHot", {{"HOT_MAX", "0"}}},
                    Setup{"ShortQueues", {{"TX_QUEUE_LEN", "32"}, {"RX_QUEUE_LEN", "32"}}},
                    Setup{"FewBuffers", {{"TX_BUFFERS", "8"}}},
                    Setup{"SmallSegments", {{"SEG_SIZE", "1k"}}},
                    Setup{"LargeSegments", {{"SEG_SIZE", "65528"}}},
                    Setup{"LittleInline", {{"tx_min_inline", "64"}}},
                    Setup{"FastTurns", {{"hot_window", "32"}, {"HOT_AFTER", "2"}}}),
    [](const testing::TestParamInfo<Setup>& setup) { return std::string(setup.param.name); });

}  // namespace
}  // namespace uct_test
