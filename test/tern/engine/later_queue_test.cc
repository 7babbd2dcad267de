// SPDX-License-Identifier: BSD-3-Clause

// Send queues of connections: the first are long, and all others have one length, which stays.

#include <gtest/gtest.h>

#include "world.h"

#include "tern/base/tunables.h"

namespace tern::test {
namespace {

constexpr uint32_t kLong = 64;
constexpr uint32_t kLater = kLaterSendQueue;

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

TEST(LaterQueueTest, TheFirstAreLong) {
    constexpr size_t kPeers = 6;
    World world(1 + kPeers, queue_settings(2));
    for (size_t to = 1; to <= kPeers; ++to) ASSERT_TRUE(talk(world, 0, to));
    for (size_t to = 1; to <= kPeers; ++to) {
        EXPECT_EQ(world.channel(0, to)->sends.depth(), to <= 2 ? kLong : kLater) << to;
        ASSERT_TRUE(talk(world, to, 0));
        EXPECT_EQ(world.channel(to, 0)->sends.depth(), kLong) << "its first connection";
    }
    EXPECT_EQ(world.node(0).engine->usage().send_queue_places, 2 * kLong + 4 * kLater);
}

// A connection that ends leaves its places to the next one.
TEST(LaterQueueTest, PlacesComeBack) {
    World world(3, queue_settings(1));
    ASSERT_TRUE(talk(world, 0, 1));
    Node& here = world.node(0);
    world.leave(0, 1);
    ASSERT_TRUE(until([&] { world.poll_all(); },
                      [&] { return here.engine->usage().send_queue_places == 0; }));
    ASSERT_TRUE(talk(world, 0, 2));
    EXPECT_EQ(world.channel(0, 2)->sends.depth(), kLong);
}

TEST(LaterQueueTest, NoneIsLongerThanTheFirst) {
    EngineSettings settings = queue_settings(0);
    settings.send_queue = kLater / 2;
    World world(2, settings);
    ASSERT_TRUE(talk(world, 0, 1));
    EXPECT_EQ(world.channel(0, 1)->sends.depth(), kLater / 2);
}

// Puts need nothing of the peer but its memory, so only the queue limits them.
TEST(LaterQueueTest, ABurstFindsAllPlacesForData) {
    World world(2, queue_settings(0));
    ASSERT_TRUE(talk(world, 0, 1));
    ASSERT_TRUE(talk(world, 1, 0));
    Engine& engine = *world.node(0).engine;
    Channel& channel = *world.channel(0, 1);
    const auto settles = [&] {
        const auto flush = [&] {
            world.flush(0, 1);
            world.poll_all();
        };
        return until(flush, [&] { return channel.sends.idle(); });
    };
    ASSERT_TRUE(settles());
    const verbs::RegisteredMemory target(device().pd.get(), 4096,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    ASSERT_TRUE(target);
    const auto at = reinterpret_cast<uint64_t>(target.data());
    uint32_t puts = 0;
    while (engine.one_sided()->put_short(channel, "word", 4, at, target.rkey()) == Status::kOk)
        ++puts;
    EXPECT_EQ(puts, kLater - engine_limits::control_places(kLater));
    // They complete, and the connection is the one that it was.
    for (uint32_t more = 0; more < 10 * kLater;) {
        if (engine.one_sided()->put_short(channel, "word", 4, at, target.rkey()) == Status::kOk)
            ++more;
        else
            world.poll(0);
    }
    EXPECT_TRUE(settles());
    EXPECT_EQ(world.channel(0, 1), &channel);
    EXPECT_EQ(engine.usage().connections_most, 1u);
}

// Bursts that find queues full, and peers that do not poll for a while.
TEST(LaterQueueTest, NothingIsLostOrReordered) {
    World world(12, queue_settings(1));
    run_random_traffic(world, {.friends = 2, .computes = 1000, .burst = 100},
                       [&] { return world.sent() >= 300'000; });
    EXPECT_EQ(world.ended(), 0u);
    uint64_t stalls = 0;
    for (size_t i = 0; i < world.size(); ++i) {
        EXPECT_LT(world.node(i).engine->usage().connections_most, world.size());
        stalls += world.node(i).engine->counters().queue_stalls;
    }
    EXPECT_GT(stalls, 0u);
}

}  // namespace
}  // namespace tern::test
