// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tern/engine/channel.h"
#include "tern/tupleq/core/policy.h"
#include "tern/tupleq/core/posted.h"
#include "tern/tupleq/xrc/entry_memory.h"
#include "tern/tupleq/xrc/owner.h"

namespace tern {

// The posted receives, all of them TupleReceive, as a PostedTable for TupleMatcher.
class TupleTable : public TuplePosted {
  public:
    TupleTable(PostedReceives& posted, const TuplePolicy::Limits& limits, EntryMemory& memory,
               TupleQOwner& owner)
        : TuplePosted(posted), limits_(limits), memory_(memory), owner_(owner) {}

    static TupleReceive& receive(ReceiveHandle handle) {
        return *static_cast<TupleReceive*>(TuplePosted::receive(handle));
    }
    static uint64_t capacity(ReceiveHandle of) { return receive(of).room; }
    bool prepare(ReceiveHandle of) {
        return limits_.counts(receive(of).room) && memory_.prepare(receive(of));
    }
    void remove(ReceiveHandle of) {
        TuplePosted::remove(of);
        owner_.taken(receive(of));
    }

  private:
    const TuplePolicy::Limits limits_;
    EntryMemory& memory_;
    TupleQOwner& owner_;
};

using DirectMatcher = TupleMatcher<TupleTable>;

// Decides which tuples are bound to queues, and when a tuple makes room for another.
class TupleBinder {
  public:
    TupleBinder(DirectMatcher& matcher, TupleTable& table, const TuplePolicy::Limits& limits,
                uint32_t tuples)
        : matcher_(matcher), table_(table), policy_(limits, tuples), taken_(tuples) {}

    // An ordinary message has been matched. True: its tuple is bound now.
    bool judge(const Channel& channel, uint64_t tag, const TupleMark* mark, uint64_t length,
               const DirectMatcher::Arrival& arrival);
    // Binds the tuple of this channel and tag. False if no queue is free, or the key has one.
    bool bind(const Channel& channel, uint64_t tag);
    // A message of the tuple was direct.
    void used(uint16_t number) { policy_.used(number); }
    // The sender, or the device, has refused the tuple.
    void refused(uint16_t number);
    // Call when the queue may have become free: its tuple is then no longer counted as bound.
    void free_if_unused(uint16_t number);
    void peer_gone(uint32_t peer) { policy_.gone(peer); }

    uint32_t queues_in_use() const;
    uint64_t queues_most() const { return queues_most_; }

  private:
    DirectMatcher& matcher_;
    TupleTable& table_;
    TuplePolicy policy_;
    std::vector<bool> taken_;   // queues that the policy counts as bound
    uint64_t queues_most_ = 0;  // in use at a time
};

}  // namespace tern
