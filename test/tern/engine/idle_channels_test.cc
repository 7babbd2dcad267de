// SPDX-License-Identifier: BSD-3-Clause

// Connections that neither side uses are ended while there are more than the limit, and come back.

#include "tern/engine/idle_channels.h"

#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "world.h"

namespace tern::test {
namespace {

EngineSettings limited_settings(uint32_t connections) {
    EngineSettings settings = small_settings();
    settings.connections = connections;
    return settings;
}

TEST(IdleChannelsTest, TheLimitIsKeptAndEndpointsStay) {
    constexpr size_t kPeers = 12;
    constexpr uint32_t kLimit = 4;
    World world(1 + kPeers, limited_settings(EngineSettings::kUnlimited));
    World limited(1 + kPeers, limited_settings(kLimit));
    for (World* each : {&world, &limited}) {
        for (size_t to = 1; to <= kPeers; ++to)
            ASSERT_TRUE(until([&] { each->poll_all(); }, [&] { return each->send(0, to); }));
        ASSERT_TRUE(until([&] { each->poll_all(); }, [&] { return each->all_received(); }));
    }
    EXPECT_EQ(world.node(0).engine->connections(), kPeers) << "without a limit, all stay";
    const auto within = [&] { return limited.node(0).engine->connections() <= kLimit; };
    ASSERT_TRUE(until([&] { limited.poll_all(); }, within))
        << limited.node(0).engine->connections();
    EXPECT_GE(limited.ended(), kPeers - kLimit);
    for (size_t to = 1; to <= kPeers; ++to)
        ASSERT_TRUE(until([&] { limited.poll_all(); }, [&] { return limited.send(0, to); }));
    EXPECT_TRUE(until([&] { limited.poll_all(); }, [&] { return limited.all_received(); }));
    for (size_t i = 0; i <= kPeers; ++i) EXPECT_TRUE(limited.node(i).losses.empty());
}

// It answers no suggestion, so its connection stays, and takes messages meanwhile.
TEST(IdleChannelsTest, APeerThatComputesKeepsItsConnection) {
    World world(4, limited_settings(1));
    for (size_t to = 1; to < 4; ++to)
        ASSERT_TRUE(until([&] { world.poll_all(); }, [&] { return world.send(0, to); }));
    ASSERT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
    const auto others = [&] {
        world.poll(0);
        world.poll(2);
        world.poll(3);
    };
    ASSERT_TRUE(until(others, [&] { return world.node(0).engine->connections() <= 1; }));
    ASSERT_NE(world.channel(0, 1), nullptr);
    EXPECT_TRUE(world.channel(0, 1)->up());
    EXPECT_TRUE(world.send(0, 1)) << "nothing blocks a sender whose peer was asked";
    EXPECT_TRUE(until([&] { world.poll_all(); }, [&] { return world.all_received(); }));
}

TEST(IdleChannelsTest, WhatIsUsedStays) {
    World world(6, limited_settings(2));
    std::vector<Channel*> channels;
    const auto round = [&] {
        for (size_t to = 1; to < world.size(); ++to) (void)world.send(0, to);
        world.poll_all();
    };
    ASSERT_TRUE(until(round, [&] {
        for (size_t to = 1; to < world.size(); ++to)
            if (world.channel(0, to) == nullptr || !world.channel(0, to)->up()) return false;
        return true;
    }));
    // A machine with other work may pause the whole test for longer than the silence that is
    // enough: then both sides are silent. So the channels are used between two looks of any node.
    for (size_t to = 1; to < world.size(); ++to) channels.push_back(world.channel(0, to));
    for (int i = 0; i < 20000; ++i) {
        for (size_t to = 1; to < world.size(); ++to) {
            (void)world.send(0, to);
            world.poll(to);
        }
        world.poll(0);
    }
    EXPECT_EQ(world.ended(), 0u);
    for (size_t to = 1; to < world.size(); ++to) EXPECT_EQ(world.channel(0, to), channels[to - 1]);
}

TEST(IdleChannelsTest, NothingIsLostOrReordered) {
    constexpr uint64_t kMessages = 300'000, kEnded = 500;
    World world(24, limited_settings(4));
    run_random_traffic(world, {.friends = 3, .computes = 2000, .burst = 5},
                       [&] { return world.sent() >= kMessages && world.ended() >= kEnded; });
    std::cout << world.sent() << " messages, " << world.ended() << " connections ended\n";
}

}  // namespace
}  // namespace tern::test
