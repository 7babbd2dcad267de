// SPDX-License-Identifier: BSD-3-Clause
#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

constexpr std::size_t kSizes[] = {1,    7,    8,    64,   255,   256,   1023,   1024,
                                  1025, 4095, 4096, 4097, 65535, 65537, 262144, 1 << 20};

class RdmaWriteTest : public TransportTest {
  protected:
    QpSpec spec() const {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }

    // Waits until all writes posted before are placed, by sending a message after them.
    static void settle(Pair& pair) {
        ASSERT_EQ(RecvWr(0).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND).flags(0).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {0}));
    }
};

TEST_P(RdmaWriteTest, WritesOfEverySizeArriveWhole) {
    Pair pair(hca_, pd_.get(), spec(), (1 << 20) + 4096);
    unsigned seed = 0;
    for (std::size_t size : kSizes) {
        pair.a_mem.fill(++seed, 0, size);
        std::fill_n(pair.b_mem.data(), size + 64, 0xee);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, size)
                      .sge(pair.a_mem.sge(0, size))
                      .remote(pair.b_mem, 17)
                      .post(pair.a.qp),
                  0);
        const ibv_wc wc = poll_one(pair.a.send_cq);
        ASSERT_TRUE(is_done(wc, size));
        EXPECT_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
        settle(pair);
        EXPECT_TRUE(pair.b_mem.holds(seed, 17, size)) << size;
        EXPECT_TRUE(pair.b_mem.is_all(0xee, 0, 17)) << "written before its start";
        EXPECT_TRUE(pair.b_mem.is_all(0xee, 17 + size, 47)) << "written beyond its end";
    }
}

TEST_P(RdmaWriteTest, GathersItsSource) {
    Pair pair(hca_, pd_.get(), spec());
    for (unsigned i = 0; i < 4; ++i) pair.a_mem.fill(i, i * 5000, 1 + i * 1000);
    SendWr wr(IBV_WR_RDMA_WRITE, 1);
    for (unsigned i = 0; i < 4; ++i) wr.sge(pair.a_mem.sge(i * 5000, 1 + i * 1000));
    ASSERT_EQ(wr.remote(pair.b_mem).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    settle(pair);
    std::size_t at = 0;
    for (unsigned i = 0; i < 4; ++i) {
        EXPECT_TRUE(pair.b_mem.holds(i, at, 1 + i * 1000)) << i;
        at += 1 + i * 1000;
    }
}

TEST_P(RdmaWriteTest, InlineSourceIsTakenAtOnce) {
    QpSpec wanted = spec();
    wanted.inline_data = 32;
    Pair pair(hca_, pd_.get(), wanted);
    uint64_t text[4] = {1, 2, 3, 4};
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                  .sge({reinterpret_cast<uintptr_t>(text), 32, 0})
                  .flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE)
                  .remote(pair.b_mem)
                  .post(pair.a.qp),
              0);
    std::fill_n(text, 4, 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    settle(pair);
    EXPECT_EQ(pair.b_mem.word(0), 1u);
    EXPECT_EQ(pair.b_mem.word(3), 4u);
}

TEST_P(RdmaWriteTest, ImmediateConsumesAReceiveAndTellsTheLength) {
    Pair pair(hca_, pd_.get(), spec());
    for (std::size_t size : {0, 1, 5000}) {
        pair.a_mem.fill(9, 0, size);
        pair.b_mem.fill(0);
        // The buffer of the receive must stay untouched.
        ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(60000, 8)).post(pair.b.qp), 0);
        SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM, 2);
        if (size > 0) wr.sge(pair.a_mem.sge(0, size));
        ASSERT_EQ(wr.remote(pair.b_mem).imm(0xfeedf00d).post(pair.a.qp), 0);
        const ibv_wc wc = poll_one(pair.b.recv_cq);
        ASSERT_TRUE(is_done(wc, 1));
        EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
        EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
        EXPECT_EQ(ntohl(wc.imm_data), 0xfeedf00du);
        EXPECT_EQ(wc.byte_len, size);
        EXPECT_TRUE(pair.b_mem.holds(9, 0, size));
        const ibv_wc sent = poll_one(pair.a.send_cq);
        ASSERT_TRUE(is_done(sent, 2));
        EXPECT_EQ(sent.opcode, IBV_WC_RDMA_WRITE);
    }
}

TEST_P(RdmaWriteTest, EmptyWriteNeedsNoKey) {
    Pair pair(hca_, pd_.get(), spec());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1).remote(0x1234, 0xdeadbeef).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
    settle(pair);
}

TEST_P(RdmaWriteTest, IsPlacedBeforeAMessageSentAfterIt) {
    Pair pair(hca_, pd_.get(), spec());
    for (unsigned i = 0; i < 200; ++i) {
        ASSERT_EQ(RecvWr(i).post(pair.b.qp), 0);
        pair.a_mem.fill(i, 0, 10000);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE)
                      .sge(pair.a_mem.sge(0, 10000))
                      .flags(0)
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
        ASSERT_TRUE(pair.b_mem.holds(i, 0, 10000)) << i;
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
    }
}

INSTANTIATE_TEST_SUITE_P(Connected, RdmaWriteTest, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         transport_case);

using RdmaTest = VerbsTest;

