// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "engine/engine.h"
#include "rendezvous/policy.h"
#include "rendezvous/progress_budget.h"
#include "rendezvous/ring_pool.h"
#include "rendezvous/transfer.h"

namespace tern {

struct RendezvousSettings {
    uint32_t ring_bytes = 256 * 1024;
    uint32_t rings = 16;  // most rings to receive into; as many again to send from
    uint32_t chunks_per_ring = 3;
    Policy::Settings policy;

    uint32_t ring_slots() const {
        return std::clamp(ring_bytes / SubBlocks::kSlot, 1u, WireRing::kMostSlots);
    }
    uint32_t most_rings() const { return std::max(1u, rings); }
};

struct RendezvousCounters {
    uint64_t gets = 0;  // asked for by this side's user
    uint64_t puts = 0;
    uint64_t served = 0;  // asked for by peers, gets and puts
    uint64_t refused = 0;
    uint64_t replies = 0;        // sent with the end of a transfer
    uint64_t waits = 0;          // served too late: the peer had to wait
    uint64_t superpipeline = 0;  // messages received, by scheme
    uint64_t zero_copy = 0;
    uint64_t staged_bytes = 0;  // sent
    uint64_t copied_bytes = 0;  // sent from staging memory to their final place
    uint64_t gathered_bytes = 0;
    uint64_t chunks = 0;
    uint64_t ring_waits = 0;
    uint64_t early_copies_made = 0;
    uint64_t early_copies_used = 0;  // a message was fetched from them
    uint64_t early_copies_dropped = 0;
    uint64_t fallbacks = 0;  // memory that could not be pinned when it should have been
};

// Callbacks of a rendezvous.
class RendezvousOwner {
  public:
    // An operation, or a flush, is over.
    virtual void completed(void* cookie, Status status) = 0;
    // The active message that a peer has sent with the end of its get. `data` is valid during the
    // call.
    virtual void replied(uint32_t id, const std::byte* data, uint32_t length) = 0;
    // A peer has fetched memory; it had to wait for this side if `waited`.
    virtual void fetched(bool waited) = 0;
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~RendezvousOwner() = default;
};

// Shared by both halves of an interface's transfers: references, settings, counters, and the
// beginning and end of each transfer.
class TransferContext {
  public:
    TransferContext(Engine& the_engine, Regions& the_regions, PinCache& the_pins,
                    const Policy& the_policy, const RendezvousSettings& the_settings,
                    RendezvousOwner& the_owner)
        : engine(the_engine),
          regions(the_regions),
          pins(the_pins),
          policy(the_policy),
          settings(the_settings),
          owner(the_owner) {}
    TransferContext(const TransferContext&) = delete;
    TransferContext& operator=(const TransferContext&) = delete;

    Engine& engine;
    Regions& regions;
    PinCache& pins;
    const Policy policy;
    const RendezvousSettings settings;
    RendezvousOwner& owner;
    RendezvousCounters counters;
    ProgressBudget budget{policy.model().costs()};
    SchemeTimings timings;
    uint64_t begun = 0;    // transfers begun so far
    uint32_t users = 0;    // operations of this side's users that are under way
    uint32_t running = 0;  // transfers whose bytes are being moved
    uint32_t idle = 0;     // calls of progress in a row that found nothing to do

    void begin(Transfer& transfer, Channel& channel, void* cookie);
    // This side's user asks to access the peer's memory.
    void ask_for(Transfer& transfer, uint64_t address, const WireKey& key);
    // The peer asks to access this side's memory, which has been checked.
    void serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    void release_memory(Transfer& transfer);
    // Ends a transfer, except for its place in the table.
    void end(Transfer& transfer);
    // Reports the end of an operation that a user asked for. If it failed and has no cookie, the
    // endpoint fails, as with any write that the peer's memory does not take.
    void tell_user(bool asked, void* cookie, Channel& channel, Status status);
    // Warns once that no ring can be registered.
    void warn_of_limit();

    // Holds declared memory for a transfer. Null: the key is invalid, or does not permit this.
    RegionUse* open(const WireKey& key, uint64_t address, uint64_t length, unsigned access);
    // The device accesses the memory from now on. False: it has been undeclared.
    static bool expose(Transfer& transfer, bool writes);
    // Whether the memory was undeclared while the device accessed it, so that the queue pair has
    // been put into error; fails the channel then.
    bool cut(Transfer& transfer);
    // Looks up contiguous memory and counts a use of it. If it is pinned for this access, the
    // transfer holds the pin.
    BufferState look_up(Transfer& transfer, unsigned access);
    uint64_t longest_pin() const { return pins.longest(); }
    bool fits(uint64_t length) const { return length <= longest_pin(); }
    // How much of the `rest` from `at` on to pin next, by the plan's `piece` and `again`.
    uint64_t piece_of(uint64_t piece, bool again, const std::byte* at, uint64_t rest) const;
    // Lends a ring. If none is free, works on another one, as a part of this turn's work. False:
    // there is none now; if the pool may still grow, there will be one soon.
    bool lend(RingPool& rings, RingPool::Ring& ring);
    // Looks whether memory is pinned, as a part of this turn's work. Null: it is not, or the turn
    // is over.
    Pin* find(std::byte* at, uint64_t length, unsigned access);
    // Pins memory, as a part of this turn's work. Null: it cannot be pinned.
    // ProgressBudget::may_register() is for the caller to ask.
    Pin* pin(std::byte* at, uint64_t length, unsigned access);

    // False: the frame cannot be sent now.
    bool send(Channel& channel, TransferId id, const void* frame, uint32_t length,
              bool of_user = false) {
        return channel.carries() &&
               engine.send_control(channel, static_cast<ControlId>(id), frame, length, of_user);
    }
    template <class Frame>
    bool send(Channel& channel, TransferId id, const Frame& frame) {
        return send(channel, id, &frame, sizeof(frame));
    }
    // Refuses a peer's access that no key permits. False: more refusals wait than a peer that keeps
    // to the protocol can cause.
    bool refuse(Channel& channel, uint32_t what, uint32_t number);
    // Keeps a refusal until it can be sent.
    void add_refusal(Channel& channel, const Refuse& frame) {
        refusals_[&channel].push_back(frame);
    }
    unsigned send_refusals();
    bool any_refusals() const { return !refusals_.empty(); }
    void forget_refusals(Channel& channel) { refusals_.erase(&channel); }

  private:
    uint32_t note(const std::byte* at, size_t length);
    void grow(RingPool& rings);

    static constexpr uint32_t kMostRefusals = 1 << 17;  // that wait, for one peer

    // For each channel, in order.
    std::map<Channel*, std::deque<Refuse>> refusals_;
    bool warned_of_refusal_ = false;
    bool warned_of_limit_ = false;
};

// Begins, by `begin(transfer)`, the transfers that have waited for a connection that is up now.
// Returns their number.
template <class Transfers, class Begin>
unsigned take_connected(Transfers& transfers, Begin&& begin) {
    unsigned count = 0;
    for (size_t i = 0; i < transfers.size();) {
        auto& transfer = *transfers[i];
        if (!transfer.channel->up()) {
            ++i;
            continue;
        }
        transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
        begin(transfer);
        ++count;
    }
    return count;
}

}  // namespace tern
