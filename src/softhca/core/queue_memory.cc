// SPDX-License-Identifier: BSD-3-Clause
#include "queue_memory.h"

#include <algorithm>
#include <bit>

namespace softhca {
namespace {

// Sources are functions of rdma-core 691953d, in files below providers/mlx5/.

constexpr uint64_t kPage = 4096;
constexpr uint64_t kElement = 16;  // a scatter/gather entry
constexpr uint64_t kId = 8;        // wr_id of an entry

uint64_t aligned(uint64_t bytes, uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}
uint64_t pages(uint64_t bytes) {
    return aligned(bytes, kPage);
}
uint64_t power(uint64_t value) {
    return std::bit_ceil(value);
}

// A ring's buffer, and the records of its entries.
struct Ring {
    uint64_t buffer = 0;
    uint64_t records = 0;
};

// verbs.c _sq_overhead(), mlx5_calc_send_wqe(), mlx5_calc_sq_size(), mlx5_alloc_qp_buf().
Ring sends_ring(QpType type, const SendQueueShape& sends) {
    constexpr uint64_t kControl = 16, kAtomic = 48, kBind = 192, kAddress = 48, kXrc = 16;
    constexpr uint64_t kBlock = 64, kInlineHeader = 4;
    constexpr uint64_t kRecords = kId + 4 + 4;  // wrid, wr_data, wqe_head: of each block
    if (sends.entries == 0) return {};
    uint64_t overhead = sends.binds ? kBind : kAtomic;
    if (type == QpType::kUd) overhead = kControl + kAddress;
    if (type == QpType::kXrcSend) overhead += kXrc;
    uint64_t request = overhead + sends.elements * kElement;
    if (sends.inline_bytes != 0)
        request = std::max(request, overhead + aligned(kInlineHeader + sends.inline_bytes, 16));
    const uint64_t buffer = power(sends.entries * aligned(request, kBlock));
    return {buffer, buffer / kBlock * kRecords};
}

// verbs.c mlx5_calc_rcv_wqe(), mlx5_calc_rq_size().
Ring receives_ring(const ReceiveQueueShape& receives) {
    constexpr uint64_t kLeast = 64;
    if (receives.entries == 0) return {};
    const uint64_t slot = power(std::max<uint64_t>(receives.elements, 1) * kElement);
    const uint64_t entries = power(receives.entries);
    return {std::max(entries * slot, kLeast), entries * kId};
}

// srq.c mlx5_alloc_srq_buf(): twice the entries, as some may wait for the device.
Ring shared_ring(const ReceiveQueueShape& receives) {
    constexpr uint64_t kMost = 32767;  // max_srq_wr
    constexpr uint64_t kNext = 16, kLeastSlot = 32;
    uint64_t entries = 2 * uint64_t{receives.entries} + 1;
    if (entries > kMost) entries = uint64_t{receives.entries} + 1;
    entries = power(entries);
    const uint64_t slot = power(std::max(kNext + receives.elements * kElement, kLeastSlot));
    return {entries * slot, entries * kId + entries / 8};
}

}  // namespace

// One buffer holds both queues.
uint64_t queue_pair_memory(QpType type, const SendQueueShape& sends,
                           const ReceiveQueueShape& receives) {
    if (type == QpType::kXrcRecv) return 0;
    const Ring out = sends_ring(type, sends);
    const Ring in = receives_ring(receives);
    return pages(out.buffer + in.buffer) + out.records + in.records;
}

// verbs.c create_cq().
uint64_t completion_queue_memory(uint32_t entries) {
    constexpr uint64_t kEntry = 64;
    return pages(power(uint64_t{entries} + 1) * kEntry);
}

uint64_t shared_queue_memory(const ReceiveQueueShape& receives) {
    const Ring ring = shared_ring(receives);
    return pages(ring.buffer) + ring.records;
}

}  // namespace softhca
