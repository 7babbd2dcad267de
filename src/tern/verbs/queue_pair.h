// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"

namespace tern::verbs {

struct QueueSizes {
    uint32_t sends = 0;
    uint32_t receives = 0;      // 0 with a shared receive queue
    uint32_t inline_bytes = 0;  // at least
    uint32_t pieces = 1;        // scatter/gather entries of a send, at least
    bool atomics = false;       // atomic operations are sent, too
};

// How a reliable connection retries.
struct RetrySettings {
    uint8_t timeout = 0;      // a packet is sent again after 4.096 us * 2^timeout
    uint8_t retries = 0;      // of a packet, at most
    uint8_t rnr_timer = 0;    // code: how long a sender waits for a posted receive
    uint8_t rnr_retries = 0;  // at most; 7: without limit
};

// The code of the shortest timeout of at least `seconds`, or of the longest: for `timeout` and
// `rnr_timer`.
uint8_t timeout_code(double seconds);
uint8_t rnr_timer_code(double seconds);

// Creates a completion queue with room for `entries`, or for `fixed_entries` on a device that
// cannot resize a completion queue, as more than half of all kinds cannot. Null and errno on
// failure.
CompletionQueue create_completion_queue(ibv_context* context, uint32_t entries,
                                        uint32_t fixed_entries, ibv_comp_channel* events);

// Whether the errno value with which a device refuses to make an object may mean that it has no
// room now. Devices do not agree on it; that the request itself is wrong is not possible once one
// like it has been granted.
bool may_lack_room(int error);
// Whether that with which it refuses an address may pass: the link or the host is down.
bool may_lack_way(int error);

// Creates a queue pair; null and errno on failure. `capacity` returns the sizes granted. IBV_QPT_RC
// uses `srq`, IBV_QPT_UD has its own receive queue. Of RC, messages, writes and reads may be sent,
// messages without immediate data.
QueuePair create_queue_pair(ibv_pd* pd, ibv_qp_type type, ibv_cq* cq, ibv_srq* srq,
                            const QueueSizes& sizes, ibv_qp_cap& capacity);

// These change the state of a queue pair (to RTS, RTS, RTS, INIT, RTS, ERR, RESET), and return 0 or
// an errno value.
int start_datagrams(ibv_qp* qp, const Port& port, uint32_t qkey, uint32_t psn);
// From ERR. The posted receives are gone.
int restart_datagrams(ibv_qp* qp, const Port& port, uint32_t qkey, uint32_t psn);
// From SQE, in which a failed send leaves a datagram queue pair.
int resume_sends(ibv_qp* qp);
int init_reliable(ibv_qp* qp, const Port& port);
// `mtu` and `reads` are those of the peer's port.
int connect_reliable(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                     const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                     uint32_t own_psn, ibv_mtu mtu, uint8_t reads);
// The steps of a connection, also of XRC: to INIT, to RTR by the attributes kToward, to RTS.
constexpr int kToward =
    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
int to_init(ibv_qp* qp, const Port& port, unsigned access);
ibv_qp_attr toward(const Port& port, const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                   ibv_mtu mtu);
int to_ready(ibv_qp* qp, const RetrySettings& retry, uint32_t own_psn, uint8_t reads);
int to_error(ibv_qp* qp);
int to_reset(ibv_qp* qp);

// Whether the device promises that RDMA writes to this queue pair appear in memory in ascending
// order of address.
bool writes_in_order(ibv_qp* qp);

}  // namespace tern::verbs
