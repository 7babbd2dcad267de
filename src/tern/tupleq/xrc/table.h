// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

}  // namespace tern
