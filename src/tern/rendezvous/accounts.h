// SPDX-License-Identifier: BSD-3-Clause
// The beginning and the end of each transfer of an interface, the memory that it holds in between,
// and requests that cannot begin.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>

#include "tern/engine/engine.h"
#include "tern/engine/idle_time.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/parts.h"
#include "tern/rendezvous/progress_budget.h"
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

// Counts the transfers of both halves, and reports their beginnings and ends to the engine and
// their ends to the user.
class TransferAccounts {
  public:
    TransferAccounts(Engine& engine, TransferMemory& memory, RendezvousCounters& counters,
                     RendezvousOwner& owner)
        : engine_(engine), memory_(memory), counters_(counters), owner_(owner) {}
    TransferAccounts(const TransferAccounts&) = delete;
    TransferAccounts& operator=(const TransferAccounts&) = delete;

    uint64_t begun() const { return begun_; }  // transfers, so far
    // Operations of this side's users under way.
    uint32_t users() const { return static_cast<uint32_t>(work_); }
    // Whether there are any, or requests of peers that wait for a place.
    bool any_work() const { return work_ != 0; }
    // Whether there are neither such requests nor transfers of any kind.
    bool none() const { return transfers_ == 0 && work_ == 0; }
    uint32_t running() const { return running_; }  // transfers whose bytes are being moved

    void begin(Transfer& transfer, Channel& channel, const Waiter& waiter);
    // The transfer is an operation of this side's user, on the peer's memory.
    void begin_operation(Transfer& transfer, uint64_t address, const WireKey& key);
    // The peer asks to access this side's memory, which has been checked.
    void begin_service(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    // A request of a peer waits for a place; `count` of them do not wait any more.
    void request_waits() { work_ += kRequest; }
    void requests_taken(size_t count) {
        TERN_ASSERT(count <= work_ / kRequest);
        work_ -= count * kRequest;
    }
    void started() { ++running_; }
    // `count` of those that started() have ended.
    void stopped(size_t count) {
        TERN_ASSERT(count <= running_);
        running_ -= static_cast<uint32_t>(count);
    }
    // Ends a transfer, except for its place in the table.
    void end(Transfer& transfer);
    // Ends it for its user only, while it goes on with the peer: no device may access the memory.
    // Returns the cookie, for complete().
    void* drop(Transfer& transfer);
    // Reports the end of an operation that a user awaits. If the operation failed and has no
    // cookie, the endpoint fails, as with any write that the peer's memory does not take. A
    // canceled operation is no failure.
    void complete(bool awaited, void* cookie, Channel& channel, Status status);

    // Whether an operation of `user`, or of any user if it is null, is under way on this channel
    // that began no later than the `until`th of the interface.
    static bool pending(const Channel& channel, uint64_t until, const void* user);
    // Whether such an operation still has something to post, or needs the peer.
    static bool may_be_overtaken(const Channel& channel, uint64_t until);
    // Calls `call(transfer)` for the operations of this user on this channel, of one half. The call
    // may end the transfer, and the user, who gets a completion then, may begin others, which are
    // left out.
    template <class T, class Call>
    void for_each_of(const Channel& channel, const void* user, Call&& call) {
        const uint64_t last = begun_;
        for (cursor_ = transfers_on(channel).first;
             cursor_ != nullptr && cursor_->sequence <= last;) {
            Transfer& transfer = *std::exchange(cursor_, cursor_->later);
            if (transfer.sends == T::kSends && transfer.waiter.user == user)
                call(static_cast<T&>(transfer));
        }
    }
    // The user is destroyed, and another one may be made at its address.
    static void forget_user(const Channel& channel, const void* user);

    // Whether the memory was undeclared while the device accessed it, so that the queue pair has
    // been put into error; fails the channel then.
    bool fail_if_cut(Transfer& transfer);
    // Warns once that no ring can be registered.
    void warn_of_limit();

    // Calls of progress in a row that found nothing to do, since the last transfer began.
    uint32_t idle_calls() const { return idle_.calls(); }
    // True: peers have kept this side waiting, and may be dead.
    bool note_progress(bool any) {
        if (any) idle_.end();
        return !any && idle_.count();
    }

  private:
    void forget_operation(Transfer& transfer);

    Engine& engine_;
    TransferMemory& memory_;
    RendezvousCounters& counters_;
    RendezvousOwner& owner_;
    Transfer* cursor_ = nullptr;  // what for_each_of() looks at next
    uint64_t begun_ = 0;
    // In the low 32 bits the operations of users, above them the waiting requests of peers: each
    // call of progress looks at both.
    static constexpr uint64_t kRequest = uint64_t{1} << 32;
    uint64_t work_ = 0;
    uint32_t transfers_ = 0;  // that have begun and not ended
    uint32_t running_ = 0;
    IdleTime idle_;
    bool warned_of_limit_ = false;
};

class Refusals {
  public:
    Refusals(Engine& engine, RendezvousCounters& counters, RendezvousOwner& owner)
        : engine_(engine), counters_(counters), owner_(owner) {}
    Refusals(const Refusals&) = delete;
    Refusals& operator=(const Refusals&) = delete;

    // Refuses a peer's access that no key permits. False: more refusals wait than a peer that keeps
    // to the protocol can cause.
    bool refuse(Channel& channel, uint32_t what, uint32_t number);
    // Keeps a refusal for the next send().
    void add(Channel& channel, const Refuse& frame) { frames_[&channel].push_back(frame); }
    bool empty() const { return frames_.empty(); }
    // Sends what can be sent, and returns its number.
    unsigned send();
    // The channel is over.
    void forget(Channel& channel) { frames_.erase(&channel); }

  private:
    static constexpr uint32_t kMost = 1 << 17;  // that wait, for one peer

    Engine& engine_;
    RendezvousCounters& counters_;
    RendezvousOwner& owner_;
    std::map<Channel*, std::deque<Refuse>> frames_;  // of each channel, in order
    bool warned_ = false;
};

}  // namespace tern
