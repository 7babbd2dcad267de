// SPDX-License-Identifier: BSD-3-Clause
// Memory that is registered with relaxed ordering: whatever the order in which the bytes of a
// message appear there, all of them are there when its completion is. A device may ignore the flag.
#include <algorithm>
#include <cstddef>

#include "qp.h"
#include "side.h"

namespace conformance {
namespace relaxed_order_test {

constexpr std::size_t kBytes = 1 << 18;
constexpr std::size_t kSizes[] = {1, 64, 65, 200, 4096, 4104, 65537, kBytes - 64};
constexpr int kRelaxed = kAllAccess | IBV_ACCESS_RELAXED_ORDERING;

class RelaxedOrderTest : public VerbsTest {
  protected:
    // Checks that b's memory holds what a's does, and nothing beyond.
    void expect_whole(std::size_t size) {
        EXPECT_TRUE(to_.holds(seed_, 17, size)) << size;
        EXPECT_TRUE(to_.is_all(0xee, 0, 17)) << size;
        EXPECT_TRUE(to_.is_all(0xee, 17 + size, 47)) << size;
    }
    void begin(const Region& from, std::size_t size) {
        from.fill(++seed_, 0, size);
        std::fill_n(to_.data(), size + 64, 0xee);
    }

    Region to_{pd_.get(), kBytes, kRelaxed};
    unsigned seed_ = 0;
};

TEST_F(RelaxedOrderTest, WritesAreWholeWhenALaterReceiveCompletes) {
    Pair pair(hca_, pd_.get(), {}, kBytes);
    for (std::size_t size : kSizes) {
        begin(pair.a_mem, size);
        ASSERT_EQ(RecvWr(0).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(pair.a_mem.sge(0, size))
                      .remote(to_, 17)
                      .flags(0)
                      .post(pair.a.qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {0}));
        expect_whole(size);
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    }
}

TEST_F(RelaxedOrderTest, ReceivesAreWholeWhenTheyComplete) {
    Pair pair(hca_, pd_.get(), {}, kBytes);
    for (std::size_t size : kSizes) {
        begin(pair.a_mem, size);
        const std::size_t first = size / 3;
        RecvWr receive(5);
        if (first != 0) receive.sge(to_.sge(17, first));
        receive.sge(to_.sge(17 + first, size - first));
        ASSERT_EQ(receive.post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(pair.a_mem.sge(0, size)).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {5}));
        expect_whole(size);
        ASSERT_TRUE(next_are(pair.a.send_cq, {2}));
    }
}

TEST_F(RelaxedOrderTest, ReadsAreWholeWhenTheyComplete) {
    Pair pair(hca_, pd_.get(), {}, kBytes);
    for (std::size_t size : kSizes) {
        begin(pair.b_mem, size);
        ASSERT_EQ(
            SendWr(IBV_WR_RDMA_READ, 3).sge(to_.sge(17, size)).remote(pair.b_mem).post(pair.a.qp),
            0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {3}));
        expect_whole(size);
    }
}

// The receiver looks at once; the writer's data come from another process.
TEST_F(RelaxedOrderTest, WritesOfAnotherProcessAreWhole) {
    constexpr int kRounds = 200;
    constexpr std::size_t kSize = 8000;
    Team team;
    for (const bool writer : {true, false}) {
        team.spawn([writer](Link& link) {
            const Side side(link, {}, kSize + 64);
            Region relaxed(side.pd.get(), kSize + 64, kRelaxed);
            link.send(Window{relaxed.addr(), relaxed.rkey(), kSize});
            const auto to = link.receive<Window>();
            for (unsigned round = 1; round <= kRounds; ++round) {
                if (writer) {
                    side.mem.fill(round, 0, kSize);
                    SendWr write(IBV_WR_RDMA_WRITE_WITH_IMM, round);
                    write.sge(side.mem.sge(0, kSize)).remote(to.addr, to.rkey).imm(round);
                    ASSERT_EQ(write.post(side.end.qp), 0);
                    ASSERT_TRUE(next_are(side.end.send_cq, {round}));
                    link.receive();
                } else {
                    ASSERT_EQ(RecvWr(round).post(side.end.qp), 0);
                    ASSERT_TRUE(next_are(side.end.recv_cq, {round}));
                    ASSERT_TRUE(relaxed.holds(round, 0, kSize)) << round;
                    link.send();
                }
            }
        });
    }
    introduce(team, 0, 1);
    exchange<Window>(team[0], team[1]);
    for (int round = 0; round < kRounds; ++round) {
        team[1].receive();
        team[0].send();
    }
    team.finish();
}

}  // namespace relaxed_order_test
}  // namespace conformance
