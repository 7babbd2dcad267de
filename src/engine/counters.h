// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// What an interface has done and holds. `most`: the largest value so far.
struct Counters {
    uint64_t sent_hot = 0;  // frames
    uint64_t sent_cold = 0;
    uint64_t received_hot = 0;
    uint64_t received_cold = 0;
    uint64_t shorts = 0;  // active messages by call
    uint64_t bcopies = 0;
    uint64_t zcopies = 0;
    uint64_t puts = 0;
    uint64_t atomics = 0;
    uint64_t promotions = 0;     // blocks granted
    uint64_t demotions = 0;      // blocks given back, also for a larger one
    uint64_t credit_stalls = 0;  // sends that found the block full
    uint64_t queue_stalls = 0;   // sends that found the send queue or the send pool full
    uint64_t polls = 0;
    uint64_t sleeps = 0;    // that arm() has allowed
    uint64_t tellings = 0;  // of peers, that this side sleeps or does not any more
    uint64_t notices = 0;   // writes into polled blocks that peers have notified of
    uint64_t block_bytes = 0;
    uint64_t block_bytes_most = 0;
    uint64_t hot_peers_most = 0;
};

}  // namespace tern
