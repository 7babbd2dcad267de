// SPDX-License-Identifier: BSD-3-Clause
// Creating, querying and destroying queue pairs.
#include <functional>
#include <set>
#include <vector>

#include "qp.h"

namespace conformance {
namespace {

class QpCreateTest : public TransportTest {
  protected:
    QpSpec spec() const {
        QpSpec wanted;
        wanted.type = GetParam();
        return wanted;
    }
    ibv_qp_init_attr wanted() const { return init_attr(spec(), send_cq_.get(), recv_cq_.get()); }

    Cq send_cq_ = hca_.make_cq();
    Cq recv_cq_ = hca_.make_cq();
};

TEST_P(QpCreateTest, CapacitiesAreAtLeastThoseAskedFor) {
    ibv_qp_init_attr init = wanted();
    init.cap = {33, 17, 3, 2, 20};
    Qp qp(ibv_create_qp(pd_.get(), &init));
    ASSERT_NE(qp, nullptr);
    EXPECT_GE(init.cap.max_send_wr, 33u);
    EXPECT_GE(init.cap.max_recv_wr, 17u);
    EXPECT_GE(init.cap.max_send_sge, 3u);
    EXPECT_GE(init.cap.max_recv_sge, 2u);
    EXPECT_GE(init.cap.max_inline_data, 20u);
}

TEST_P(QpCreateTest, FieldsOfTheHandleAreFilled) {
    ibv_qp_init_attr init = wanted();
    init.qp_context = this;
    Qp qp(ibv_create_qp(pd_.get(), &init));
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->qp_context, this);
    EXPECT_EQ(qp->context, hca_.get());
    EXPECT_EQ(qp->pd, pd_.get());
    EXPECT_EQ(qp->send_cq, send_cq_.get());
    EXPECT_EQ(qp->recv_cq, recv_cq_.get());
    EXPECT_EQ(qp->srq, nullptr);
    EXPECT_EQ(qp->qp_type, GetParam());
    EXPECT_EQ(qp->state, IBV_QPS_RESET);
    EXPECT_GT(qp->qp_num, 1u) << "0 and 1 are the management queue pairs";
    EXPECT_LT(qp->qp_num, 0xffffffu) << "that is the multicast queue pair";
}

TEST_P(QpCreateTest, QueryReturnsWhatItWasCreatedWith) {
    ibv_qp_init_attr init = wanted();
    init.qp_context = this;
    init.sq_sig_all = 1;
    Qp qp(ibv_create_qp(pd_.get(), &init));
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr attr{};
    ibv_qp_init_attr queried{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_STATE | IBV_QP_CAP, &queried), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RESET);
    EXPECT_EQ(queried.qp_context, this);
    EXPECT_EQ(queried.send_cq, send_cq_.get());
    EXPECT_EQ(queried.recv_cq, recv_cq_.get());
    EXPECT_EQ(queried.srq, nullptr);
    EXPECT_EQ(queried.qp_type, GetParam());
    EXPECT_EQ(queried.sq_sig_all, 1);
    EXPECT_GE(queried.cap.max_send_wr, 64u);
    EXPECT_GE(queried.cap.max_recv_wr, 64u);
    EXPECT_GE(queried.cap.max_send_sge, 4u);
    EXPECT_GE(queried.cap.max_recv_sge, 4u);
    EXPECT_EQ(attr.cap.max_send_wr, queried.cap.max_send_wr);
}

TEST_P(QpCreateTest, ResourcesInUseAreBusy) {
    Qp qp = make_qp(pd_.get(), spec(), send_cq_.get(), recv_cq_.get());
    EXPECT_EQ(ibv_destroy_cq(send_cq_.get()), EBUSY);
    EXPECT_EQ(ibv_destroy_cq(recv_cq_.get()), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(pd_.get()), EBUSY);
}

