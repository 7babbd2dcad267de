// SPDX-License-Identifier: BSD-3-Clause
// The timing model with several work requests in one queue: the receiver sees them in order.
#include <algorithm>
#include <functional>
#include <optional>
#include <random>
#include <vector>

#include "fabric.h"

namespace conformance::softhca {
namespace {

constexpr std::size_t kSlot = 8192;
constexpr std::size_t kSlots = 6;
constexpr std::size_t kArea = kSlot * kSlots;  // of a burst
constexpr std::size_t kMemory = 2 * kArea;

QpSpec spec() {
    QpSpec result;
    result.inline_data = 512;
    return result;
}

// The writes of a burst, the same in both processes.
struct Burst {
    explicit Burst(unsigned round) : seed(round % 250 + 1), area(round % 2 * kArea) {
        std::mt19937 random(round);
        lengths.resize(1 + random() % kSlots);
        for (std::size_t& length : lengths)
            length = 1 + random() % (random() % 2 ? kSlot : spec().inline_data);
        pieces = 1 + random() % spec().send_sge;
    }

    void fill(const Region& mem) const {
        for (std::size_t i = 0; i < lengths.size(); ++i)
            mem.fill(seed, area + i * kSlot, lengths[i]);
    }
    bool arrived(const Region& mem) const {
        for (std::size_t i = 0; i < lengths.size(); ++i)
            if (!mem.holds(seed, area + i * kSlot, lengths[i])) return false;
        return true;
    }
    // One write for each slot, then a send.
    void post(Side& side) const {
        for (std::size_t i = 0; i < lengths.size(); ++i) {
            const std::size_t begin = area + i * kSlot, length = lengths[i];
            SendWr wr(IBV_WR_RDMA_WRITE, i);
            for (std::size_t piece = 0; piece < pieces; ++piece) {
                const std::size_t from = length * piece / pieces;
                wr.sge(side.mem.sge(begin + from, length * (piece + 1) / pieces - from));
            }
            wr.remote(side.window.addr + begin, side.window.rkey);
            wr.flags(length <= spec().inline_data ? IBV_SEND_INLINE : 0);
            ASSERT_EQ(wr.post(side.end.qp), 0);
        }
        ASSERT_EQ(SendWr(IBV_WR_SEND, kSlots).post(side.end.qp), 0);
    }

