// SPDX-License-Identifier: BSD-3-Clause
// The blocks of the simulated process's peers, as the engine's OfferedBlocks and the peers'
// PeerBlocks act on the same decisions. Control frames take no time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/scale/peer.h"
#include "tern/engine/settings.h"
#include "tern/veloblock/block_sizes.h"

namespace bench::scale {

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
