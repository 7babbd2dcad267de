// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <string>

#include "engine/engine.h"
#include "rendezvous/policy.h"
#include "rendezvous/transfer.h"

namespace tern {

struct MoverSettings {
    uint32_t window = 256 * 1024;  // bytes of a ring
    uint32_t windows = 16;         // at most, for receiving; as many again for sending
    uint32_t buffers = 3;          // chunks that share a ring
    Policy::Settings policy;

    uint32_t slots() const {
        return std::clamp(window / SubBlocks::kSlot, 1u, WireRing::kMostSlots);
    }
    uint32_t rings() const { return std::max(1u, windows); }
};

// What the rendezvous has done.
struct MoverCounters {
    uint64_t gets = 0;  // asked for by this side's user
    uint64_t puts = 0;
    uint64_t served = 0;  // asked for by peers
    uint64_t refused = 0;
    uint64_t superpipeline = 0;  // messages received, by scheme
    uint64_t zero_copy = 0;
    uint64_t staged_bytes = 0;  // sent
    uint64_t copied_bytes = 0;  // sent from staging memory straight to where they belong
    uint64_t gathered_bytes = 0;
    uint64_t chunks = 0;
    uint64_t window_waits = 0;
    uint64_t heads_staged = 0;   // beginnings of messages that were copied ahead
    uint64_t heads_used = 0;     // that their receivers fetched through a ring
    uint64_t heads_dropped = 0;  // the others
    uint64_t fallbacks = 0;      // memory that could not be pinned when it was to be
};

// What the owner of a mover hears.
class MoverOwner {
  public:
    // An operation, or a flush, is over.
    virtual void completed(void* cookie, Status status) = 0;
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~MoverOwner() = default;
};

// What the two halves of an interface's transfers share: what they work with, what all transfers
// count towards, and how each begins and ends.
class TransferContext {
  public:
    TransferContext(Engine& to_engine, Regions& declared, PinCache& pinned, const Policy& chosen_by,
                    const MoverSettings& set, MoverOwner& owned_by)
        : engine(to_engine),
          regions(declared),
          pins(pinned),
          policy(chosen_by),
          settings(set),
          owner(owned_by) {}
    TransferContext(const TransferContext&) = delete;
    TransferContext& operator=(const TransferContext&) = delete;

    Engine& engine;
    Regions& regions;
    PinCache& pins;
    const Policy policy;
    const MoverSettings settings;
    MoverOwner& owner;
    MoverCounters counters;
    uint64_t begun = 0;    // transfers so far
    uint32_t users = 0;    // operations of this side's users that are under way
    uint32_t running = 0;  // transfers that bytes are moved for
    uint32_t idle = 0;     // calls of progress that found nothing to do

    void begin(Transfer& transfer, Channel& channel, void* cookie);
    // This side's user asks for something of the peer's memory.
    void ask_for(Transfer& transfer, uint64_t address, const WireKey& key);
    // The peer asks for something of this memory, which has been checked.
    void serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    void release_memory(Transfer& transfer);
    // The transfer is over. Its place in the table is still its own.
    void end(Transfer& transfer);
    // An operation has ended. Where nobody waits for it the endpoint fails with it, as with any
    // write that the peer's memory does not take.
    void tell_user(bool asked, void* cookie, Channel& channel, Status status);
    // Says once that no ring can be registered.
    void warn_of_limit();

    // Declared memory, held for a transfer. Null if the key is not of such memory, or does not
    // allow this.
    RegionUse* open(const WireKey& key, uint64_t address, uint64_t length, unsigned access);
    // From now on the device accesses the memory. False: it is declared no more.
    static bool expose(Transfer& transfer, bool writes);
    // Whether the memory was undeclared while the device accessed it: the queue pair is in error
    // since.
    bool cut(Transfer& transfer);
    // What is known of contiguous memory; counts its use. If it is pinned for this access, the
    // transfer holds the pin.
    BufferState look_up(Transfer& transfer, unsigned access);
    // Nothing is pinned that would push out what comes back as well.
    bool fits(uint64_t length) const { return length <= pins.most_bytes() / 4; }
    // How much of the rest to pin. With several transfers at a time the wire is busy anyway, and it
    // is the processor that must not have more to do than necessary.
    uint64_t piece_of(uint64_t planned, uint64_t rest) const {
        if (planned == 0) return rest;
        return std::min(running <= 1 ? planned : std::max(planned, Policy::kLongestPiece), rest);
    }

    // False: there is no room now.
    template <class Frame>
    bool send(Channel& channel, TransferId id, const Frame& frame) {
        return channel.carries() &&
               engine.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
    }
    // Answers a peer that asks for memory it has no key for. False: nobody who keeps to the
    // protocol asks for so much at a time.
    bool refuse(Channel& channel, uint32_t what, uint32_t number);
    // A refusal that is sent when there is room.
    void add_refusal(Channel& channel, const Refuse& frame) {
        refusals_[&channel].push_back(frame);
    }
    unsigned send_refusals();
    bool any_refusals() const { return !refusals_.empty(); }
    void forget_refusals(Channel& channel) { refusals_.erase(&channel); }

  private:
    static constexpr uint32_t kMostRefusals = 1 << 17;  // that wait, of one peer's

    // By channel, in order.
    std::map<Channel*, std::deque<Refuse>> refusals_;
    bool warned_of_refusal_ = false;
    bool warned_of_limit_ = false;
};

// What has waited for its connection, of a list of transfers, begins: `begin(transfer)`. Returns
// how many.
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

// This side's user's, begun on this channel no later than the `until`th transfer, and not over.
inline bool is_pending(const Transfer& transfer, const Channel& channel, uint64_t until) {
    return transfer.users && transfer.channel == &channel && transfer.sequence <= until;
}

}  // namespace tern