TEST_P(QpCreateTest, NumbersAreUnique) {
    std::set<uint32_t> numbers;
    std::vector<Qp> live;
    for (int i = 0; i < 50; ++i) {
        live.push_back(make_qp(pd_.get(), spec(), send_cq_.get(), recv_cq_.get()));
        EXPECT_TRUE(numbers.insert(live.back()->qp_num).second);
    }
}

TEST_P(QpCreateTest, OneSidedQueuesMayBeEmpty) {
    ibv_qp_init_attr init = wanted();
    init.cap = {8, 0, 1, 0, 0};
    Qp sender(ibv_create_qp(pd_.get(), &init));
    EXPECT_NE(sender, nullptr);
    init = wanted();
    init.cap = {0, 8, 0, 1, 0};
    Qp receiver(ibv_create_qp(pd_.get(), &init));
    if (!receiver) GTEST_SKIP() << "a queue pair must have entries for sends";
}

INSTANTIATE_TEST_SUITE_P(Transports, QpCreateTest,
                         testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), transport_case);

class QpCreateErrorTest : public VerbsTest {
  protected:
    void expect_refused(const std::function<void(ibv_qp_init_attr&)>& spoil, const char* what) {
        ibv_qp_init_attr init = init_attr({}, cq_.get(), cq_.get());
        spoil(init);
        Qp qp(ibv_create_qp(pd_.get(), &init));
        EXPECT_EQ(qp, nullptr) << what;
    }

    Cq cq_ = hca_.make_cq();
};

TEST_F(QpCreateErrorTest, CapacitiesBeyondTheLimitsAreRefused) {
    const ibv_device_attr& limit = hca_.attr();
    expect_refused([&](auto& init) { init.cap.max_send_wr = limit.max_qp_wr + 1; }, "send wr");
    expect_refused([&](auto& init) { init.cap.max_recv_wr = limit.max_qp_wr + 1; }, "recv wr");
    expect_refused([&](auto& init) { init.cap.max_send_sge = limit.max_sge + 1; }, "send sge");
    expect_refused([&](auto& init) { init.cap.max_recv_sge = limit.max_sge + 1; }, "recv sge");
}

TEST_F(QpCreateErrorTest, InlineDataBeyondTheLimitIsRefusedOrCut) {
    ibv_qp_init_attr init = init_attr({}, cq_.get(), cq_.get());
    init.cap.max_inline_data = 1u << 20;
    const Qp qp(ibv_create_qp(pd_.get(), &init));
    EXPECT_TRUE(qp == nullptr || init.cap.max_inline_data < 1u << 20);
}

TEST_F(QpCreateErrorTest, UnknownTypesAreRefused) {
    expect_refused([](auto& init) { init.qp_type = static_cast<ibv_qp_type>(77); }, "type 77");
    expect_refused([](auto& init) { init.qp_type = static_cast<ibv_qp_type>(0); }, "type 0");
}

TEST_F(QpCreateErrorTest, ReceiveQueueIsIgnoredNextToASharedOne) {
    if (hca_.attr().max_srq == 0) GTEST_SKIP() << "no shared receive queues";
    Srq srq = make_srq(pd_.get());
    ibv_qp_init_attr init = init_attr({}, cq_.get(), cq_.get());
    init.srq = srq.get();
    init.cap.max_recv_wr = 0;
    Qp qp(ibv_create_qp(pd_.get(), &init));
    ASSERT_NE(qp, nullptr);
    ibv_qp_attr attr{};
    ibv_qp_init_attr queried{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &queried), 0);
    EXPECT_EQ(queried.srq, srq.get());
}

TEST_F(QpCreateErrorTest, DataInOrderIsAnswered) {
    Endpoint end(hca_, pd_.get());
    for (ibv_wr_opcode op : {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
        const int answer = ibv_query_qp_data_in_order(end.qp.get(), op, 0);
        EXPECT_TRUE(answer == 0 || answer == 1) << op;
    }
}

}  // namespace
}  // namespace conformance
