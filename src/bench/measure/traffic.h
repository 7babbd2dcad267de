// SPDX-License-Identifier: BSD-3-Clause
// Messages between the two processes, timed. Both call these at the same time; only the one that
// measures gets samples.
#pragma once

#include "bench/measure/clock.h"
#include "bench/measure/link.h"
#include "bench/measure/statistics.h"

namespace bench {

struct Trips {
    Trips(uint64_t round_trips) : count(round_trips) {}
    Trips(uint64_t round_trips, uint32_t bytes, uint64_t trips_per_sample)
        : count(round_trips / trips_per_sample * trips_per_sample),
          size(bytes),
          per_sample(trips_per_sample) {}

    uint64_t count;
    uint32_t size = 8;  // of a message, in bytes
    // Looking at the clock takes as long as a message in shared memory, so it should be done
    // seldom where those are measured.
    uint64_t per_sample = 1;
};

// Runs trip() so often and notes half of what each takes, in us.
template <typename Trip>
Samples time_trips(const Trips& trips, Trip&& trip) {
    Samples samples;
    samples.reserve(trips.count / trips.per_sample);
    uint64_t begin = now_ns();
    for (uint64_t i = 0; i < trips.count / trips.per_sample; ++i) {
        for (uint64_t j = 0; j < trips.per_sample; ++j) trip();
        const uint64_t end = now_ns();
        samples.push_back(static_cast<double>(end - begin) / 2000 /
                          static_cast<double>(trips.per_sample));
        begin = end;
    }
    return samples;
}

// Half round trips, and when a message arrives, in us. Messages have 8 bytes unless a size is
// given.

// What a process does while it looks for the word that the other one writes.
enum class Waiting {
    polls_memory,          // nothing else
    polls_completions_too  // takes completions of its requests, as most programs do
};

// RDMA writes, of a multiple of 8 bytes; the last 8 tell that they are there.
Samples write_latency(Peer& peer, Link& link, const Trips& trips, Waiting waiting);
// Sends, found by polling the completion queue.
Samples send_latency(Peer& peer, Link& link, const Trips& trips);
// process_vm_writev in place of the HCA.
Samples copy_latency(Peer& peer, Link& link, uint64_t round_trips);
// A store to the other process's in(), mapped here at `there`, in place of the HCA.
Samples store_latency(Peer& peer, Link& link, char* there, uint64_t round_trips);

// How long one process_vm_writev of 8 bytes takes, while the other process looks at the word.
Samples copy_calls(Peer& peer, Link& link, uint64_t calls);

struct Arrival {
    uint32_t size;    // of a write: a multiple of the page size
    uint32_t bytes;   // whose last word is looked for: a multiple of the page size
    uint64_t writes;  // one after the other
};

// us from the post of a write to when its first `bytes` are seen by a process that follows the
// write page by page, and polls its completion queue meanwhile. The one that measures is
// written to.
Samples arrival_times(Peer& peer, Link& link, const Arrival& arrival);

// Messages behind one another, as fast as they go.
struct Stream {
    ibv_wr_opcode opcode;  // IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ or IBV_WR_SEND
    uint32_t size;
    uint32_t window;  // messages under way, at most a third of all
    // At most Link::kDepth, so that a receiver that falls behind does not slow a sender down.
    uint64_t count;
};

// ns from one message to the next one, without the first ones; 0 in the process that answers.
double message_spacing(Peer& peer, Link& link, const Stream& stream);
// The same between process_vm_writev (for a read: process_vm_readv) calls for the same bytes.
double copy_spacing(Peer& peer, Link& link, const Stream& stream);

}  // namespace bench
