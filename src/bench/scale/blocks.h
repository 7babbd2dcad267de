// SPDX-License-Identifier: BSD-3-Clause
// The blocks of the simulated process's peers, as the engine's OfferedBlocks and the peers'
// PeerBlocks act on the same decisions. Control frames take no time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/connection/send_queue.h"
#include "tern/engine/idle_choice.h"
#include "tern/engine/settings.h"
#include "tern/veloblock/block_sizes.h"
#include "tern/veloblock/promotion.h"
#include "tern/veloblock/send_path.h"

namespace bench::scale {

// A peer of the simulated process, and the connection to it.
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

class Blocks {
  public:
    explicit Blocks(const tern::EngineSettings& settings)
        : promotion_(settings.promotion),
          sizes_(settings.block_first, settings.block_most, settings.block_memory) {}

    // A message of the peer, whose connection is up. Returns whether it came through its block.
    bool take(Peer& peer, uint32_t bytes);
    // The connection is over.
    void forget(Peer& peer);

    // Bytes of all blocks and writer words, at most.
    size_t registered_most() const { return most_; }
    uint64_t offered() const { return offered_; }

  private:
    void decide(Peer& peer);
    void offer(Peer& peer);
    // The peer releases its block.
    void release(Peer& peer, bool revoked);
    void drop(Peer& peer);

    tern::Promotion promotion_;
    tern::BlockSizes sizes_;
    size_t bytes_ = 0;
    size_t words_ = 0;  // pairs in use
    size_t words_most_ = 0;
    size_t most_ = 0;
    uint64_t offered_ = 0;
};

}  // namespace bench::scale