    unsigned seed;
    std::size_t area;
    std::size_t pieces;
    std::vector<std::size_t> lengths;
};

class PipelineTest : public ExecutorTest {
  protected:
    // Runs `body` in a process on the fabric, with a connection to itself that reports errors soon.
    static void with_pair(const std::function<void(Pair&, ibv_pd*)>& body) {
        alone([&] {
            Hca hca;
            Pd pd = hca.make_pd();
            Pair pair(hca, pd.get(), quick(spec()), kMemory);
            body(pair, pd.get());
        });
    }
};

// Sends bursts, two of them on their way. At the completion of each send, the target looks at its
// memory and then sends an answer.
void expect_order(unsigned rounds, unsigned first = 0) {
    Team team;
    const int target = team.spawn([=](Link& link) {
        Side side(link, spec(), kMemory);
        ASSERT_EQ(RecvWr(0).post(side.end.qp), 0);
        ASSERT_EQ(RecvWr(1).post(side.end.qp), 0);
        link.send();
        for (unsigned round = 0; round < rounds; ++round) {
            ASSERT_TRUE(next_are(side.end.recv_cq, {round}));
            ASSERT_TRUE(Burst(first + round).arrived(side.mem)) << first + round;
            ASSERT_EQ(RecvWr(round + 2).post(side.end.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, round).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {round}));
        }
    });
    const int actor = team.spawn([=](Link& link) {
        Side side(link, spec(), kMemory);
        link.receive();
        for (unsigned round = 0; round < rounds; ++round) {
            ASSERT_EQ(RecvWr(round).post(side.end.qp), 0);
            if (round >= 2) {
                ASSERT_TRUE(next_are(side.end.send_cq, {kSlots}));
                ASSERT_TRUE(next_are(side.end.recv_cq, {round - 2}));
            }
            const Burst burst(first + round);
            burst.fill(side.mem);
            burst.post(side);
        }
        ASSERT_TRUE(next_are(side.end.recv_cq, {rounds - 2}));
        ASSERT_TRUE(next_are(side.end.recv_cq, {rounds - 1}));
    });
    introduce(team, target, actor);
    team[target].receive();
    team[actor].send();
    team.finish();
}

// In parts, which are short on a machine with other work: there each answer takes long.
void expect_order_for_long() {
    constexpr unsigned kLeast = 50, kMost = 2000, kAll = 20000;
    const auto end = Clock::now() + milliseconds(3000);
    for (unsigned first = 0, part = kLeast; first < kAll && Clock::now() < end;) {
        const Stopwatch watch;
        expect_order(part, first);
        first += part;
        part = watch.elapsed() < milliseconds(250) ? std::min(2 * part, kMost) : kLeast;
    }
}

TEST_P(PipelineTest, ASendShowsTheWritesBeforeIt) {
    set("MODEL", "latency=3us,bandwidth=2,completion=200ns");
    expect_order_for_long();
}

TEST_P(PipelineTest, ASendShowsTheWritesBeforeItInPrivateMemory) {
    set("MODEL", "latency=3us,bandwidth=2,completion=200ns");
    set("SHARED", "off");
    expect_order_for_long();
}

// Posts a write of a slot from one end of the pair to the other.
void post_write(const Pair& pair, uint64_t id, std::size_t slot, const Region& to) {
    pair.a_mem.fill(1, slot * kSlot, kSlot);
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(slot * kSlot, kSlot)).remote(to, slot * kSlot);
    ASSERT_EQ(wr.post(pair.a.qp), 0);
}

// An error of a write stops what was posted behind it.
TEST_P(PipelineTest, WhatIsBehindAFailedWriteDoesNotArrive) {
    set("MODEL", "latency=50ms");
    with_pair([](Pair& pair, ibv_pd* pd) {
        std::optional<Region> other(std::in_place, pd, kMemory);
        post_write(pair, 0, 0, pair.b_mem);
        post_write(pair, 1, 1, *other);
        post_write(pair, 2, 2, pair.b_mem);
        other.reset();
        ASSERT_TRUE(next_are(pair.a.send_cq, {0}));
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}, IBV_WC_REM_ACCESS_ERR));
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(pair.b_mem.holds(1, 0, kSlot));
        EXPECT_FALSE(pair.b_mem.holds(1, 2 * kSlot, kSlot));
    });
}

// A send that fails at the receiver fails after the writes and sends before it.
TEST_P(PipelineTest, AFailedSendHarmsNothingBeforeIt) {
    set("MODEL", "latency=20ms");
    with_pair([](Pair& pair, ibv_pd*) {
        ASSERT_EQ(RecvWr(0).post(pair.b.qp), 0);
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(kSlot, 8)).post(pair.b.qp), 0);
        post_write(pair, 0, 0, pair.b_mem);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
        post_write(pair, 2, 2, pair.b_mem);
        SendWr too_long(IBV_WR_SEND, 3);
        too_long.sge(pair.a_mem.sge(0, 100));
        ASSERT_EQ(too_long.post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {0}));
        EXPECT_TRUE(pair.b_mem.holds(1, 0, kSlot));
        ASSERT_TRUE(next_are(pair.b.recv_cq, {1}, IBV_WC_LOC_LEN_ERR));
        EXPECT_TRUE(pair.b_mem.holds(1, 2 * kSlot, kSlot));
        ASSERT_TRUE(next_are(pair.a.send_cq, {0, 1, 2}));
        ASSERT_TRUE(next_are(pair.a.send_cq, {3}, IBV_WC_REM_INV_REQ_ERR));
    });
}

SOFTHCA_BOTH_EXECUTORS(PipelineTest);

}  // namespace
}  // namespace conformance::softhca
