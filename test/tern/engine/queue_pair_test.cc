// SPDX-License-Identifier: BSD-3-Clause

// Reliable queue pairs whose devices are told what will be posted, and those of devices that do not
// want to know.

#include "tern/verbs/queue_pair.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "node.h"
#include "verbs_faults.h"

namespace tern::test {
namespace {

class QueuePairTest : public testing::Test {
  protected:
    verbs::QueuePair create() {
        errno = 0;
        return verbs::create_queue_pair(
            device().pd.get(), IBV_QPT_RC, cq_.get(), nullptr,
            {.sends = 42, .receives = 1, .inline_bytes = 64, .atomics = port().atomics}, capacity_);
    }
    // Whether the device takes a list of operations.
    bool takes_list() {
        ibv_qp_init_attr_ex named{};
        named.send_cq = named.recv_cq = cq_.get();
        named.cap = {1, 1, 1, 1, 0};
        named.qp_type = IBV_QPT_RC;
        named.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        named.pd = device().pd.get();
        named.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
        return verbs::QueuePair(ibv_create_qp_ex(port().context, &named)) != nullptr;
    }

    verbs::CompletionQueue cq_{ibv_create_cq(port().context, 64, nullptr, nullptr, 0)};
    ibv_qp_cap capacity_{};
};

TEST_F(QueuePairTest, TheDeviceIsToldWhatIsPosted) {
    const auto qp = create();
    ASSERT_TRUE(qp);
    EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()) != nullptr, takes_list());
    EXPECT_GE(capacity_.max_send_wr, 42u);
    EXPECT_GE(capacity_.max_inline_data, 64u);
}

TEST_F(QueuePairTest, ADeviceThatRefusesTheListIsNotTold) {
    for (const int error : {EOPNOTSUPP, ENOSYS, EINVAL}) {
        const NoOperationLists none(error);
        const auto qp = create();
        ASSERT_TRUE(qp) << error;
        EXPECT_EQ(ibv_qp_to_qp_ex(qp.get()), nullptr) << error;
        EXPECT_GE(capacity_.max_send_wr, 42u);
        EXPECT_GE(capacity_.max_inline_data, 64u);
    }
}

// A queue pair without the list would be larger.
TEST_F(QueuePairTest, ADeviceThatHasNoRoomIsAskedOnce) {
    const VerbsFault full(Verb::kCreateQp, 1, ENOMEM);
    EXPECT_FALSE(create());
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(full.calls(), 1u);
}

// The value may mean either, so the device is asked again; the caller sees one refusal.
TEST_F(QueuePairTest, ARefusalThatMayMeanEither) {
    const VerbsFault full(Verb::kCreateQp, 1, EINVAL, 2);
    EXPECT_FALSE(create());
    EXPECT_EQ(errno, EINVAL);
    EXPECT_TRUE(create());
}

}  // namespace
}  // namespace tern::test
