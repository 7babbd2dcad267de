// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/port_turns.h"
#include "common/seed.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace softhca {
namespace {

// 2 bytes per ns, and 50 ns behind each message.
constexpr NicParameters kPacketNic = {1000, 2.0, 50};
constexpr uint64_t kPacketNs = kPacketBytes / 2;

PortTurns::Waiting write(uint64_t bytes, uint64_t ready = 0, uint64_t position = 0) {
    return {position, {RequestKind::kWrite, bytes}, ready};
}

// When the requests of each flow have left.
std::map<uint64_t, uint64_t> ends(PortTurns& port) {
    std::map<uint64_t, uint64_t> ends;
    while (port.next() != PortTurns::kNever) {
        const PortTurns::Packet packet = port.take(kPacketNic);
        const uint64_t bytes = packet.part.end - packet.part.begin;
        ends[packet.flow] = packet.part.start + transmit_ns(kPacketNic, bytes);
    }
    return ends;
}

TEST(PortTurns, ALoneRequestLeavesInOnePiece) {
    for (const uint64_t bytes : {0, 8, 4096, 4097, 1'000'001}) {
        for (const char* name : {"graphene", "cx5-edr", "cx6-hdr", "muse"}) {
            const NicParameters& nic = *find_profile(name);
            PortTurns port;
            EXPECT_TRUE(port.is_idle(77));
            port.add(1, write(bytes, 77));
            uint64_t at = 77, begin = 0;
            do {
                const PortTurns::Packet packet = port.take(nic);
                EXPECT_EQ(packet.part.start, 77 + transmit_ns(nic, begin)) << name;
                EXPECT_EQ(packet.part.begin, begin);
                EXPECT_LE(packet.part.end, begin + kPacketBytes);
                begin = packet.part.end;
                at = packet.part.start + part_ns(nic, {RequestKind::kWrite, bytes}, packet.part);
            } while (begin != bytes);
            EXPECT_EQ(at, 77 + port_spacing_ns(nic, {RequestKind::kWrite, bytes})) << name;
            EXPECT_EQ(port.next(), PortTurns::kNever);
            EXPECT_FALSE(port.is_idle(at - 1));
            EXPECT_TRUE(port.is_idle(at));
        }
    }
}

// However the other flow has cut its bytes into requests.
TEST(PortTurns, AShortMessageWaitsForOnePacket) {
    for (const uint64_t requests : {1, 64, 1024}) {
        PortTurns port;
        for (uint64_t i = 0; i < requests; ++i) port.add(1, write((4 << 20) / requests, 0, i));
        port.add(2, write(8, 5 * kPacketNs + 10));
        EXPECT_LE(ends(port)[2], 6 * (kPacketNs + 50) + 4) << requests;
    }
}

TEST(PortTurns, StreamsOfSeveralFlowsEndTogether) {
    PortTurns port;
    constexpr uint64_t kBytes = 1 << 20;
    for (const uint64_t flow : {1, 2, 3}) port.add(flow, write(kBytes));
    const auto end = ends(port);
    EXPECT_GE(end.at(1), 3 * kBytes / 2 - 2 * kPacketNs);
    EXPECT_EQ(end.at(3), 3 * kBytes / 2 + 2 * 50) << "no more than the bandwidth, and no less";
}

TEST(PortTurns, WhatIsNotReadyLeavesThePortToOthers) {
    PortTurns port;
    port.add(1, write(8, 1000));
    port.add(2, write(8, 10));
    EXPECT_EQ(port.next(), 10u);
    EXPECT_EQ(port.take(kPacketNic).flow, 2u);
    EXPECT_EQ(port.next(), 1000u);
    port.add(1, write(8, 500));
    EXPECT_EQ(port.next(), 1000u) << "requests of a flow keep their order";
}

TEST(PortTurns, NothingOfAFlowLeavesThatIsDropped) {
    PortTurns port;
    port.add(1, write(3 * kPacketBytes, 0, 7));
    port.add(2, write(8));
    EXPECT_EQ(port.take(kPacketNic).position, 7u);
    port.drop(1);
    port.drop(3);
    EXPECT_EQ(port.take(kPacketNic).flow, 2u);
    EXPECT_EQ(port.next(), PortTurns::kNever);
    port.add(1, write(8, 0, 9));
    const PortTurns::Packet packet = port.take(kPacketNic);
    EXPECT_EQ(packet.position, 9u);
    EXPECT_EQ(packet.part.begin, 0u);
}

TEST(PortTurns, APortHasOnePacketAtATimeAndFlowsKeepTheirOrder) {
    std::mt19937_64 random(tern::test::any_seed());
    PortTurns port;
    std::map<uint64_t, std::vector<uint64_t>> sizes;
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> next;  // position and byte of each flow
    uint64_t free_at = 0;
    for (int i = 0; i < 20'000; ++i) {
        const uint64_t flow = random() % 5;
        if (random() % 4 == 0) {
            sizes[flow].push_back(random() % 20'000);
            port.add(flow,
                     write(sizes[flow].back(), free_at + random() % 5000, sizes[flow].size() - 1));
        }
        if (port.next() == PortTurns::kNever) continue;
        const PortTurns::Packet packet = port.take(kPacketNic);
        ASSERT_GE(packet.part.start, free_at);
        auto& [position, byte] = next[packet.flow];
        ASSERT_EQ(packet.position, position);
        ASSERT_EQ(packet.part.begin, byte);
        const uint64_t bytes = sizes[packet.flow][position];
        free_at =
            packet.part.start + part_ns(kPacketNic, {RequestKind::kWrite, bytes}, packet.part);
        byte = packet.part.end;
        if (byte == bytes) {
            ++position;
            byte = 0;
        }
    }
}

}  // namespace
}  // namespace softhca
