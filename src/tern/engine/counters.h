// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Counts of an interface's operations. Each object of the engine counts what it does itself.

struct MessageCounters {
    uint64_t sent_hot = 0;  // frames
    uint64_t sent_cold = 0;
    uint64_t shorts = 0;  // active messages, by the function called
    uint64_t bcopies = 0;
    uint64_t zcopies = 0;
};

struct OneSidedCounters {
    uint64_t puts = 0;
    uint64_t gets = 0;
    uint64_t in_place = 0;  // puts and gets of these, of memory that is pinned: not copied
    uint64_t atomics = 0;
};

struct BlockCounters {
    uint64_t promotions = 0;    // blocks offered
    uint64_t demotions = 0;     // blocks released, also to get a larger one
    uint64_t credit_words = 0;  // writes of credit to peers' credit words
    uint64_t block_bytes = 0;
    uint64_t block_bytes_most = 0;  // the largest value so far
    uint64_t hot_peers_most = 0;
};

// The counters of an interface.
struct Counters : MessageCounters, OneSidedCounters, BlockCounters {
    uint64_t repeated = 0;      // puts with messages that went as one write
    uint64_t batches = 0;       // frames with several messages
    uint64_t batched = 0;       // messages in them
    uint64_t received_hot = 0;  // frames
    uint64_t received_cold = 0;
    uint64_t sent_control = 0;  // of the cold frames, those that are no messages
    uint64_t received_control = 0;
    uint64_t credit_stalls = 0;  // sends that found the block full; of a series only the first
    uint64_t cold_stalls = 0;    // sends that the peer does not allow yet; the same
    uint64_t queue_stalls = 0;   // sends that found no room in the send queue or no free buffer
    uint64_t polls = 0;
    uint64_t sleeps = 0;           // calls of arm() that returned kOk
    uint64_t notify_requests = 0;  // writes to peers' notify words
    uint64_t notifications = 0;    // of writes into polled blocks
    uint64_t packets_sent = 0;     // of handshakes
    uint64_t packets_received = 0;
    uint64_t packets_dropped = 0;  // by this side
};

// What an interface uses.
struct EngineUsage {
    uint32_t connections_most = 0;
    uint64_t connections_ended = 0;  // in silence, on behalf of peers with too many
    uint32_t send_queue_places = 0;  // work requests, of all connections
    uint32_t hot_peers = 0;
    uint32_t receive_buffers = 0;  // of the shared receive queue
    uint64_t receive_queue_bytes = 0;
    uint64_t send_pool_bytes = 0;
    uint64_t registered_bytes = 0;  // these, blocks and words
};

}  // namespace tern
