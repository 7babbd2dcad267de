// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "rwapi/engine/sequencer.h"

namespace rwapi {

// Flushes and fences. A flush of all peers is one operation whose parts are flushes of the peers;
// it ends with the last part.
class Flushes {
  public:
    Flushes(const Self& self, Peers& peers, Operations& operations, Sequencer& sequencer)
        : self_(self), peers_(peers), operations_(operations), sequencer_(sequencer) {}

    // Begins a kFlush or kFence of a node. The id, 0 if there is nothing to flush, or an error.
    // has_id: the user gets the id.
    rwapi_id start(Task task, uint32_t node, bool has_id);
    // Begins a flush of all nodes.
    rwapi_id flush_all(bool has_id);

    // Whether parts of flushes wait for places of operations.
    bool has_waiting() const { return !waiting_.empty(); }
    // Begins such parts, as long as there are places.
    void start_parts();

  private:
    struct FlushAll {
        Operation* whole = nullptr;
        std::vector<uint32_t> nodes;  // whose parts have not begun
    };

    const Self self_;
    Peers& peers_;
    Operations& operations_;
    Sequencer& sequencer_;
    std::deque<FlushAll> waiting_;  // if it is not empty, a peer has work for progress
};

}  // namespace rwapi
