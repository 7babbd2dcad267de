// SPDX-License-Identifier: BSD-3-Clause
// Incoming transfers whose bytes the sender writes.
#pragma once

#include <chrono>
#include <cstdint>

#include "tern/rendezvous/incoming_pins.h"
#include "tern/rendezvous/incoming_transfer.h"
#include "tern/rendezvous/rendezvous_parts.h"

namespace tern {

// Asks the sender to write, copies sub-blocks out of the ring, pins the placed parts, and
// acknowledges. Does not end transfers: its owner does.
class IncomingWrites {
  public:
    IncomingWrites(const RendezvousParts& parts, IncomingPins& pins)
        : engine_(parts.engine),
          pins_(pins),
          accounts_(parts.accounts),
          decider_(parts.decider),
          settings_(parts.settings),
          counters_(parts.counters),
          budget_(parts.budget) {}

    struct Step {
        unsigned count = 0;  // of what has been done
        bool over = false;   // the last acknowledgement has been sent
    };

    // Makes what reads the ring, and the first part that the sender is given.
    void open(Incoming& transfer);
    // Sends the fetch or the accept. False: the frame cannot be sent now.
    bool ask_sender(Incoming& transfer);
    // Moves the transfer on. Of a transfer in kAsking or kRunning.
    Step step(Incoming& transfer);
    // False: the frame cannot be sent now.
    bool acknowledge(Incoming& transfer);
    // Whether no other transfer has been under way since this one began.
    bool was_alone(const Incoming& transfer) const;

  private:
    static constexpr uint32_t kBlocksAtOnce = 16;  // in one step
    static constexpr uint32_t kPartsAtOnce = 16;
    static constexpr uint32_t kIdleAck = 256;   // idle steps before an owed acknowledgement
    static constexpr uint32_t kIdleClock = 32;  // idle steps between two looks at the clock
    // Waiting no longer than this, in seconds, beyond what is expected says nothing of the sender.
    static constexpr double kWaitedLong = 50e-6;

    unsigned take_blocks(Incoming& transfer);
    unsigned pin_more(Incoming& transfer);
    bool end(Incoming& transfer);
    void note_idle(Incoming& transfer) const;
    bool kept_waiting(const Incoming& transfer) const;

    Engine& engine_;
    IncomingPins& pins_;
    TransferAccounts& accounts_;
    const Decider& decider_;
    const RendezvousSettings& settings_;
    RendezvousCounters& counters_;
    ProgressBudget& budget_;
};

}  // namespace tern
