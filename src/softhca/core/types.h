// SPDX-License-Identifier: BSD-3-Clause
// The device's enumerations. Values are those of the verbs ABI; verbs/abi_check.cc compares them.
#pragma once

#include <cstdint>

namespace softhca {

enum class WcStatus : uint8_t {
    kSuccess = 0,
    kLocalLengthError = 1,
    kLocalQpOperationError = 2,
    kLocalProtectionError = 4,
    kFlushed = 5,
    kMwBindError = 6,
    kRemoteInvalidRequest = 9,
    kRemoteAccessError = 10,
    kRemoteOperationError = 11,
    kRetryExceeded = 12,
    kRnrRetryExceeded = 13,
};

enum class WcOpcode : uint8_t {
    kSend = 0,
    kRdmaWrite = 1,
    kRdmaRead = 2,
    kCompareSwap = 3,
    kFetchAdd = 4,
    kBindMw = 5,
    kLocalInvalidate = 6,
    kReceive = 128,
    kReceiveRdmaWithImm = 129,
};

enum class WrOpcode : uint8_t {
    kRdmaWrite = 0,
    kRdmaWriteImm = 1,
    kSend = 2,
    kSendImm = 3,
    kRdmaRead = 4,
    kCompareSwap = 5,
    kFetchAdd = 6,
    kLocalInvalidate = 7,
    kBindMw = 8,
    kSendInvalidate = 9,
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
constexpr uint32_t kRelaxedOrdering = 1 << 20;
constexpr uint32_t kOptional = 0x3ffu << 20;  // devices may ignore these bits
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

// Memory of the responder, as the headers of RDMA and atomic packets name it.
struct RemoteAddress {
    uint64_t address;
    uint32_t rkey;
};

constexpr uint32_t kMaxSge = 32;  // of a work request

constexpr uint32_t kGrhBytes = 40;  // of the GRH at the start of UD receive buffers

}  // namespace softhca