TEST_F(RdmaTest, LastByteOfAWriteIsPlacedLastWhereTheDeviceSaysSo) {
    constexpr std::size_t kSize = 200000;
    Pair pair(hca_, pd_.get(), {}, kSize);
    if (!ibv_query_qp_data_in_order(pair.b.qp.get(), IBV_WR_RDMA_WRITE, 0))
        GTEST_SKIP() << "writes may be placed out of order";
    for (uint8_t round = 1; round <= 40; ++round) {
        std::fill_n(pair.a_mem.data(), kSize, round);
        std::atomic<bool> gave_up{false};
        std::thread watcher([&] {
            auto* last = reinterpret_cast<std::atomic<uint8_t>*>(pair.b_mem.data() + kSize - 1);
            const auto end = Clock::now() + deadline();
            while (last->load(std::memory_order_acquire) != round) {
                if (Clock::now() > end) {
                    gave_up = true;
                    return;
                }
            }
            EXPECT_TRUE(pair.b_mem.is_all(round, 0, kSize)) << "round " << int{round};
        });
        EXPECT_EQ(
            SendWr(IBV_WR_RDMA_WRITE, 1).sge(pair.a_mem.sge()).remote(pair.b_mem).post(pair.a.qp),
            0);
        EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
        watcher.join();
        ASSERT_FALSE(gave_up) << "the last byte never came";
    }
}

TEST_F(RdmaTest, ReadsOfEverySizeArriveWhole) {
    Pair pair(hca_, pd_.get(), {}, (1 << 20) + 4096);
    unsigned seed = 0;
    for (std::size_t size : kSizes) {
        pair.b_mem.fill(++seed, 33, size);
        std::fill_n(pair.a_mem.data(), size + 64, 0xee);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, size)
                      .sge(pair.a_mem.sge(0, size))
                      .remote(pair.b_mem, 33)
                      .post(pair.a.qp),
                  0);
        const ibv_wc wc = poll_one(pair.a.send_cq);
        ASSERT_TRUE(is_done(wc, size));
        EXPECT_EQ(wc.opcode, IBV_WC_RDMA_READ);
        EXPECT_EQ(wc.byte_len, size);
        EXPECT_TRUE(pair.a_mem.holds(seed, 0, size)) << size;
        EXPECT_TRUE(pair.a_mem.is_all(0xee, size, 64)) << "written beyond " << size;
    }
}

TEST_F(RdmaTest, ReadScattersIntoItsList) {
    if (hca_.attr().max_sge_rd < 3) GTEST_SKIP() << "no reads with three elements";
    Pair pair(hca_, pd_.get());
    pair.b_mem.fill(5, 0, 6000);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                  .sge(pair.a_mem.sge(0, 1000))
                  .sge(pair.a_mem.sge(2000, 1))
                  .sge(pair.a_mem.sge(3000, 4999))
                  .remote(pair.b_mem)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
    std::vector<uint8_t> got(pair.a_mem.data(), pair.a_mem.data() + 1000);
    got.push_back(pair.a_mem.data()[2000]);
    got.insert(got.end(), pair.a_mem.data() + 3000, pair.a_mem.data() + 7999);
    EXPECT_TRUE(std::equal(got.begin(), got.end(), pair.b_mem.data()));
    EXPECT_TRUE(pair.a_mem.is_all(0, 1000, 1000));
}

TEST_F(RdmaTest, EmptyReadNeedsNoKey) {
    Pair pair(hca_, pd_.get());
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1).remote(0x1234, 0xdeadbeef).post(pair.a.qp), 0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1}));
}

TEST_F(RdmaTest, ReadSeesTheWriteBeforeIt) {
    Pair pair(hca_, pd_.get());
    for (unsigned i = 0; i < 50; ++i) {
        pair.a_mem.fill(i, 0, 9000);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE)
                      .sge(pair.a_mem.sge(0, 9000))
                      .flags(0)
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, i)
                      .sge(pair.a_mem.sge(20000, 9000))
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
        ASSERT_TRUE(pair.a_mem.holds(i, 20000, 9000)) << i;
    }
}

TEST_F(RdmaTest, FencedSendCarriesWhatTheReadBeforeItBrought) {
    Pair pair(hca_, pd_.get());
    for (unsigned i = 0; i < 50; ++i) {
        pair.b_mem.fill(i, 0, 9000);
        ASSERT_EQ(RecvWr(i).sge(pair.b_mem.sge(20000, 9000)).post(pair.b.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ)
                      .sge(pair.a_mem.sge(0, 9000))
                      .flags(0)
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, i)
                      .sge(pair.a_mem.sge(0, 9000))
                      .flags(IBV_SEND_SIGNALED | IBV_SEND_FENCE)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
        ASSERT_TRUE(pair.b_mem.holds(i, 20000, 9000)) << i;
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
    }
}

TEST_F(RdmaTest, MoreReadsThanMayBeOutstandingWaitTheirTurn) {
    Pair pair(hca_, pd_.get());  // permits one outstanding read
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 40; ++i) {
        pair.b_mem.word(i) = i;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, i)
                      .sge(pair.a_mem.sge(8 * i, 8))
                      .remote(pair.b_mem, 8 * i)
                      .post(pair.a.qp),
                  0);
        ids.push_back(i);
    }
    ASSERT_TRUE(next_are(pair.a.send_cq, ids));
    for (uint64_t i = 0; i < 40; ++i) EXPECT_EQ(pair.a_mem.word(i), i);
}

TEST_F(RdmaTest, NeedsNoReceiveAndIsNotSeenByTheOtherSide) {
    Pair pair(hca_, pd_.get());
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_WRITE, 1).sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp),
        0);
    ASSERT_EQ(
        SendWr(IBV_WR_RDMA_READ, 2).sge(pair.a_mem.sge(0, 8)).remote(pair.b_mem).post(pair.a.qp),
        0);
    EXPECT_TRUE(next_are(pair.a.send_cq, {1, 2}));
    EXPECT_TRUE(quiet(pair.b.recv_cq));
}

}  // namespace
}  // namespace conformance
