// SPDX-License-Identifier: BSD-3-Clause
// Checks that the values of core's enumerations are those of the verbs ABI.
#include <cstddef>

#include "softhca/core/qp_state.h"
#include "softhca/core/types.h"
#include "softhca/verbs/export.h"

namespace softhca {

namespace {

template <typename Ours, typename Theirs>
constexpr bool same(Ours ours, Theirs theirs) {
    return static_cast<uint64_t>(ours) == static_cast<uint64_t>(theirs);
}

static_assert(same(WcStatus::kSuccess, IBV_WC_SUCCESS));
static_assert(same(WcStatus::kLocalLengthError, IBV_WC_LOC_LEN_ERR));
static_assert(same(WcStatus::kLocalQpOperationError, IBV_WC_LOC_QP_OP_ERR));
static_assert(same(WcStatus::kLocalProtectionError, IBV_WC_LOC_PROT_ERR));
static_assert(same(WcStatus::kFlushed, IBV_WC_WR_FLUSH_ERR));
static_assert(same(WcStatus::kMwBindError, IBV_WC_MW_BIND_ERR));
static_assert(same(WcStatus::kRemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR));
static_assert(same(WcStatus::kRemoteAccessError, IBV_WC_REM_ACCESS_ERR));
static_assert(same(WcStatus::kRemoteOperationError, IBV_WC_REM_OP_ERR));
static_assert(same(WcStatus::kRetryExceeded, IBV_WC_RETRY_EXC_ERR));
static_assert(same(WcStatus::kRnrRetryExceeded, IBV_WC_RNR_RETRY_EXC_ERR));

static_assert(same(WcOpcode::kSend, IBV_WC_SEND));
static_assert(same(WcOpcode::kRdmaWrite, IBV_WC_RDMA_WRITE));
static_assert(same(WcOpcode::kRdmaRead, IBV_WC_RDMA_READ));
static_assert(same(WcOpcode::kCompareSwap, IBV_WC_COMP_SWAP));
static_assert(same(WcOpcode::kFetchAdd, IBV_WC_FETCH_ADD));
static_assert(same(WcOpcode::kBindMw, IBV_WC_BIND_MW));
static_assert(same(WcOpcode::kLocalInvalidate, IBV_WC_LOCAL_INV));
static_assert(same(WcOpcode::kReceive, IBV_WC_RECV));
static_assert(same(WcOpcode::kReceiveRdmaWithImm, IBV_WC_RECV_RDMA_WITH_IMM));

static_assert(same(WrOpcode::kRdmaWrite, IBV_WR_RDMA_WRITE));
static_assert(same(WrOpcode::kRdmaWriteImm, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(WrOpcode::kSend, IBV_WR_SEND));
static_assert(same(WrOpcode::kSendImm, IBV_WR_SEND_WITH_IMM));
static_assert(same(WrOpcode::kRdmaRead, IBV_WR_RDMA_READ));
static_assert(same(WrOpcode::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(WrOpcode::kFetchAdd, IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(same(WrOpcode::kLocalInvalidate, IBV_WR_LOCAL_INV));
static_assert(same(WrOpcode::kBindMw, IBV_WR_BIND_MW));
static_assert(same(WrOpcode::kSendInvalidate, IBV_WR_SEND_WITH_INV));

static_assert(same(access_flag::kLocalWrite, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(access_flag::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(access_flag::kRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(same(access_flag::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(access_flag::kMwBind, IBV_ACCESS_MW_BIND));
static_assert(same(access_flag::kZeroBased, IBV_ACCESS_ZERO_BASED));
static_assert(same(access_flag::kOnDemand, IBV_ACCESS_ON_DEMAND));
static_assert(same(access_flag::kHugetlb, IBV_ACCESS_HUGETLB));
static_assert(same(access_flag::kRelaxedOrdering, IBV_ACCESS_RELAXED_ORDERING));
static_assert(same(access_flag::kOptional, IBV_ACCESS_OPTIONAL_RANGE));

static_assert(same(send_flag::kFence, IBV_SEND_FENCE));
static_assert(same(send_flag::kSignaled, IBV_SEND_SIGNALED));
static_assert(same(send_flag::kSolicited, IBV_SEND_SOLICITED));
static_assert(same(send_flag::kInline, IBV_SEND_INLINE));
static_assert(same(wc_flag::kGrh, IBV_WC_GRH));
static_assert(same(wc_flag::kWithImm, IBV_WC_WITH_IMM));
static_assert(same(wc_flag::kWithInv, IBV_WC_WITH_INV));

static_assert(same(QpState::kReset, IBV_QPS_RESET) && same(QpState::kErr, IBV_QPS_ERR));
static_assert(same(QpState::kRts, IBV_QPS_RTS) && same(QpState::kSqe, IBV_QPS_SQE));
static_assert(same(QpType::kRc, IBV_QPT_RC) && same(QpType::kUc, IBV_QPT_UC));
static_assert(same(QpType::kUd, IBV_QPT_UD) && same(QpType::kXrcSend, IBV_QPT_XRC_SEND));
static_assert(same(QpType::kXrcRecv, IBV_QPT_XRC_RECV));
static_assert(same(qp_attr::kState, IBV_QP_STATE) && same(qp_attr::kDestQpn, IBV_QP_DEST_QPN));
static_assert(same(qp_attr::kRateLimit, IBV_QP_RATE_LIMIT) && same(qp_attr::kAv, IBV_QP_AV));
static_assert(same(qp_attr::kMinRnrTimer, IBV_QP_MIN_RNR_TIMER) &&
              same(qp_attr::kTimeout, IBV_QP_TIMEOUT));

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
static_assert(offsetof(Sge, length) == offsetof(ibv_sge, length));

}  // namespace

}  // namespace softhca
