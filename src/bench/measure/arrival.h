// SPDX-License-Identifier: BSD-3-Clause
// When the bytes of a long RDMA write appear in the memory they are written to.
#pragma once

#include "bench/measure/link.h"
#include "bench/measure/statistics.h"

namespace bench {

struct Arrival {
    uint32_t size;    ///< of a write: a multiple of the page size
    uint32_t bytes;   ///< whose last word is looked for: a multiple of the page size
    uint64_t writes;  ///< one after the other
};

/// us from the post of a write to when its first `bytes` are seen by a process that follows the
/// write page by page, and polls its completion queue meanwhile. Both processes call it at the same
/// time; only the one that measures, which is written to, gets samples.
Samples arrival_times(Peer& peer, Link& link, const Arrival& arrival);

}  // namespace bench
