// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/queue_pair.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <iterator>
#include <utility>

#include "tern/base/shortage.h"
#include "tern/verbs/async_events.h"

namespace tern::verbs {

namespace {

int to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    return ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
}

// What is posted to a reliable queue pair, by ibv_post_send() as ever. mlx5 otherwise makes each
// work request long enough to bind a memory window, and thus twice as long as Tern's are.
uint64_t operations(bool atomics) {
    constexpr uint64_t kAlways = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ;
    constexpr uint64_t kAtomics =
        IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    return kAlways | (atomics ? kAtomics : 0);
}

// Whether the refusal of a queue pair with a list of operations may be one of the list, which mlx4
// and irdma do not know. The same values may mean that there is no room; then the device refuses
// the queue pair without the list as well.
bool may_refuse_list(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL;
}

}  // namespace

uint8_t timeout_code(double seconds) {
    const double steps = std::max(seconds, 0.) / 4.096e-6;
    return steps <= 2 ? 1 : static_cast<uint8_t>(std::min(std::ceil(std::log2(steps)), 31.));
}

uint8_t rnr_timer_code(double seconds) {
    // Milliseconds of the codes 1 .. 31 (InfiniBand specification, table of the RNR NAK timer
    // field).
    static constexpr double kTimes[] = {.01,   .02,   .03,    .04,    .06,    .08,    .12,   .16,
                                        .24,   .32,   .48,    .64,    .96,    1.28,   1.92,  2.56,
                                        3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72, 40.96,
                                        61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
    const auto* time = std::lower_bound(std::begin(kTimes), std::end(kTimes), seconds * 1e3);
    return static_cast<uint8_t>(std::min<size_t>(static_cast<size_t>(time - kTimes), 30) + 1);
}

bool may_lack_room(int error) {
    static constexpr int kErrors[] = {EBUSY, ENOBUFS, EOVERFLOW, EINVAL};
    return is_full(error) || std::ranges::find(kErrors, error) != std::end(kErrors);
}

bool may_lack_way(int error) {
    static constexpr int kErrors[] = {ENETUNREACH, EHOSTUNREACH,  ENETDOWN, EHOSTDOWN, ETIMEDOUT,
                                      ENODEV,      EADDRNOTAVAIL, EINTR,    ENOMEM,    EAGAIN,
                                      EBUSY,       ENOSPC,        ENOBUFS,  EOVERFLOW};
    return std::ranges::find(kErrors, error) != std::end(kErrors);
}

CompletionQueue create_completion_queue(ibv_context* context, uint32_t entries,
                                        uint32_t fixed_entries, ibv_comp_channel* events) {
    const auto create = [&](uint32_t room) {
        return CompletionQueue(
            ibv_create_cq(context, static_cast<int>(room), next_identity(), events, 0));
    };
    CompletionQueue queue = create(entries);
    if (!queue || ibv_resize_cq(queue.get(), queue->cqe) == 0) return queue;
    CompletionQueue larger = create(fixed_entries);
    return larger ? std::move(larger) : std::move(queue);
}

QueuePair create_queue_pair(ibv_pd* pd, ibv_qp_type type, ibv_cq* cq, ibv_srq* srq,
                            const QueueSizes& sizes, ibv_qp_cap& capacity) {
    ibv_qp_init_attr_ex attributes{};
    attributes.qp_context = next_identity();
    attributes.send_cq = cq;
    attributes.recv_cq = cq;
    attributes.srq = srq;
    attributes.cap.max_send_wr = sizes.sends;
    attributes.cap.max_recv_wr = sizes.receives;
    attributes.cap.max_send_sge = sizes.pieces;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = sizes.inline_bytes;
    attributes.qp_type = type;
    attributes.comp_mask = IBV_QP_INIT_ATTR_PD;  // alone: as ibv_create_qp()
    attributes.pd = pd;
    if (type == IBV_QPT_RC) {
        attributes.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attributes.send_ops_flags = operations(sizes.atomics);
    }
    QueuePair qp(ibv_create_qp_ex(pd->context, &attributes));
    if (!qp && type == IBV_QPT_RC && may_refuse_list(errno)) {
        attributes.comp_mask = IBV_QP_INIT_ATTR_PD;
        qp.reset(ibv_create_qp_ex(pd->context, &attributes));
    }
    capacity = attributes.cap;
    return qp;
}

int start_datagrams(ibv_qp* qp, const Port& port, uint32_t qkey, uint32_t psn) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = port.pkey_index;
    attributes.port_num = port.number;
    attributes.qkey = qkey;
    int error = ibv_modify_qp(qp, &attributes,
                              IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
    if (error != 0) return error;
    attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    error = ibv_modify_qp(qp, &attributes, IBV_QP_STATE);
    if (error != 0) return error;
    attributes.qp_state = IBV_QPS_RTS;
    attributes.sq_psn = psn;
    return ibv_modify_qp(qp, &attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

int restart_datagrams(ibv_qp* qp, const Port& port, uint32_t qkey, uint32_t psn) {
    const int error = to_reset(qp);
    return error != 0 ? error : start_datagrams(qp, port, qkey, psn);
}

int resume_sends(ibv_qp* qp) {
    return to_state(qp, IBV_QPS_RTS);
}

int to_init(ibv_qp* qp, const Port& port, unsigned access) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = port.pkey_index;
    attributes.port_num = port.number;
    attributes.qp_access_flags = access;
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

ibv_qp_attr toward(const Port& port, const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                   ibv_mtu mtu) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.ah_attr = to;
    attributes.path_mtu = std::min(port.mtu, mtu);
    attributes.dest_qp_num = peer_qp_num;
    attributes.rq_psn = peer_psn;
    return attributes;
}

int to_ready(ibv_qp* qp, const RetrySettings& retry, uint32_t own_psn, uint8_t reads) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = retry.timeout;
    attributes.retry_cnt = retry.retries;
    attributes.rnr_retry = retry.rnr_retries;
    attributes.sq_psn = own_psn;
    attributes.max_rd_atomic = reads;
    return ibv_modify_qp(qp, &attributes,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int init_reliable(ibv_qp* qp, const Port& port) {
    const unsigned atomics = port.atomics ? unsigned{IBV_ACCESS_REMOTE_ATOMIC} : 0u;
    return to_init(
        qp, port,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | atomics);
}

int connect_reliable(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                     const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                     uint32_t own_psn, ibv_mtu mtu, uint8_t reads) {
    const uint8_t outstanding = std::min(port.reads, reads);
    ibv_qp_attr attributes = toward(port, to, peer_qp_num, peer_psn, mtu);
    attributes.max_dest_rd_atomic = outstanding;
    attributes.min_rnr_timer = retry.rnr_timer;
    const int error =
        ibv_modify_qp(qp, &attributes, kToward | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    return error != 0 ? error : to_ready(qp, retry, own_psn, outstanding);
}

int to_error(ibv_qp* qp) {
    return to_state(qp, IBV_QPS_ERR);
}

int to_reset(ibv_qp* qp) {
    return to_state(qp, IBV_QPS_RESET);
}

bool writes_in_order(ibv_qp* qp) {
    // Looked up by name: rdma-core before version 42 lacks the function, and promises nothing.
    using Query = int (*)(ibv_qp*, ibv_wr_opcode, uint32_t);
    static const auto query =
        reinterpret_cast<Query>(dlsym(RTLD_DEFAULT, "ibv_query_qp_data_in_order"));
    return query != nullptr && query(qp, IBV_WR_RDMA_WRITE, 0) != 0;
}

}  // namespace tern::verbs
