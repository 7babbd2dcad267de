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

static_assert(same(WcStatus::success, IBV_WC_SUCCESS));
static_assert(same(WcStatus::local_length_error, IBV_WC_LOC_LEN_ERR));
static_assert(same(WcStatus::local_qp_operation_error, IBV_WC_LOC_QP_OP_ERR));
static_assert(same(WcStatus::local_protection_error, IBV_WC_LOC_PROT_ERR));
static_assert(same(WcStatus::flushed, IBV_WC_WR_FLUSH_ERR));
static_assert(same(WcStatus::mw_bind_error, IBV_WC_MW_BIND_ERR));
static_assert(same(WcStatus::remote_invalid_request, IBV_WC_REM_INV_REQ_ERR));
static_assert(same(WcStatus::remote_access_error, IBV_WC_REM_ACCESS_ERR));
static_assert(same(WcStatus::remote_operation_error, IBV_WC_REM_OP_ERR));
static_assert(same(WcStatus::retry_exceeded, IBV_WC_RETRY_EXC_ERR));
static_assert(same(WcStatus::rnr_retry_exceeded, IBV_WC_RNR_RETRY_EXC_ERR));

static_assert(same(WcOpcode::send, IBV_WC_SEND));
static_assert(same(WcOpcode::rdma_write, IBV_WC_RDMA_WRITE));
static_assert(same(WcOpcode::rdma_read, IBV_WC_RDMA_READ));
static_assert(same(WcOpcode::compare_swap, IBV_WC_COMP_SWAP));
static_assert(same(WcOpcode::fetch_add, IBV_WC_FETCH_ADD));
static_assert(same(WcOpcode::bind_mw, IBV_WC_BIND_MW));
static_assert(same(WcOpcode::local_invalidate, IBV_WC_LOCAL_INV));
static_assert(same(WcOpcode::receive, IBV_WC_RECV));
static_assert(same(WcOpcode::receive_rdma_with_imm, IBV_WC_RECV_RDMA_WITH_IMM));

static_assert(same(WrOpcode::rdma_write, IBV_WR_RDMA_WRITE));
static_assert(same(WrOpcode::rdma_write_imm, IBV_WR_RDMA_WRITE_WITH_IMM));
static_assert(same(WrOpcode::send, IBV_WR_SEND));
static_assert(same(WrOpcode::send_imm, IBV_WR_SEND_WITH_IMM));
static_assert(same(WrOpcode::rdma_read, IBV_WR_RDMA_READ));
static_assert(same(WrOpcode::compare_swap, IBV_WR_ATOMIC_CMP_AND_SWP));
static_assert(same(WrOpcode::fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD));
static_assert(same(WrOpcode::local_invalidate, IBV_WR_LOCAL_INV));
static_assert(same(WrOpcode::bind_mw, IBV_WR_BIND_MW));
static_assert(same(WrOpcode::send_invalidate, IBV_WR_SEND_WITH_INV));

static_assert(same(access_flag::kLocalWrite, IBV_ACCESS_LOCAL_WRITE));
static_assert(same(access_flag::kRemoteWrite, IBV_ACCESS_REMOTE_WRITE));
static_assert(same(access_flag::kRemoteRead, IBV_ACCESS_REMOTE_READ));
static_assert(same(access_flag::kRemoteAtomic, IBV_ACCESS_REMOTE_ATOMIC));
static_assert(same(access_flag::kMwBind, IBV_ACCESS_MW_BIND));
static_assert(same(access_flag::kZeroBased, IBV_ACCESS_ZERO_BASED));
static_assert(same(access_flag::kOnDemand, IBV_ACCESS_ON_DEMAND));
static_assert(same(access_flag::kHugetlb, IBV_ACCESS_HUGETLB));
static_assert(same(access_flag::kOptional, IBV_ACCESS_OPTIONAL_RANGE));

static_assert(same(send_flag::kFence, IBV_SEND_FENCE));
static_assert(same(send_flag::kSignaled, IBV_SEND_SIGNALED));
static_assert(same(send_flag::kSolicited, IBV_SEND_SOLICITED));
static_assert(same(send_flag::kInline, IBV_SEND_INLINE));
static_assert(same(wc_flag::kGrh, IBV_WC_GRH));
static_assert(same(wc_flag::kWithImm, IBV_WC_WITH_IMM));
static_assert(same(wc_flag::kWithInv, IBV_WC_WITH_INV));

static_assert(same(QpState::reset, IBV_QPS_RESET) && same(QpState::err, IBV_QPS_ERR));
static_assert(same(QpState::rts, IBV_QPS_RTS) && same(QpState::sqe, IBV_QPS_SQE));
static_assert(same(QpType::rc, IBV_QPT_RC) && same(QpType::uc, IBV_QPT_UC));
static_assert(same(QpType::ud, IBV_QPT_UD) && same(QpType::xrc_send, IBV_QPT_XRC_SEND));
static_assert(same(QpType::xrc_recv, IBV_QPT_XRC_RECV));
static_assert(same(qp_attr::kState, IBV_QP_STATE) && same(qp_attr::kDestQpn, IBV_QP_DEST_QPN));
static_assert(same(qp_attr::kRateLimit, IBV_QP_RATE_LIMIT) && same(qp_attr::kAv, IBV_QP_AV));
static_assert(same(qp_attr::kMinRnrTimer, IBV_QP_MIN_RNR_TIMER) &&
              same(qp_attr::kTimeout, IBV_QP_TIMEOUT));

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));
static_assert(offsetof(Sge, length) == offsetof(ibv_sge, length));

}  // namespace

}  // namespace softhca
