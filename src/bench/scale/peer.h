// SPDX-License-Identifier: BSD-3-Clause
// A peer of the simulated process, and the connection to it.
#pragma once

#include <cstdint>

#include "tern/connection/send_queue.h"
#include "tern/engine/idle_choice.h"
#include "tern/veloblock/promotion.h"
#include "tern/veloblock/send_path.h"

namespace bench::scale {

struct Peer {
    uint32_t rank = 0;
    // The connection. One side is the process's, the other the peer's.
    bool met = false;  // has been connected
    bool connected = false;
    uint32_t row = 0;        // of the table, its index
    uint32_t places = 0;     // of its send queue
    uint64_t up_at = 0;      // ns
    tern::SendQueue sends;   // of the process
    tern::SendQueue theirs;  // of the peer
    uint32_t sent = 0;       // messages to the peer
    tern::ConnectionUse use;
    tern::ConnectionUse their_use;

    // The peer's block, and the peer's way into it.
    tern::Promotion::Peer activity;
    tern::SendPath path;
    uint32_t freed = 0;            // bytes of the block
    uint32_t usual_bytes = 0;      // see tern::BlockSizes
    uint32_t requested_bytes = 0;  // the same
    uint32_t memory = 0;           // of the block
    bool has_words = false;        // takes writer words, as the peer's block does of the peer
};

}  // namespace bench::scale
