// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "common/assert.h"
#include "tern/tupleq/core/senders.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/verbs/memory.h"

namespace tern {

// The registered words of an interface. First, for each tuple that this process sends, its grants
// and the announced number (TupleSender): peers write the former and read the latter. Behind them,
// for each queue of this process, one word that a read of its sender's announced number fills.
class GrantMemory {
  public:
    // Null if the device refuses; errno says why.
    GrantMemory(ibv_pd* pd, const TupleQSettings& settings)
        : tuples_(settings.tuples),
          first_read_(settings.tuples * TupleSender::words(settings.depth)),
          memory_(pd, (size_t{first_read_} + settings.tuples) * sizeof(uint64_t),
                  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ) {}

    explicit operator bool() const { return static_cast<bool>(memory_); }
    uint64_t* grants() const { return reinterpret_cast<uint64_t*>(memory_.data()); }
    uint64_t& read_word(uint16_t queue) const {
        TERN_ASSERT(queue < tuples_);
        return grants()[first_read_ + queue];
    }
    uint32_t lkey() const { return memory_.lkey(); }
    uint32_t rkey() const { return memory_.rkey(); }
    uint64_t size() const { return memory_.size(); }

  private:
    uint32_t tuples_;
    uint32_t first_read_;  // index of the first word to read into
    verbs::RegisteredMemory memory_;
};

// The words of a peer that this process writes grants to, and reads announced numbers from.
struct PeerWords {
    uint64_t address = 0;  // 0: not known yet
    uint32_t rkey = 0;

    uint64_t at(uint32_t slot) const {
        TERN_ASSERT(address != 0);
        return address + uint64_t{slot} * sizeof(uint64_t);
    }
};

}  // namespace tern
