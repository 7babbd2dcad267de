// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "verbs/handles.h"
#include "verbs/port.h"

namespace tern::verbs {

struct QueueSizes {
    uint32_t sends = 0;
    uint32_t receives = 0;      // 0 with a shared receive queue
    uint32_t inline_bytes = 0;  // at least
    uint32_t pieces = 1;        // scatter/gather entries of a send, at least
};

// How a reliable connection retries.
struct RetrySettings {
    uint8_t timeout = 0;      // 4.096 us * 2^timeout until a packet is sent again
    uint8_t retries = 0;      // of those, at most
    uint8_t rnr_timer = 0;    // code of the time a sender waits when there is no receive
    uint8_t rnr_retries = 0;  // 7: for ever
};

// The code of the transport timeout next above `seconds`.
uint8_t timeout_code(double seconds);
// The code of the RNR timer next above `seconds`.
uint8_t rnr_timer_code(double seconds);

// Creates a queue pair; null and errno on failure. `capacity` is what the device gave. `type`
// IBV_QPT_RC uses `srq`, IBV_QPT_UD has receives of its own.
QueuePair create_queue_pair(ibv_pd* pd, ibv_qp_type type, ibv_cq* cq, ibv_srq* srq,
                            const QueueSizes& sizes, ibv_qp_cap& capacity);

// All of these return 0 or an errno value.
int start_datagrams(ibv_qp* qp, const Port& port, uint32_t qkey, uint32_t psn);
int init_reliable(ibv_qp* qp, const Port& port);
int connect_reliable(ibv_qp* qp, const Port& port, const RetrySettings& retry,
                     const ibv_ah_attr& to, uint32_t peer_qp_num, uint32_t peer_psn,
                     uint32_t own_psn, ibv_mtu mtu);
int to_error(ibv_qp* qp);

// The device promises that bytes written by RDMA to this queue pair appear in ascending order of
// address.
bool writes_in_order(ibv_qp* qp);

}  // namespace tern::verbs
