// SPDX-License-Identifier: BSD-3-Clause
// The memory that mlx5 takes for queues, by the arithmetic of its provider in rdma-core: the
// buffers that the device reads or writes, in whole pages, and the records that the provider keeps
// for each entry. Without structures of which an object has one, which take some 1 KiB, and without
// the device's own memory.
#pragma once

#include <cstdint>

#include "qp_state.h"

namespace softhca {

// Queues as a program asks for them; the provider rounds by itself.
struct SendQueueShape {
    uint32_t entries = 0;  // 0: no queue
    uint32_t elements = 0;
    uint32_t inline_bytes = 0;
    bool binds = true;  // may bind memory windows, as all queue pairs may that do not name what
                        // they send (IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
};
struct ReceiveQueueShape {
    uint32_t entries = 0;  // 0: no queue
    uint32_t elements = 0;
};

// All in bytes.
uint64_t queue_pair_memory(QpType type, const SendQueueShape& sends,
                           const ReceiveQueueShape& receives);
uint64_t completion_queue_memory(uint32_t entries);
uint64_t shared_queue_memory(const ReceiveQueueShape& receives);

}  // namespace softhca
