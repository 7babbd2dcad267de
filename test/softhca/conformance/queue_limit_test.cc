// SPDX-License-Identifier: BSD-3-Clause
// Full work queues: which requests are refused, with which bad_wr, and when there is room again.
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

class QueueLimitTest : public VerbsTest {
  protected:
    static ibv_qp_cap capacity(const Qp& qp) {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        if (ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init)) fail("ibv_query_qp");
        return init.cap;
    }

    static QpSpec small() {
        QpSpec spec;
        spec.send_wr = spec.recv_wr = 8;
        spec.send_sge = spec.recv_sge = 2;
        return spec;
    }

    // A list of `count` requests without data, with ids from 0.
    static std::vector<ibv_send_wr> sends(std::size_t count, unsigned flags) {
        std::vector<ibv_send_wr> list(count);
        for (std::size_t i = 0; i < count; ++i) {
            list[i] = {};
            list[i].wr_id = i;
            list[i].next = i + 1 < count ? &list[i + 1] : nullptr;
            list[i].opcode = IBV_WR_SEND;
            list[i].send_flags = flags;
        }
        return list;
    }
};

TEST_F(QueueLimitTest, FullSendQueueRefusesTheFirstThatDoesNotFit) {
    Pair pair(hca_, pd_.get(), small());
    const uint32_t room = capacity(pair.a.qp).max_send_wr;
    auto list = sends(room + 3, IBV_SEND_SIGNALED);  // all wait for a posted receive
    ibv_send_wr* bad = nullptr;
    EXPECT_NE(ibv_post_send(pair.a.qp.get(), list.data(), &bad), 0);
    EXPECT_EQ(bad, &list[room]) << "room for " << room;
    // The requests before `bad` are posted.
    std::vector<uint64_t> ids;
    for (uint32_t i = 0; i < room; ++i) {
        if (i < capacity(pair.b.qp).max_recv_wr) {
            ASSERT_EQ(RecvWr(i).post(pair.b.qp), 0);
            ids.push_back(i);
        }
    }
    EXPECT_TRUE(next_are(pair.a.send_cq, ids));
}

TEST_F(QueueLimitTest, RoomComesBackWithTheCompletionNotBefore) {
    Pair pair(hca_, pd_.get(), small());
    const uint32_t room = capacity(pair.a.qp).max_send_wr;
    for (uint32_t i = 0; i < room; ++i) ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).post(pair.a.qp), 0);
    // The requests have been executed by now, but their completions have not been polled.
    ASSERT_FALSE(readable(hca_.get()->async_fd, kQuiet));
    EXPECT_NE(SendWr(IBV_WR_RDMA_WRITE, room).post(pair.a.qp), 0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {0}));
    EXPECT_EQ(SendWr(IBV_WR_RDMA_WRITE, room).post(pair.a.qp), 0);
    EXPECT_NE(SendWr(IBV_WR_RDMA_WRITE, room + 1).post(pair.a.qp), 0);
}

TEST_F(QueueLimitTest, UnsignalledRequestsAreFreedByALaterCompletion) {
    Pair pair(hca_, pd_.get(), small());
    const uint32_t room = capacity(pair.a.qp).max_send_wr;
    for (int round = 0; round < 50; ++round) {
        for (uint32_t i = 0; i + 1 < room; ++i)
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, i).flags(0).post(pair.a.qp), 0) << round;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1000 + round).post(pair.a.qp), 0) << round;
        ASSERT_NE(SendWr(IBV_WR_RDMA_WRITE, 0).flags(0).post(pair.a.qp), 0) << round;
        ASSERT_TRUE(next_are(pair.a.send_cq, {1000u + round}));
    }
}

TEST_F(QueueLimitTest, FullReceiveQueueRefusesTheFirstThatDoesNotFit) {
    Pair pair(hca_, pd_.get(), small());
    const uint32_t room = capacity(pair.b.qp).max_recv_wr;
    std::vector<ibv_recv_wr> list(room + 3);
    for (std::size_t i = 0; i < list.size(); ++i)
        list[i] = {i, i + 1 < list.size() ? &list[i + 1] : nullptr, nullptr, 0};
    ibv_recv_wr* bad = nullptr;
    EXPECT_NE(ibv_post_recv(pair.b.qp.get(), list.data(), &bad), 0);
    EXPECT_EQ(bad, &list[room]);
    for (uint64_t i = 0; i < 3 * room; ++i) {
        ASSERT_EQ(SendWr(IBV_WR_SEND, i).post(pair.a.qp), 0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {i}));
        ASSERT_TRUE(next_are(pair.b.recv_cq, {i}));
        ASSERT_EQ(RecvWr(i + room).post(pair.b.qp), 0);
    }
}

TEST_F(QueueLimitTest, TooManyElementsAreRefused) {
    Pair pair(hca_, pd_.get(), small());
    const ibv_qp_cap cap = capacity(pair.a.qp);
    const std::vector<ibv_sge> send_list(cap.max_send_sge + 1, pair.a_mem.sge(0, 8));
    const std::vector<ibv_sge> recv_list(cap.max_recv_sge + 1, pair.a_mem.sge(0, 8));
    EXPECT_NE(SendWr(IBV_WR_RDMA_WRITE, 1).sges(send_list).remote(pair.b_mem).post(pair.a.qp), 0);
    EXPECT_NE(RecvWr(1).sges(recv_list).post(pair.a.qp), 0);
    EXPECT_TRUE(quiet(pair.a.send_cq));
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_RTS);
}

TEST_F(QueueLimitTest, BadRequestInAListStopsTheListThere) {
    Pair pair(hca_, pd_.get());
    auto list = sends(5, IBV_SEND_SIGNALED);
    for (ibv_send_wr& wr : list) wr.opcode = IBV_WR_RDMA_WRITE;
    list[3].num_sge = 100;
    std::vector<ibv_sge> elements(100, pair.a_mem.sge(0, 1));
    list[3].sg_list = elements.data();
    ibv_send_wr* bad = nullptr;
    EXPECT_NE(ibv_post_send(pair.a.qp.get(), list.data(), &bad), 0);
    EXPECT_EQ(bad, &list[3]);
    EXPECT_TRUE(next_are(pair.a.send_cq, {0, 1, 2}));
    EXPECT_TRUE(quiet(pair.a.send_cq));
}

TEST_F(QueueLimitTest, UnknownOperationIsRefused) {
    Pair pair(hca_, pd_.get());
    SendWr wr(static_cast<ibv_wr_opcode>(99), 1);
    EXPECT_NE(wr.post(pair.a.qp), 0);
    EXPECT_EQ(state_of(pair.a.qp), IBV_QPS_RTS);
}

TEST_F(QueueLimitTest, QueuesWrapAroundAtEveryFillLevel) {
    Pair pair(hca_, pd_.get(), small());
    uint64_t id = 0;
    for (int round = 0; round < 300; ++round) {
        std::vector<uint64_t> ids;
        for (int i = 0; i <= round % 8; ++i) {
            ASSERT_EQ(RecvWr(id).sge(pair.b_mem.sge(i * 8, 8)).post(pair.b.qp), 0);
            pair.a_mem.word(i) = id;
            ASSERT_EQ(SendWr(IBV_WR_SEND, id).sge(pair.a_mem.sge(i * 8, 8)).post(pair.a.qp), 0);
            ids.push_back(id++);
        }
        ASSERT_TRUE(next_are(pair.b.recv_cq, ids)) << round;
        ASSERT_TRUE(next_are(pair.a.send_cq, ids)) << round;
        for (std::size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(pair.b_mem.word(i), ids[i]);
    }
}

}  // namespace
}  // namespace conformance
