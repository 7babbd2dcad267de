// SPDX-License-Identifier: BSD-3-Clause
// Messages behind one another, as fast as they go. Both processes call these at the same time.
#pragma once

#include "bench/measure/link.h"

namespace bench {

struct Stream {
    ibv_wr_opcode opcode;  ///< IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ or IBV_WR_SEND
    uint32_t size;
    uint32_t window;  ///< messages under way, at most a third of all
    /// At most Link::kDepth, so that a receiver that falls behind does not slow a sender down.
    uint64_t count;
};

/// ns from one message to the next one, without the first ones; 0 in the process that answers.
double message_spacing(Peer& peer, Link& link, const Stream& stream);
/// The same between process_vm_writev (for a read: process_vm_readv) calls for the same bytes.
double copy_spacing(Peer& peer, Link& link, const Stream& stream);

}  // namespace bench
