// SPDX-License-Identifier: BSD-3-Clause
// The device's enumerations, with the values of the verbs ABI, so that conversion is a cast.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace softhca {

enum class WcStatus : uint8_t {
    kSuccess = IBV_WC_SUCCESS,
    kLocalLengthError = IBV_WC_LOC_LEN_ERR,
    kLocalQpOperationError = IBV_WC_LOC_QP_OP_ERR,
    kLocalProtectionError = IBV_WC_LOC_PROT_ERR,
    kFlushed = IBV_WC_WR_FLUSH_ERR,
    kMwBindError = IBV_WC_MW_BIND_ERR,
    kRemoteInvalidRequest = IBV_WC_REM_INV_REQ_ERR,
    kRemoteAccessError = IBV_WC_REM_ACCESS_ERR,
    kRemoteOperationError = IBV_WC_REM_OP_ERR,
    kRetryExceeded = IBV_WC_RETRY_EXC_ERR,
    kRnrRetryExceeded = IBV_WC_RNR_RETRY_EXC_ERR,
};

enum class WcOpcode : uint8_t {
    kSend = IBV_WC_SEND,
    kRdmaWrite = IBV_WC_RDMA_WRITE,
    kRdmaRead = IBV_WC_RDMA_READ,
    kCompareSwap = IBV_WC_COMP_SWAP,
    kFetchAdd = IBV_WC_FETCH_ADD,
    kBindMw = IBV_WC_BIND_MW,
    kLocalInvalidate = IBV_WC_LOCAL_INV,
    kReceive = IBV_WC_RECV,
    kReceiveRdmaWithImm = IBV_WC_RECV_RDMA_WITH_IMM,
};

enum class WrOpcode : uint8_t {
    kRdmaWrite = IBV_WR_RDMA_WRITE,
    kRdmaWriteImm = IBV_WR_RDMA_WRITE_WITH_IMM,
    kSend = IBV_WR_SEND,
    kSendImm = IBV_WR_SEND_WITH_IMM,
    kRdmaRead = IBV_WR_RDMA_READ,
    kCompareSwap = IBV_WR_ATOMIC_CMP_AND_SWP,
    kFetchAdd = IBV_WR_ATOMIC_FETCH_AND_ADD,
    kLocalInvalidate = IBV_WR_LOCAL_INV,
    kBindMw = IBV_WR_BIND_MW,
    kSendInvalidate = IBV_WR_SEND_WITH_INV,
};

namespace access_flag {
constexpr uint32_t kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr uint32_t kRemoteWrite = IBV_ACCESS_REMOTE_WRITE;
constexpr uint32_t kRemoteRead = IBV_ACCESS_REMOTE_READ;
constexpr uint32_t kRemoteAtomic = IBV_ACCESS_REMOTE_ATOMIC;
constexpr uint32_t kMwBind = IBV_ACCESS_MW_BIND;
constexpr uint32_t kZeroBased = IBV_ACCESS_ZERO_BASED;
constexpr uint32_t kOnDemand = IBV_ACCESS_ON_DEMAND;
constexpr uint32_t kHugetlb = IBV_ACCESS_HUGETLB;
constexpr uint32_t kRelaxedOrdering = IBV_ACCESS_RELAXED_ORDERING;
constexpr uint32_t kOptional = IBV_ACCESS_OPTIONAL_RANGE;  // devices may ignore these bits
}  // namespace access_flag

namespace send_flag {
constexpr uint32_t kFence = IBV_SEND_FENCE;
constexpr uint32_t kSignaled = IBV_SEND_SIGNALED;
constexpr uint32_t kSolicited = IBV_SEND_SOLICITED;
constexpr uint32_t kInline = IBV_SEND_INLINE;
}  // namespace send_flag

namespace wc_flag {
constexpr uint8_t kGrh = IBV_WC_GRH;
constexpr uint8_t kWithImm = IBV_WC_WITH_IMM;
constexpr uint8_t kWithInv = IBV_WC_WITH_INV;
}  // namespace wc_flag

using Sge = ibv_sge;

// Memory of the responder, as the headers of RDMA and atomic packets name it.
struct RemoteAddress {
    uint64_t address;
    uint32_t rkey;
};

constexpr uint32_t kMaxSge = 32;  // of a work request

constexpr uint32_t kGrhBytes = 40;  // of the GRH at the start of UD receive buffers

}  // namespace softhca
