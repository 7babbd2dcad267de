// SPDX-License-Identifier: BSD-3-Clause
// The device's enumerations. Values are those of the verbs ABI; verbs/abi_check.cc compares them.
#pragma once

#include <cstdint>

namespace softhca {

enum class WcStatus : uint8_t {
    success = 0,
    local_length_error = 1,
    local_qp_operation_error = 2,
    local_protection_error = 4,
    flushed = 5,
    mw_bind_error = 6,
    remote_invalid_request = 9,
    remote_access_error = 10,
    remote_operation_error = 11,
    retry_exceeded = 12,
    rnr_retry_exceeded = 13,
};

enum class WcOpcode : uint8_t {
    send = 0,
    rdma_write = 1,
    rdma_read = 2,
    compare_swap = 3,
    fetch_add = 4,
    bind_mw = 5,
    local_invalidate = 6,
    receive = 128,
    receive_rdma_with_imm = 129,
};

enum class WrOpcode : uint8_t {
    rdma_write = 0,
    rdma_write_imm = 1,
    send = 2,
    send_imm = 3,
    rdma_read = 4,
    compare_swap = 5,
    fetch_add = 6,
    local_invalidate = 7,
    bind_mw = 8,
    send_invalidate = 9,
};

namespace access_flag {
constexpr uint32_t kLocalWrite = 1 << 0;
constexpr uint32_t kRemoteWrite = 1 << 1;
constexpr uint32_t kRemoteRead = 1 << 2;
constexpr uint32_t kRemoteAtomic = 1 << 3;
constexpr uint32_t kMwBind = 1 << 4;
constexpr uint32_t kZeroBased = 1 << 5;
constexpr uint32_t kOnDemand = 1 << 6;
constexpr uint32_t kHugetlb = 1 << 7;
constexpr uint32_t kOptional = 0x3ffu << 20;  // devices may ignore these bits; this one does
}  // namespace access_flag

namespace send_flag {
constexpr uint32_t kFence = 1 << 0;
constexpr uint32_t kSignaled = 1 << 1;
constexpr uint32_t kSolicited = 1 << 2;
constexpr uint32_t kInline = 1 << 3;
}  // namespace send_flag

namespace wc_flag {
constexpr uint8_t kGrh = 1 << 0;
constexpr uint8_t kWithImm = 1 << 1;
constexpr uint8_t kWithInv = 1 << 3;
}  // namespace wc_flag

// A scatter-gather element, laid out as struct ibv_sge.
struct Sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

constexpr uint32_t kGrhBytes = 40;  // of the GRH at the start of UD receive buffers

}  // namespace softhca
