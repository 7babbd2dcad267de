// SPDX-License-Identifier: BSD-3-Clause
// The timing model with several work requests in one queue: those behind a write that has not
// arrived yet go out all the same, and the receiver sees them in order.
#include <algorithm>
#include <functional>
#include <memory>
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
constexpr std::size_t kLong = kMemory - kSlot;  // longer than what the device stages

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

// Posts a burst, and is stopped or killed before any of its messages has arrived. The target calls
// `before` first.
void expect_arrival(
    bool kill, void (*before)(Side&) = [](Side&) {}) {
    set("MODEL", "latency=400ms,bandwidth=0.01");
    constexpr unsigned kRound = 5;
    Team team;
    const int target = team.spawn([=](Link& link) {
        Side side(link, spec(), kMemory);
        before(side);
        ASSERT_EQ(RecvWr(1).post(side.end.qp), 0);
        link.send();
        link.receive();
        EXPECT_FALSE(Burst(kRound).arrived(side.mem));
        ASSERT_TRUE(next_are(side.end.recv_cq, {1}));
        link.send(Clock::now());
        EXPECT_TRUE(Burst(kRound).arrived(side.mem));
        link.receive();
    });
    const int actor = team.spawn([=](Link& link) {
        Side side(link, spec(), kMemory);
        Burst(kRound).fill(side.mem);
        link.receive();
        const auto start = Clock::now();
        Burst(kRound).post(side);
        stop(link, start);
        EXPECT_TRUE(next_are(side.end.send_cq, {kSlots}));
        link.send();
    });
    EXPECT_GE(time_while_stopped(team, target, actor, kill), milliseconds(400));
    team.finish();
}

TEST_P(PipelineTest, ABurstArrivesThoughItsSenderIsStopped) {
    expect_arrival(false);
}

// What the target gets of it is a beginning of the queue.
TEST_P(PipelineTest, ASendThatArrivesThoughItsSenderIsKilledShowsTheWrites) {
    expect_arrival(true);
}

// A send does not overtake a write whose bytes the device has not taken from the sender's memory.
TEST_P(PipelineTest, ASendShowsALongWriteBeforeIt) {
    set("MODEL", "latency=50us,bandwidth=1");
    Team team;
    const int target = team.spawn([](Link& link) {
        Side side(link, spec(), kMemory);
        for (unsigned round = 1; round <= 50; ++round) {
            ASSERT_EQ(RecvWr(round).post(side.end.qp), 0);
            link.send();
            ASSERT_TRUE(next_are(side.end.recv_cq, {round}));
            ASSERT_TRUE(side.mem.holds(round, 0, kLong));
            ASSERT_TRUE(side.mem.holds(round, kLong, kSlot));
        }
    });
    const int actor = team.spawn([](Link& link) {
        Side side(link, spec(), kMemory);
        for (unsigned round = 1; round <= 50; ++round) {
            side.mem.fill(round, 0, kLong);
            side.mem.fill(round, kLong, kSlot);
            link.receive();
            SendWr behind(IBV_WR_RDMA_WRITE, 1);
            behind.sge(side.mem.sge(kLong, kSlot)).flags(0);
            behind.remote(side.window.addr + kLong, side.window.rkey);
            ASSERT_EQ(behind.post(side.end.qp), 0);
            SendWr all(IBV_WR_RDMA_WRITE, 2);
            all.sge(side.mem.sge(0, kLong)).remote(side.window.addr, side.window.rkey).flags(0);
            ASSERT_EQ(all.post(side.end.qp), 0);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 3).post(side.end.qp), 0);
            ASSERT_TRUE(next_are(side.end.send_cq, {3}));
        }
    });
    introduce(team, target, actor);
    for (unsigned round = 1; round <= 50; ++round) {
        team[target].receive();
        team[actor].send();
    }
    team.finish();
}

// Posts a write of a slot from one end of the pair to the other.
void post_write(const Pair& pair, uint64_t id, std::size_t slot, const Region& to) {
    pair.a_mem.fill(1, slot * kSlot, kSlot);
    SendWr wr(IBV_WR_RDMA_WRITE, id);
    wr.sge(pair.a_mem.sge(slot * kSlot, kSlot)).remote(to, slot * kSlot);
    ASSERT_EQ(wr.post(pair.a.qp), 0);
}

// An error of a write stops what was posted behind it, although the receiver had it already.
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

// What a receiver finds in its completion queue holds, also if its queue pair has failed since.
TEST_P(PipelineTest, ASendShowsTheWritesAlsoAfterAnError) {
    set("MODEL", "latency=50ms");
    with_pair([](Pair& pair, ibv_pd*) {
        ASSERT_EQ(RecvWr(1).post(pair.b.qp), 0);
        ASSERT_EQ(RecvWr(2).post(pair.b.qp), 0);
        post_write(pair, 0, 0, pair.b_mem);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
        apply_all(pair.b.qp.get(), {to_state(IBV_QPS_ERR)});
        for (const ibv_wc& wc : poll(pair.b.recv_cq, 2))
            EXPECT_TRUE(wc.status != IBV_WC_SUCCESS || pair.b_mem.holds(1, 0, kSlot));
    });
}

// More failed and reset connections than the receiver has room for writes leave it none the poorer.
TEST_P(PipelineTest, ABurstArrivesAfterManyFailures) {
    expect_arrival(false, [](Side& side) {
        std::vector<std::unique_ptr<Pair>> pairs;
        for (int i = 0; i < 80; ++i) {
            pairs.push_back(
                std::make_unique<Pair>(side.hca, side.pd.get(), quick(spec()), kMemory));
            Pair& pair = *pairs.back();
            ASSERT_EQ(RecvWr(1).post(pair.b.qp), 0);
            post_write(pair, 0, 0, pair.b_mem);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 1).post(pair.a.qp), 0);
            apply_all((i % 2 ? pair.a : pair.b).qp.get(), {to_state(IBV_QPS_RESET)});
        }
        const auto end = Clock::now() + milliseconds(600);
        ibv_wc wc;
        while (Clock::now() < end) ibv_poll_cq(side.end.recv_cq.get(), 1, &wc);
        pairs.clear();
    });
}

SOFTHCA_BOTH_EXECUTORS(PipelineTest);

}  // namespace
}  // namespace conformance::softhca
