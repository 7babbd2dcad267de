// SPDX-License-Identifier: BSD-3-Clause
// The users' memory that transfers access: the rights to it, and its pins.
#pragma once

#include <cstdint>

#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/progress_budget.h"
#include "tern/rendezvous/rendezvous_owner.h"
#include "tern/rendezvous/transfer.h"

namespace tern {

// Opens declared memory for peers, and finds and makes pins, whose time is taken from the budget of
// the call of progress.
class TransferMemory {
  public:
    TransferMemory(Regions& regions, PinCache& pins, const Decider& decider, ProgressBudget& budget,
                   RendezvousCounters& counters)
        : regions_(regions), pins_(pins), decider_(decider), budget_(budget), counters_(counters) {}
    TransferMemory(const TransferMemory&) = delete;
    TransferMemory& operator=(const TransferMemory&) = delete;

    // Holds declared memory for a transfer. Null: the key is invalid, or does not permit this.
    RegionUse* open(const WireKey& key, uint64_t address, uint64_t length, unsigned access);
    // The transfer accesses what open() has returned.
    void serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    // The device accesses the memory from now on. False: it has been undeclared.
    static bool expose(Transfer& transfer, bool writes);
    // Gives back all memory and all pins of a transfer.
    void release(Transfer& transfer);
    void release(Pin* pin) { pins_.release(pin); }

    // Looks up contiguous memory and counts a use of it. If it is pinned for this access, the
    // transfer holds the pin.
    BufferState look_up(Transfer& transfer, unsigned access);
    // Whether contiguous memory is a device's; if so, the transfer holds its pin.
    bool is_of_device(Transfer& transfer);
    // What is known of a buffer; no use is counted, and no pin is looked for.
    BufferState state_of(const Buffers::Piece& buffer) const;
    // Gives up pins that are not in use, of so many bytes if there are as many. False: of none.
    bool make_room(uint64_t bytes) const { return pins_.give_up(bytes); }
    uint64_t revocations() const { return regions_.revocations(); }
    uint64_t longest_pin() const { return tern::longest_pin(pins_); }
    bool fits(uint64_t length) const { return length <= longest_pin(); }

    // The pin of this memory. Null: it is not pinned, or the budget is spent.
    Pin* find(std::byte* at, uint64_t length, unsigned access);
    // Like find(), but registers the memory. Null: it cannot be pinned.
    // ProgressBudget::may_register() is for the caller to ask.
    Pin* pin(std::byte* at, uint64_t length, unsigned access);

  private:
    uint32_t note(const std::byte* at, size_t length);

    Regions& regions_;
    PinCache& pins_;
    const Decider& decider_;
    ProgressBudget& budget_;
    RendezvousCounters& counters_;
};

}  // namespace tern
