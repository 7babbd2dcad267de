// SPDX-License-Identifier: BSD-3-Clause

// Send queues of connections: the first are long, the others short until they are busy.

#include "engine/queue_growth.h"

#include <gtest/gtest.h>

#include <iostream>

#include "verbs/queue_pair.h"
#include "world.h"

namespace tern::test {
namespace {

constexpr uint32_t kLong = 64;
constexpr uint32_t kShort = EngineSettings::kShortSendQueue;

EngineSettings queue_settings(uint32_t long_queues) {
    EngineSettings settings = small_settings();
    settings.send_queue = kLong;
    settings.long_queues = long_queues;
    settings.poll = PollMode::kMemory;
    return settings;
}

bool talk(World& world, size_t from, size_t to) {
    const auto all = [&] { world.poll_all(); };
    return until(all, [&] { return world.send(from, to); }) &&
           until(all, [&] { return world.all_received(); });
}

// Sends as fast as the queue permits, until it is long. False: too late.
bool stream(World& world, size_t from, size_t to) {
    const auto burst = [&] {
        while (world.send(from, to)) continue;
        world.poll_all();
    };
    return until(burst, [&] {
        const Channel* channel = world.channel(from, to);
        return channel != nullptr && channel->up() && channel->sends.depth() == kLong;
    });
}

// The same, until it takes no data because it is to grow.
bool begin_to_grow(World& world, size_t from, size_t to) {
    const auto grows = [&] {
        const Channel* channel = world.channel(from, to);
        return channel != nullptr && channel->ending == Connection::Ending::kGrows;
    };
    const auto burst = [&] {
        while (world.send(from, to)) continue;
        if (!grows()) world.poll_all();
    };
    return until(burst, grows);
}

TEST(QueueGrowthTest, TheFirstAreLong) {
    constexpr size_t kPeers = 6;
    World world(1 + kPeers, queue_settings(2));
    for (size_t to = 1; to <= kPeers; ++to) ASSERT_TRUE(talk(world, 0, to));
    for (size_t to = 1; to <= kPeers; ++to) {
        EXPECT_EQ(world.channel(0, to)->sends.depth(), to <= 2 ? kLong : kShort) << to;
        ASSERT_TRUE(talk(world, to, 0));
        EXPECT_EQ(world.channel(to, 0)->sends.depth(), kLong) << "its first connection";
    }
    EXPECT_EQ(world.node(0).engine->usage().send_queue_places, 2 * kLong + 4 * kShort);
}

// A connection that ends leaves its places to the next one.
TEST(QueueGrowthTest, PlacesComeBack) {
    World world(3, queue_settings(1));
    ASSERT_TRUE(talk(world, 0, 1));
    Node& here = world.node(0);
    world.leave(0, 1);
    ASSERT_TRUE(until([&] { world.poll_all(); },
                      [&] { return here.engine->usage().send_queue_places == 0; }));
    ASSERT_TRUE(talk(world, 0, 2));
    EXPECT_EQ(world.channel(0, 2)->sends.depth(), kLong);
}

TEST(QueueGrowthTest, ABusyOneGrows) {
    World world(2, queue_settings(0));
    ASSERT_TRUE(talk(world, 0, 1));
    EXPECT_EQ(world.channel(0, 1)->sends.depth(), kShort);
    EXPECT_TRUE(stream(world, 0, 1));
    EXPECT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
    EXPECT_EQ(world.node(0).engine->usage().connections_lengthened, 1u);
    // The peer's side grows by itself, and both keep their length.
    EXPECT_TRUE(stream(world, 1, 0));
    EXPECT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
    EXPECT_TRUE(stream(world, 0, 1));
    EXPECT_LE(world.node(0).engine->usage().connections_lengthened, 1u);
    EXPECT_LE(world.node(1).engine->usage().connections_lengthened, 1u);
}

// Nobody grows for a peer that sends little at a time, or that grants no block.
TEST(QueueGrowthTest, ASlowOneStaysShort) {
    World world(2, queue_settings(0));
    for (int i = 0; i < 500; ++i) {
        ASSERT_TRUE(talk(world, 0, 1));
        ASSERT_TRUE(talk(world, 1, 0));
    }
    EXPECT_EQ(world.channel(0, 1)->sends.depth(), kShort);
    EngineSettings cold = queue_settings(0);
    cold.promotion.most = 0;
    World without_blocks(2, cold);
    for (int i = 0; i < 500; ++i) {
        while (without_blocks.send(0, 1)) continue;
        without_blocks.poll_all();
    }
    EXPECT_EQ(without_blocks.channel(0, 1)->sends.depth(), kShort);
}

TEST(QueueGrowthTest, TheLastUserMayLeaveMeanwhile) {
    World world(2, queue_settings(0));
    ASSERT_TRUE(begin_to_grow(world, 0, 1));
    world.leave(0, 1);
    EXPECT_TRUE(
        until([&] { world.poll_all(); },
              [&] { return world.all_received() && world.node(0).engine->connections() == 0; }));
    EXPECT_TRUE(talk(world, 0, 1));
}

TEST(QueueGrowthTest, AnotherUserMayComeMeanwhile) {
    World world(2, queue_settings(0));
    ASSERT_TRUE(begin_to_grow(world, 0, 1));
    world.leave(0, 1);
    ASSERT_TRUE(until([&] { world.poll_all(); }, [&] { return world.send(0, 1); }));
    EXPECT_TRUE(stream(world, 0, 1));
    EXPECT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
}

// Its death is noticed before the time limit of a connection.
TEST(QueueGrowthTest, ThePeerMayDieMeanwhile) {
    EngineSettings settings = queue_settings(0);
    settings.handshake.connect_limit = 60'000'000'000;
    World world(2, settings);
    ASSERT_TRUE(talk(world, 1, 0));
    ASSERT_TRUE(begin_to_grow(world, 0, 1));
    Node& here = world.node(0);
    ASSERT_TRUE(until([&] { world.poll(0); }, [&] { return world.channel(0, 1) == nullptr; }));
    ASSERT_TRUE(until([&] { world.poll(0); }, [&] { return world.send(0, 1); })) << "it waits";
    // From now on, the device answers nothing that comes for it.
    ASSERT_EQ(verbs::to_error(world.channel(1, 0)->qp.get()), 0);
    ASSERT_TRUE(until([&] { here.poll(); }, [&] { return !here.closures.empty(); }));
    EXPECT_EQ(here.closures.front().second, Status::kTimedOut);
    EXPECT_NE(here.reason.find("a work request failed"), std::string::npos) << here.reason;
}

// The number of connections is limited, too.
TEST(QueueGrowthTest, NothingIsLostOrReordered) {
    EngineSettings settings = queue_settings(1);
    settings.connections = 6;
    World world(12, settings);
    run_random_traffic(world, {.friends = 2, .computes = 1000, .burst = 20},
                       [&] { return world.sent() >= 300'000 && world.grown() >= 20; });
    std::cout << world.sent() << " messages, " << world.grown() << " queues grew, " << world.ended()
              << " connections ended\n";
}

}  // namespace
}  // namespace tern::test
