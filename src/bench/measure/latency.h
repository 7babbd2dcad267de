// SPDX-License-Identifier: BSD-3-Clause
// Half round trips, in us, of 8 bytes unless a size is given. Both processes call these at the same
// time; only the one that measures gets samples.
#pragma once

#include "bench/measure/link.h"
#include "bench/measure/statistics.h"
#include "bench/measure/trips.h"

namespace bench {

/// What a process does while it looks for the word that the other one writes.
enum class Waiting {
    polls_memory,          ///< nothing else
    polls_completions_too  ///< takes completions of its requests, as most programs do
};

/// RDMA writes, of a multiple of 8 bytes; the last 8 tell that they are there.
Samples write_latency(Peer& peer, Link& link, const Trips& trips, Waiting waiting);
/// Sends, found by polling the completion queue.
Samples send_latency(Peer& peer, Link& link, const Trips& trips);
/// process_vm_writev in place of the HCA.
Samples copy_latency(Peer& peer, Link& link, uint64_t round_trips);
/// A store to the other process's memory in place of the HCA; the link's memory is shared, and at
/// the same address in both.
Samples store_latency(Peer& peer, Link& link, uint64_t round_trips);

/// How long one process_vm_writev of 8 bytes takes, while the other process looks at the word.
Samples copy_calls(Peer& peer, Link& link, uint64_t calls);

}  // namespace bench
