// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tern/tupleq/xrc/actor.h"
#include "tern/tupleq/xrc/binder.h"
#include "tern/tupleq/xrc/entry_memory.h"
#include "tern/tupleq/xrc/queues.h"

namespace tern {

// Cancels posted receives whose grants the sender may have used: takes the grants back, and decides
// by the number that the sender has announced. Does so too for receives that messages of
// other peers wait for, and for those of tuples that are being unbound. Control path.
class Cancellation {
  public:
    using Cancel = DirectMatcher::Cancel;

    // The objects of the receiving side that a cancellation concerns.
    struct Parts {
        Engine& engine;
        XrcQueues& queues;
        EntryMemory& memory;
        TupleTable& table;
        DirectMatcher& matcher;
        TupleBinder& binder;
        TupleActor& actor;
    };
    Cancellation(const Parts& parts, uint64_t announced_limit)
        : parts_(parts), announced_limit_(announced_limit) {}

    // Requests the cancellation of a posted receive.
    Cancel cancel(TupleReceive& receive);
    // Decides a cancel that is kLater at once: waits for the sender's device, for a bounded time.
    // True: the receive is canceled, and the owner has had its callback. False: its message is or
    // may be on its way.
    bool cancel_now(TupleReceive& receive);
    // The read of an announced number is complete. If it failed, the channel has failed too, and
    // the channel's end decides.
    void on_read(void* cookie, Status status);

    // Queues with a grant that was to be taken back and that the sender may have used.
    bool any_undecided() const { return !undecided_.empty(); }
    // Reads the announced numbers of these queues again, or fails those that have waited too long.
    void ask_again();

  private:
    struct Undecided {
        uint16_t queue;
        uint64_t since;  // ns: when it was first awaited
    };

    void revoked(uint16_t queue, uint32_t count, uint64_t announced);
    void remember(uint16_t queue);
    bool is_overdue(Undecided& each, uint64_t now);

    const Parts parts_;
    const uint64_t announced_limit_;  // ns, see TupleQSettings
    std::vector<Undecided> undecided_;
};

}  // namespace tern
