// SPDX-License-Identifier: BSD-3-Clause
// The simulation of a process with many peers: its patterns, and what must be true of every result.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/scale/messages.h"
#include "bench/scale/process.h"

namespace bench::scale {
namespace {

constexpr uint64_t kMessages = 20'000;

Outcome simulate(const std::string& pattern, uint32_t ranks, uint32_t limit,
                 const Times& times = {}, uint64_t count = kMessages) {
    tern::EngineSettings settings;
    settings.connections = limit;
    Process process(settings, times, ranks);
    Messages messages(pattern, ranks);
    for (uint64_t i = 0; i < count; ++i) process.handle(messages.next());
    return process.outcome();
}

// All ranks do the same. So as many messages of a length go to a distance, over time, as come from
// it: the sender of one is the rank as far away in the other direction.
TEST(ScaleTest, WhatIsSentArrives) {
    for (const uint32_t ranks : {2u, 27u, 100u, 1000u})
        for (const auto& [name, help] : kPatterns) {
            Messages messages(name, ranks);
            uint64_t sent = 0, received = 0;
            for (uint64_t i = 0; i < kMessages; ++i) {
                const Message message = messages.next();
                ASSERT_NE(message.peer, 0u) << name << ' ' << ranks;
                ASSERT_LT(message.peer, ranks) << name << ' ' << ranks;
                ++(message.received ? received : sent);
            }
            // The last round may be cut off.
            EXPECT_NEAR(static_cast<double>(sent), static_cast<double>(received), 1100)
                << name << ' ' << ranks;
        }
}

TEST(ScaleTest, AllAreReachedOnce) {
    Messages messages("all-to-all", 100);
    std::map<uint32_t, int> sent, received;
    for (int i = 0; i < 2 * 99; ++i) {
        const Message message = messages.next();
        ++(message.received ? received : sent)[message.peer];
    }
    EXPECT_EQ(sent.size(), 99u);
    EXPECT_EQ(sent, received);
    EXPECT_TRUE(std::ranges::all_of(sent, [](const auto& each) { return each.second == 1; }));
}

// The distances of a dissemination with 1000 ranks, in both directions, and 6 neighbours.
TEST(ScaleTest, AHaloHasFewPeers) {
    Messages messages("halo", 1000);
    std::set<uint32_t> peers;
    for (uint64_t i = 0; i < kMessages; ++i) peers.insert(messages.next().peer);
    std::set<uint32_t> expected = {1, 9, 10, 90, 100, 900};
    for (uint32_t distance = 1; distance < 1000; distance *= 2) {
        expected.insert(distance);
        expected.insert(1000 - distance);
    }
    EXPECT_EQ(peers, expected);
    EXPECT_EQ(simulate("halo", 1000, 4096).most, expected.size());
}

TEST(ScaleTest, TracesAreMessages) {
    const auto trace = [](const std::string& text) {
        std::istringstream from("tern-trace 1\n" + text);
        return replay::read_trace(from, "trace");
    };
    std::vector<replay::Trace> traces = {
        trace("a 1\ne 0 2\ne 1 3\nc 100\ns 0 0 ff 64 1000 0\nc 200\ns 1 1 ff 128 1000 0\n"),
        trace("a 2\ne 0 1\ne 1 3\nc 200\ns 0 0 ff 8 1000 0\ns 1 1 ff 8 1000 0\n"),
        trace("a 3\nc 5000\n"),
    };
    replay::find_peers(traces);
    Messages messages(traces);
    ASSERT_EQ(messages.in_traces(), 3u);  // that between the others is not rank 0's
    const Message expected[] = {{.peer = 1, .bytes = 64, .received = false, .time = 100},
                                {.peer = 1, .bytes = 8, .received = true, .time = 200},
                                {.peer = 2, .bytes = 128, .received = false, .time = 300}};
    for (const Message& each : expected) {
        const Message message = messages.next();
        EXPECT_EQ(message.peer, each.peer);
        EXPECT_EQ(message.bytes, each.bytes);
        EXPECT_EQ(message.received, each.received);
        EXPECT_EQ(message.time, each.time);
    }
}

TEST(ScaleTest, AHandshakeIsTheTransports) {
    const HandshakePackets packets = count_packets();
    EXPECT_EQ(packets.connect, 3u);
    EXPECT_EQ(packets.trips, 2u);
    EXPECT_EQ(packets.end, 2u);
}

// With a limit that is not reached, all is as without one.
TEST(ScaleTest, NothingEndsWithinTheLimit) {
    for (const auto& [name, help] : kPatterns) {
        const Outcome free = simulate(name, 100, tern::EngineSettings::kUnlimited);
        const Outcome limited = simulate(name, 100, 99);
        EXPECT_EQ(free.reconnects, 0u) << name;
        EXPECT_EQ(limited.reconnects, 0u) << name;
        EXPECT_EQ(limited.connects, free.connects) << name;
        EXPECT_EQ(limited.hot, free.hot) << name;
        EXPECT_LE(free.most, 99u);
        // Each connection delays the message that begins it, at least.
        EXPECT_GE(free.delayed, free.connects) << name;
    }
}

// A program that is slow enough has no more connections than the limit.
TEST(ScaleTest, TheLimitIsKeptIfThereIsTime) {
    const Times slow = {.step = 10'000'000};
    const Outcome outcome = simulate("skewed", 1000, 100, slow, 100'000);
    const uint64_t mean = outcome.sum / outcome.messages;
    EXPECT_GT(mean, 64u);
    EXPECT_LT(mean, 130u);
    EXPECT_GT(outcome.reconnects, 0u);
}

// Few senders all get blocks; of many, as many as may have one.
TEST(ScaleTest, BlocksAreForThoseThatTalk) {
    const Outcome ring = simulate("ring", 1000, 4096);
    EXPECT_GT(ring.hot, ring.received * 99 / 100);
    const Outcome all = simulate("all-to-all", 10'000, tern::EngineSettings::kUnlimited);
    EXPECT_EQ(all.hot, 0u);
    const Outcome skewed = simulate("skewed", 1000, 4096);
    EXPECT_GT(skewed.hot, skewed.received / 3);
    EXPECT_LT(skewed.hot, skewed.received / 2);  // 32 of 64 that send nine of ten
    const tern::EngineSettings settings;
    EXPECT_LE(skewed.registered_bytes, Queues::registered(settings) + settings.block_memory +
                                           32 * settings.block_first + 4096);
}

// As the software HCA counts them for a process without peers, and with one (docs/bench/results).
TEST(ScaleTest, MemoryIsWhatTheDeviceCounts) {
    const tern::EngineSettings settings;
    EXPECT_EQ(Queues::registered(settings), 4440u << 10);
    Queues queues(settings);
    EXPECT_EQ(queues.bytes(), 573u * 1024 + 512);
    EXPECT_EQ(queues.make(), settings.send_queue);
    EXPECT_EQ(queues.bytes(), 653u * 1024 + 512);
    for (int i = 1; i < 256; ++i) (void)queues.make();
    EXPECT_EQ(queues.bytes(), 8445u * 1024 + 512);
}

}  // namespace
}  // namespace bench::scale
