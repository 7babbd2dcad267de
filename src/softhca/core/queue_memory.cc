// SPDX-License-Identifier: BSD-3-Clause
#include "queue_memory.h"

#include <algorithm>
#include <bit>
#include <iterator>

namespace softhca {
namespace {

// Sources are functions of rdma-core 691953d, in files below providers/.

constexpr uint64_t kPage = 4096;
constexpr uint64_t kElement = 16;  // a scatter/gather entry of every device here
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
bool is_datagram(QpType type) {
    return type == QpType::kUd;
}

// A ring's buffer, and the records of its entries.
struct Ring {
    uint64_t buffer = 0;
    uint64_t records = 0;
};

// mlx5/verbs.c _sq_overhead(), mlx5_calc_send_wqe(), mlx5_calc_sq_size(), mlx5_alloc_qp_buf().
Ring mlx5_sends(QpType type, const SendQueueShape& sends) {
    constexpr uint64_t kControl = 16, kAtomic = 48, kBind = 192, kAddress = 48, kXrc = 16;
    constexpr uint64_t kBlock = 64, kInlineHeader = 4;
    constexpr uint64_t kRecords = kId + 4 + 4;  // wrid, wr_data, wqe_head: of each block
    if (sends.entries == 0) return {};
    uint64_t overhead = sends.binds ? kBind : kAtomic;
    if (is_datagram(type)) overhead = kControl + kAddress;
    if (type == QpType::kXrcSend) overhead += kXrc;
    uint64_t request = overhead + sends.elements * kElement;
    if (sends.inline_bytes != 0)
        request = std::max(request, overhead + aligned(kInlineHeader + sends.inline_bytes, 16));
    const uint64_t buffer = power(sends.entries * aligned(request, kBlock));
    return {buffer, buffer / kBlock * kRecords};
}

// mlx5/verbs.c mlx5_calc_rcv_wqe(), mlx5_calc_rq_size().
Ring mlx5_receives(const ReceiveQueueShape& receives) {
    constexpr uint64_t kLeast = 64;
    if (receives.entries == 0) return {};
    const uint64_t slot = power(std::max<uint64_t>(receives.elements, 1) * kElement);
    const uint64_t entries = power(receives.entries);
    return {std::max(entries * slot, kLeast), entries * kId};
}

// mlx5/srq.c mlx5_alloc_srq_buf(): twice the entries, as some may wait for the device.
Ring mlx5_shared(const ReceiveQueueShape& receives) {
    constexpr uint64_t kMost = 32767;  // max_srq_wr
    constexpr uint64_t kNext = 16, kLeastSlot = 32;
    uint64_t entries = 2 * uint64_t{receives.entries} + 1;
    if (entries > kMost) entries = uint64_t{receives.entries} + 1;
    entries = power(entries);
    const uint64_t slot = power(std::max(kNext + receives.elements * kElement, kLeastSlot));
    return {entries * slot, entries * kId + entries / 8};
}

// mlx4/qp.c mlx4_calc_sq_wqe_size(), mlx4_alloc_qp_buf(); verbs.c create_qp_ex().
Ring mlx4_sends(QpType type, const SendQueueShape& sends) {
    constexpr uint64_t kControl = 16, kAddress = 48, kRemote = 16, kAtomic = 48, kBind = 32;
    constexpr uint64_t kLeastRequest = 64, kInlineUnit = 60, kInlineHeader = 4;
    constexpr uint64_t kHeadroom = 2048;
    if (sends.entries == 0) return {};
    const uint64_t before = is_datagram(type) ? 0 : kControl + kRemote;
    const uint64_t segments = (sends.inline_bytes + before + kInlineUnit - 1) / kInlineUnit;
    uint64_t request = std::max(aligned(sends.inline_bytes + segments * kInlineHeader, kElement),
                                sends.elements * kElement);
    if (is_datagram(type))
        request += kAddress;
    else if (type == QpType::kUc)
        request += kRemote;
    else
        request = std::max(request + kRemote, kAtomic);
    request = power(std::max(std::max(request, kBind) + kControl, kLeastRequest));
    const uint64_t entries = power(sends.entries + kHeadroom / request + 1);
    return {entries * request, entries * kId};
}

Ring mlx4_receives(const ReceiveQueueShape& receives) {
    if (receives.entries == 0) return {};
    const uint64_t entries = power(receives.entries);
    return {entries * power(std::max<uint64_t>(receives.elements, 1) * kElement), entries * kId};
}

// mlx4/srq.c mlx4_alloc_srq_buf().
Ring mlx4_shared(const ReceiveQueueShape& receives) {
    constexpr uint64_t kNext = 16, kLeastSlot = 32;
    const uint64_t entries = power(uint64_t{receives.entries} + 1);
    const uint64_t slot = power(std::max(kNext + receives.elements * kElement, kLeastSlot));
    return {entries * slot, entries * kId};
}

// irdma/uk.c irdma_get_wqe_shift(), in quanta of 32 bytes.
uint64_t irdma_quanta(uint32_t elements, uint32_t inline_bytes) {
    if (elements <= 1 && inline_bytes <= 8) return 1;
    if (elements < 4 && inline_bytes <= 39) return 2;
    return elements < 8 && inline_bytes <= 101 ? 4 : 8;
}

// irdma/uk.c irdma_get_sqdepth(), irdma_get_rqdepth(); uverbs.c irdma_vmapped_qp().
Ring irdma_ring(uint32_t entries, uint64_t quanta, uint64_t reserved, uint64_t record) {
    constexpr uint64_t kQuantum = 32, kLeast = 8;
    const uint64_t depth = std::max(power(entries * quanta + reserved), kLeast * quanta);
    return {pages(depth * kQuantum), depth * record};
}
Ring irdma_sends(QpType, const SendQueueShape& sends) {
    constexpr uint64_t kReserved = 258, kRecord = 16;
    // One more element for immediate data.
    return irdma_ring(sends.entries, irdma_quanta(sends.elements + 1, sends.inline_bytes),
                      kReserved, kRecord);
}
Ring irdma_receives(const ReceiveQueueShape& receives) {
    return irdma_ring(receives.entries, irdma_quanta(receives.elements, 0), 1, kId);
}

// bnxt_re/verbs.c bnxt_re_get_sqmem_size(), bnxt_re_get_rqmem_size(), bnxt_re_get_srqmem_size(),
// with requests of fixed size on a chip of generation P5.
constexpr uint64_t kBnxtRequest = 32 + 6 * kElement;
constexpr uint64_t kBnxtRecord = 40;  // struct bnxt_re_wrid
Ring bnxt_sends(QpType, const SendQueueShape& sends) {
    constexpr uint64_t kFullDelta = 128, kPsn = 16;
    if (sends.entries == 0) return {};
    const uint64_t entries = power(sends.entries + 1 + kFullDelta);
    return {pages(entries * (kBnxtRequest + kPsn)), entries * kBnxtRecord};
}
Ring bnxt_receives(const ReceiveQueueShape& receives) {
    if (receives.entries == 0) return {};
    const uint64_t entries = power(uint64_t{receives.entries} + 1);
    return {pages(entries * kBnxtRequest), entries * kBnxtRecord};
}

// hns/hns_roce_u_verbs.c hns_roce_set_qp_params(), set_ext_sge_param(), calc_qp_buff_size(), as
// for HIP09.
Ring hns_sends(QpType type, const SendQueueShape& sends) {
    constexpr uint64_t kRequest = 64, kLeast = 64, kElementsWithin = 2;
    if (sends.entries == 0) return {};
    const uint64_t entries = power(std::max<uint64_t>(sends.entries, kLeast));
    const uint64_t within = is_datagram(type) ? 0 : kElementsWithin;
    uint64_t outside = sends.elements > within ? sends.elements - within : 0;
    const uint64_t of_inline = power(std::max<uint64_t>(sends.inline_bytes, 1)) / kElement;
    if (of_inline > within) outside = std::max(outside, of_inline);
    uint64_t buffer = pages(entries * kRequest);
    if (outside != 0) buffer += pages(power(entries * power(outside)) * kElement);
    return {buffer, entries * kId};
}
Ring hns_receives(const ReceiveQueueShape& receives) {
    constexpr uint64_t kLeast = 64;
    if (receives.entries == 0) return {};
    const uint64_t entries = power(std::max<uint64_t>(receives.entries, kLeast));
    return {pages(entries * power(std::max<uint64_t>(receives.elements, 1)) * kElement),
            entries * kId};
}
Ring hns_shared(const ReceiveQueueShape& receives) {
    constexpr uint64_t kIndex = 4;
    const uint64_t entries = power(receives.entries);
    Ring ring = hns_receives(receives);
    ring.buffer += pages(entries * kIndex);
    ring.records += entries / 8;
    return ring;
}

// The kernel's sw/rxe/rxe_queue.c rxe_queue_init(); kernel-headers/rdma/rdma_user_rxe.h.
Ring rxe_ring(uint64_t entries, uint64_t entry) {
    constexpr uint64_t kHeader = 384;
    return {pages(kHeader + power(entries + 1) * power(entry)), 0};
}
Ring rxe_sends(QpType, const SendQueueShape& sends) {
    constexpr uint64_t kRequest = 208;  // struct rxe_send_wqe
    if (sends.entries == 0) return {};
    return rxe_ring(sends.entries,
                    kRequest + std::max(sends.elements * kElement, uint64_t{sends.inline_bytes}));
}
Ring rxe_receives(const ReceiveQueueShape& receives) {
    constexpr uint64_t kRequest = 40;  // struct rxe_recv_wqe
    if (receives.entries == 0) return {};
    return rxe_ring(receives.entries, kRequest + receives.elements * kElement);
}

struct Driver {
    const char* name;
    Ring (*sends)(QpType, const SendQueueShape&);
    Ring (*receives)(const ReceiveQueueShape&);
    Ring (*shared)(const ReceiveQueueShape&);
};

// By QueueDriver.
constexpr Driver kDrivers[] = {
    {"mlx5", mlx5_sends, mlx5_receives, mlx5_shared},
    {"mlx4", mlx4_sends, mlx4_receives, mlx4_shared},
    {"irdma", irdma_sends, irdma_receives, irdma_receives},
    {"bnxt_re", bnxt_sends, bnxt_receives, bnxt_receives},
    {"hns", hns_sends, hns_receives, hns_shared},
    {"rxe", rxe_sends, rxe_receives, rxe_receives},
};

const Driver& functions_of(QueueDriver driver) {
    return kDrivers[static_cast<size_t>(driver)];
}

}  // namespace

const char* queue_driver_name(int32_t driver) {
    const bool known = driver >= 0 && static_cast<size_t>(driver) < std::size(kDrivers);
    return known ? kDrivers[driver].name : "unknown";
}

// All but rxe, which maps two, have one buffer for both queues.
uint64_t queue_pair_memory(QueueDriver driver, QpType type, const SendQueueShape& sends,
                           const ReceiveQueueShape& receives) {
    if (type == QpType::kXrcRecv) return 0;
    const Ring out = functions_of(driver).sends(type, sends);
    const Ring in = functions_of(driver).receives(receives);
    return pages(out.buffer + in.buffer) + out.records + in.records;
}

uint64_t completion_queue_memory(QueueDriver driver, uint32_t entries) {
    constexpr uint64_t kEntry = 64, kShortEntry = 32, kLeastHns = 64;
    const uint64_t asked = entries;
    switch (driver) {
        case QueueDriver::kIrdma:  // uverbs.c get_cq_size(): every second entry may be an extension
            return pages(2 * (asked + 1) * kShortEntry);
        case QueueDriver::kBnxtRe:  // verbs.c bnxt_re_create_cq(), which doubles a small queue
            return pages(power(2 * asked + 1) * kShortEntry);
        case QueueDriver::kHns:  // hns_roce_alloc_cq_buf()
            return pages(power(std::max(asked, kLeastHns)) * kEntry);
        case QueueDriver::kRxe:
            return rxe_ring(asked, kEntry).buffer;
        default:  // mlx5, mlx4 verbs.c create_cq()
            return pages(power(asked + 1) * kEntry);
    }
}

uint64_t shared_queue_memory(QueueDriver driver, const ReceiveQueueShape& receives) {
    const Ring ring = functions_of(driver).shared(receives);
    return pages(ring.buffer) + ring.records;
}

}  // namespace softhca
