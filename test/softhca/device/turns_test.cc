// SPDX-License-Identifier: BSD-3-Clause
// In virtual time, packets of queue pairs, and of requests and answers, take turns at a port.
#include "virtual_fabric.h"

namespace conformance::softhca {
namespace virtual_time_test {
namespace {

class TurnsTest : public VirtualTimeTest {};

constexpr uint64_t kPacket = 4096;
constexpr std::size_t kLong = 4 << 20;
constexpr uint64_t kNotSeen = ~uint64_t{0};

// Lets the device act until the word is 1: at what time.
uint64_t arrival(const uint64_t& word) {
    while (look(word) != 1) {
        const uint64_t time = next();
        if (time == kNoEvent) return kNotSeen;
        run(time);
        clock().now = std::max(clock().now, time);
    }
    return clock().now;
}

// Writes, or reads, of so many bytes in so many requests.
void transfer(const Way& way, ibv_wr_opcode opcode, const Region& mine, const Region& peers,
              std::size_t bytes, std::size_t requests) {
    for (std::size_t i = 0; i < requests; ++i) {
        const std::size_t length = bytes / requests;
        SendWr wr(opcode, i);
        wr.sge(mine.sge(i * length, length)).remote(peers.addr(i * length), peers.rkey());
        ASSERT_EQ(wr.post(way.one.qp), 0);
    }
}

// The time of 8 bytes to a third member behind 4 MiB that leave the same port.
uint64_t behind(ibv_wr_opcode opcode, std::size_t requests) {
    Member a(0), b(1), c(2);
    QpSpec spec;
    spec.reads = 16;
    const bool reads = opcode == IBV_WR_RDMA_READ;
    const Way other(reads ? b : a, reads ? a : b, spec, spec), way(a, c);
    const Region from(a.pd.get(), kLong), to(b.pd.get(), kLong);
    a.memory.word(0) = 1;
    const uint64_t start = clock().now += 10 * kLatency;
    transfer(other, opcode, reads ? to : from, reads ? from : to, kLong, requests);
    // Many packets of an answer have left by then.
    clock().now = start + 20 * kPacket;
    run(clock().now);
    way.write(1, 8);
    return arrival(c.memory.word(0)) - start - 20 * kPacket;
}

TEST_F(TurnsTest, AShortMessageWaitsForAPacketOfALongOneHoweverThatIsCut) {
    alone([] {
        for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
            for (const std::size_t requests : {1, 64}) {
                const uint64_t time = behind(opcode, requests);
                EXPECT_GE(time, kLatency + 8);
                EXPECT_LE(time, kLatency + 8 + kPacket + kGap) << opcode << ", " << requests;
            }
        }
    });
}

TEST_F(TurnsTest, TwoStreamsShareThePortEqually) {
    alone([] {
        Member a(0), b(1), c(2);
        const Way one(a, b), other(a, c);
        const Region from(a.pd.get(), kLong), to_b(b.pd.get(), kLong), to_c(c.pd.get(), kLong);
        from.word(kLong / 8 - 1) = 1;
        const uint64_t start = clock().now;
        transfer(one, IBV_WR_RDMA_WRITE, from, to_b, kLong, 1);
        transfer(other, IBV_WR_RDMA_WRITE, from, to_c, kLong, 16);
        const uint64_t first = arrival(to_b.word(kLong / 8 - 1));
        const uint64_t second = arrival(to_c.word(kLong / 8 - 1));
        EXPECT_GE(first, start + kLatency + 2 * kLong - 2 * kPacket);
        EXPECT_EQ(second, start + kLatency + 2 * kLong + 16 * kGap) << "the port's bandwidth";
    });
}

// What has left before the other queue pair has its turn may come as late as what has left after
// it.
TEST_F(TurnsTest, ALongMessageArrivesFromFrontToBackAndCompletesAtItsEnd) {
    alone([] {
        Member a(0), b(1), c(2);
        const Way one(a, b), other(a, c);
        for (std::size_t packet = 0; packet < 4; ++packet) a.memory.word(packet * kPacket / 8) = 1;
        const uint64_t start = clock().now;
        ASSERT_EQ(RecvWr(1).sge(b.memory.sge()).post(one.other.qp), 0);
        SendWr wr(IBV_WR_SEND, 1);
        ASSERT_EQ(wr.sge(a.memory.sge(0, 4 * kPacket)).post(one.one.qp), 0);
        other.write(2, 8);
        run(start + kLatency + kPacket - 1);
        EXPECT_EQ(look(b.memory.word(0)), 0U);
        EXPECT_EQ(arrival(c.memory.word(0)), start + kLatency + kPacket + 8);
        const uint64_t late = 8 + kGap;
        for (std::size_t packet = 0; packet < 4; ++packet)
            EXPECT_EQ(arrival(b.memory.word(packet * kPacket / 8)),
                      start + kLatency + (packet + 1) * kPacket + late);
        const uint64_t end = start + kLatency + 4 * kPacket + late;
        clock().now = end + kCompletion - 1;
        EXPECT_EQ(polled(one.other.recv_cq), 0);
        clock().now = end + kCompletion;
        EXPECT_EQ(polled(one.other.recv_cq), 1);
        EXPECT_EQ(polled(one.one.send_cq), 0);
        clock().now = end + kLatency + kCompletion;
        run(clock().now);
        EXPECT_EQ(polled(one.one.send_cq), 1);
    });
}

// What a queue pair has not sent yet does not leave when it is reset, and the port is free.
TEST_F(TurnsTest, AQueuePairThatIsResetLeavesThePort) {
    alone([] {
        Member a(0), b(1), c(2);
        const Way one(a, b), other(a, c);
        const Region from(a.pd.get(), kLong), to(b.pd.get(), kLong);
        from.word(kLong / 8 - 1) = 1;
        a.memory.word(0) = 1;
        transfer(one, IBV_WR_RDMA_WRITE, from, to, kLong, 4);
        run(clock().now += 3 * kPacket);
        apply_all(one.one.qp.get(), {to_state(IBV_QPS_RESET)});
        run(clock().now += kPacket);
        const uint64_t start = clock().now;
        other.write(2, 8);
        EXPECT_EQ(arrival(c.memory.word(0)), start + kLatency + 8);
        run(start + 2 * kLong);
        EXPECT_EQ(look(to.word(kLong / 8 - 1)), 0U);
    });
}

// A message that finds no receive is sent again, and what is behind it, still at the port, after
// it.
TEST_F(TurnsTest, AMessageThatIsSentAgainKeepsItsPlace) {
    alone([] {
        Member a(0), b(1), c(2);
        const Way one(a, b), other(a, c);
        a.memory.word(0) = 1;
        const Region from(a.pd.get(), kLong), to(c.pd.get(), kLong);
        transfer(other, IBV_WR_RDMA_WRITE, from, to, kLong, 1);
        for (const uint64_t id : {1, 2}) {
            SendWr wr(IBV_WR_SEND, id);
            ASSERT_EQ(wr.sge(a.memory.sge(0, 2 * kPacket)).post(one.one.qp), 0);
        }
        run(clock().now += kLatency + 8 * kPacket);
        for (const uint64_t id : {1, 2})
            ASSERT_EQ(
                RecvWr(id).sge(b.memory.sge(id * 2 * kPacket, 2 * kPacket)).post(one.other.qp), 0);
        const uint64_t first = arrival(b.memory.word(2 * kPacket / 8));
        EXPECT_GE(first, clock().now);
        const uint64_t second = arrival(b.memory.word(4 * kPacket / 8));
        EXPECT_GE(second, first);
        clock().now += 2 * kLong;
        run(clock().now);
        EXPECT_TRUE(next_are(one.other.recv_cq, {1, 2}));
        EXPECT_TRUE(next_are(one.one.send_cq, {1, 2}));
    });
}

}  // namespace
}  // namespace virtual_time_test
}  // namespace conformance::softhca
