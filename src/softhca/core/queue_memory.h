// SPDX-License-Identifier: BSD-3-Clause
// The memory that a driver of a real device takes for queues, by the arithmetic of its provider in
// rdma-core: the buffers that the device reads or writes, in whole pages, and the records that the
// provider keeps for each entry. Without structures of which an object has one, which take some
// 1 KiB, and without the device's own memory.
#pragma once

#include <cstdint>

#include "qp_state.h"

namespace softhca {

// Rule `queue-driver`.
enum class QueueDriver : int32_t {
    kMlx5 = 0,
    kMlx4 = 1,
    kIrdma = 2,
    kBnxtRe = 3,
    kHns = 4,
    kRxe = 5
};

// Of a value of that rule.
const char* queue_driver_name(int32_t driver);

// Queues as a program asks for them; drivers round by themselves.
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
uint64_t queue_pair_memory(QueueDriver driver, QpType type, const SendQueueShape& sends,
                           const ReceiveQueueShape& receives);
uint64_t completion_queue_memory(QueueDriver driver, uint32_t entries);
uint64_t shared_queue_memory(QueueDriver driver, const ReceiveQueueShape& receives);

}  // namespace softhca
