// SPDX-License-Identifier: BSD-3-Clause
// Bytes that are staged: copied into registered memory, written to the receiver's ring, and copied
// out of it, in chunks that overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/assert.h"
#include "tern/engine/channel.h"
#include "tern/rendezvous/accounts.h"
#include "tern/rendezvous/early.h"
#include "tern/rendezvous/turns.h"

namespace tern {

class IncomingPins;

// Incoming transfers that wait for a ring, in turn by peer. Pure.
class RingQueue {
  public:
    bool empty() const { return turns_.empty(); }
    void push(Incoming& transfer) {
        TERN_ASSERT(!transfer.waits_for_ring);
        turns_.push(*transfer.channel, &transfer);
        transfer.waits_for_ring = true;
    }
    // The first transfer of the first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    Incoming* next(May&& may) const {
        const auto* const peer = turns_.next(may);
        return peer != nullptr ? peer->waiting.front() : nullptr;
    }
    // Removes the transfer that next() has returned, since it need not wait any more; its peer
    // comes last from now on.
    void pop(Incoming& transfer) {
        transfer.waits_for_ring = false;
        [[maybe_unused]] const Incoming* const first = turns_.pop(*transfer.channel);
        TERN_ASSERT(first == &transfer);
    }
    // Removes the transfer if it waits.
    void remove(Incoming& transfer) {
        if (!transfer.waits_for_ring) return;
        transfer.waits_for_ring = false;
        turns_.remove(*transfer.channel, &transfer);
    }
    // Removes the transfers for which `is(transfer)` is true, and returns their number.
    template <class Is>
    size_t erase_if(Is&& is) {
        return turns_.erase_if([&](Incoming* transfer) {
            if (!is(*transfer)) return false;
            transfer->waits_for_ring = false;
            return true;
        });
    }

  private:
    PeerTurns<Incoming*> turns_;
};

// Lends rings to incoming transfers: to the peers in turn, and for each in the order of the
// requests, so that no transfer waits for ever.
class IncomingRings : RendezvousPart {
  public:
    explicit IncomingRings(const RendezvousPart& part);

    // Whether the transfer has a ring, now or from before. `may_lend`: it is its turn.
    bool lend(Incoming& transfer, bool may_lend) {
        if (transfer.ring.slots != 0) return true;
        uint32_t& held = transfers_on(*transfer.channel).rings;
        if (!may_lend || !pool_.serves(held) || !pool_.lend(transfer.ring, budget_)) return false;
        ++held;
        return true;
    }
    // Whether there will soon be a ring for the transfer, which is being made.
    bool will_come(const Incoming& transfer, bool may_lend) const {
        return may_lend && pool_.may_grow() && pool_.serves(transfers_on(*transfer.channel).rings);
    }
    // Not even a small ring could be registered: there is none for a while.
    bool cannot_register() const { return pool_.cannot_register(); }
    // The ring, if any, comes back. No work request uses it any more.
    void give_back(const Incoming& transfer) {
        if (transfer.ring.slots == 0) return;
        --transfers_on(*transfer.channel).rings;
        pool_.give_back(transfer.ring);
    }

    // The peer will write to the transfer's ring, if it has one: its flags get a new generation.
    void prepare_for_writes(Incoming& transfer);
    // This side's device reads into the transfer's ring.
    void read_into(const Incoming& transfer) { pool_.read_into(transfer.ring); }

    // Transfers that wait for a ring.
    RingQueue& queue() { return queue_; }
    bool any_waits() const { return !queue_.empty(); }
    // The next of them that may have a ring; null: none waits, or all have their share.
    Incoming* next() const {
        if (queue_.empty()) return nullptr;
        return queue_.next(
            [this](const Channel& channel) { return pool_.serves(transfers_on(channel).rings); });
    }

    uint64_t registered_bytes() const { return pool_.registered_bytes(); }

  private:
    RingPool pool_;
    RingQueue queue_;
    uint64_t generation_;  // of the flags in the ring lent last
};

// Copies outgoing transfers into staging memory, registered memory of the same layout as a ring,
// which it lends them, and writes from there to the receivers' rings.
class StagedWrites : RendezvousPart {
  public:
    StagedWrites(const RendezvousPart& part, RingPool& rings, EarlyCopier& early)
        : RendezvousPart(part), rings_(rings), early_(early) {}

    // Lends staging memory to a transfer that has none, in the order of the requests. False: the
    // transfer waits, in kWaiting.
    bool lend_or_wait(Outgoing& transfer);
    // Lends to transfers that wait, and wakes them. If some must wait longer, takes memory from
    // those that have nothing to write now.
    unsigned lend_to_waiting(Turns<Outgoing>& running);
    bool any_waiting() const { return !waiting_.empty(); }
    // The transfer, if it waits, does not any more.
    void forget(Outgoing& transfer) {
        if (transfer.state == Outgoing::State::kWaiting) std::erase(waiting_, &transfer);
    }
    // The transfer has got an early copy.
    void hold(Outgoing& transfer) { holders_.push_back(&transfer); }
    // The next transfer that waits for memory that cannot be registered for a while; null:
    // none.
    Outgoing* starved() const;
    // A flush that was to take memory from the transfer is complete.
    void take_back(Outgoing& transfer);
    // The transfer is over.
    void give_back(Outgoing& transfer);

    // Writes the chunk, or a shorter one. `in_place`: from the memory of a device, for which the
    // transfer holds a pin. False: not now.
    bool post(Outgoing& transfer, ChunkSource::Chunk& chunk, bool in_place) {
        return in_place ? post_in_place(transfer, chunk) : post_copied(transfer, chunk);
    }

  private:
    bool lend(Outgoing& transfer);
    void reclaim();
    bool post_copied(Outgoing& transfer, const ChunkSource::Chunk& chunk);
    bool post_in_place(Outgoing& transfer, ChunkSource::Chunk& chunk);
    Status write(const Outgoing& transfer, const ChunkSource::Chunk& chunk,
                 std::span<ibv_sge> pieces, void* cookie);

    RingPool& rings_;
    EarlyCopier& early_;
    std::deque<Outgoing*> waiting_;
    std::vector<Outgoing*> holders_;  // of staging memory
};

// Asks the sender to write, copies sub-blocks out of the ring, has placed parts pinned, and
// acknowledges. Does not end transfers: its owner does.
class IncomingWrites : RendezvousPart {
  public:
    IncomingWrites(const RendezvousPart& part, IncomingPins& pins)
        : RendezvousPart(part), pins_(pins) {}

    // Makes what reads the ring, and the first part that the sender is given.
    void open(Incoming& transfer);
    // Sends the fetch or the accept. False: the frame cannot be sent now.
    bool ask_sender(Incoming& transfer);
    // Moves a transfer in kAsking or kRunning on. kOver: the last acknowledgement has been sent.
    Step step(Incoming& transfer);
    // False: the frame cannot be sent now.
    bool acknowledge(Incoming& transfer);

  private:
    unsigned take_blocks(Incoming& transfer);
    bool end(Incoming& transfer);

    IncomingPins& pins_;
};

}  // namespace tern
