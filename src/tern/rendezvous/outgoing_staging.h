// SPDX-License-Identifier: BSD-3-Clause
// Staging memory: which outgoing transfer has it, and early copies.
#pragma once

#include <cstdint>
#include <deque>
#include <span>

#include "tern/rendezvous/early_copies.h"
#include "tern/rendezvous/outgoing_transfer.h"
#include "tern/rendezvous/rendezvous_parts.h"
#include "tern/rendezvous/ring_pool.h"

namespace tern {

class OutgoingStaging {
  public:
    explicit OutgoingStaging(const RendezvousParts& parts);

    // Lends staging memory to a transfer that has none, in the order of the requests. False: the
    // transfer waits, in kWaiting.
    bool lend_or_wait(Outgoing& transfer);
    // Lends to transfers that wait. If some must wait longer, takes memory from those of `running`
    // that have nothing to write now.
    unsigned lend_to_waiting(std::span<Outgoing* const> running);
    bool any_waiting() const { return !waiting_.empty(); }
    // The transfer does not wait any more.
    void forget(Outgoing& transfer) { std::erase(waiting_, &transfer); }
    // The next transfer that waits for memory that cannot be registered for a while; null:
    // none.
    Outgoing* starved() const;
    // A flush that was to take memory from the transfer is complete.
    void take_back(Outgoing& transfer);
    // The transfer is over.
    void give_back(Outgoing& transfer);

    // See Rendezvous::make_early_copy() and Rendezvous::drop_early_copy().
    uint64_t make_early_copy(Channel& channel, const Announced& message);
    void drop_early_copy(uint64_t number);
    // Gives the transfer the early copy of the memory fetched, if there is one.
    void take_early_copy(Outgoing& transfer, const Fetch& frame);
    // The channel is over.
    void drop_early_copies(const Channel& channel);

    uint32_t slots() const { return rings_.slots(); }
    uint64_t registered_bytes() const { return rings_.registered_bytes(); }

  private:
    bool lend(Outgoing& transfer);
    void reclaim(std::span<Outgoing* const> running);
    void drop(const EarlyCopy& copy);

    Engine& engine_;
    const TransferMemory& memory_;
    const TransferAccounts& accounts_;
    const Decider& decider_;
    const RendezvousSettings& settings_;
    RendezvousCounters& counters_;
    ProgressBudget& budget_;
    RingPool rings_;
    std::deque<Outgoing*> waiting_;
    EarlyCopies early_copies_;
};

}  // namespace tern
