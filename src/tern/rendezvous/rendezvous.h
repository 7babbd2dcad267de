// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tern/connection/cookie.h"
#include "tern/rendezvous/flushes.h"
#include "tern/rendezvous/incoming.h"
#include "tern/rendezvous/outgoing.h"

namespace tern {

// The rendezvous of an interface: moves messages that are too long for a frame, over the engine.
// The side that has the bytes writes them; only open memory is read by the receiver's device. Large
// transfers take turns. One thread at a time.
class Rendezvous {
  public:
    Rendezvous(Engine& engine, Regions& regions, PinCache& pins, const Costs& costs,
               const RendezvousSettings& settings, RendezvousOwner& owner);
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;

    // Reads the peer's declared memory at `from`. `to`: at most Buffers::kMost pieces, not all
    // empty. `rkey`: as rkey_to_read() says. kInProgress: completed() follows, never from within
    // this call. kNoResource: not now; the same holds for the next three. `reply`: to be sent to
    // the peer when all bytes are in this side's memory, or null; only if `rkey` is 0 and the key
    // says that the peer takes replies. If the get fails, the reply is not sent.
    Status get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
               const WireKey& key, uint32_t rkey, Source source, const Waiter& waiter,
               const Reply* reply = nullptr);
    // The rkey to read the peer's memory with, for get(); 0: the peer is to write. `open`: of open
    // memory, or 0; `of_message`: of a message's, or 0. Open memory is read whatever else is known,
    // so only others are a matter of kRules (decision.cc), which would cost short gets
    // instructions.
    uint32_t rkey_to_read(uint32_t open, uint32_t of_message,
                          std::span<const Buffers::Piece> to) const {
        return open != 0 || of_message == 0 || !reads(to) ? open : of_message;
    }
    // A get into memory that the rendezvous allocates. If the transfer succeeds, `unpack` gets
    // the bytes before the cookie, if any, is completed. kDevice: out of memory.
    Status get_owned(Channel& channel, size_t length, uint64_t from, const WireKey& key,
                     uint32_t rkey, Unpack unpack, void* argument, const Waiter& waiter);
    // Writes to the peer's declared memory at `to`. When the cookie is completed, the bytes are in
    // the peer's memory. `rkey`: of memory that is open to writes, or 0.
    Status put(Channel& channel, std::span<const Buffers::Piece> from, uint64_t to,
               const WireKey& key, uint32_t rkey, const Waiter& waiter);
    // A put that takes ownership of the bytes. kOk: begun; only a flush waits for its end.
    Status put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                     uint64_t to, const WireKey& key);
    // Copies the first chunk of a message whose request to send has just been sent to the peer, if
    // the message will probably be staged and a ring is free. The message must not change until it
    // is over, its region must be declared, and nobody may have the region's key but the receivers
    // of messages. Returns the number for drop_early_copy(), or 0 if there is no copy. Data path.
    uint64_t make_early_copy(Channel& channel, const Announced& message) {
        return outgoing_.make_early_copy(channel, message);
    }
    // To be called when the message is over, if that is known. No effect if the copy has been used
    // or dropped.
    void drop_early_copy(uint64_t number) { outgoing_.drop_early_copy(number); }
    // kOk: all operations begun on this channel so far are over, and all that was sent has arrived.
    // kInProgress: the waiter, if any, is completed when this is so.
    Status flush(Channel& channel, const Waiter& waiter);
    // A flush of a user that begins nothing more, on a channel that stays for others: waits only
    // for its own operations. Those whose memory no device accesses, because they wait for the
    // peer, are dropped. They and the user's earlier flushes end as canceled.
    Status flush_by_force(Channel& channel, const Waiter& waiter);
    bool idle() const { return accounts_.users() == 0; }
    // For fences: the number of operations begun so far, on all channels; and whether an operation
    // that was begun on this channel, no later than the `until`th, still has something to post or
    // needs the peer, so that something sent now might overtake it. A read that has been posted
    // cannot be overtaken.
    uint64_t begun() const { return accounts_.begun(); }
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    // Whether operations of this side's users are under way on this channel.
    bool busy(const Channel& channel) const {
        return accounts_.users() != 0 &&
               TransferAccounts::pending(channel, accounts_.begun(), nullptr);
    }
    // A user leaves the channel: ends its flushes. Its operations continue.
    void cancel_flushes(const Channel& channel, const void* user) {
        TransferAccounts::forget_user(channel, user);
        flushes_.cancel(channel, user, owner_);
    }
    // Whether an operation on this channel could begin now.
    bool can_begin(const Channel& channel) const {
        return engine_.may_begin(channel) && has_room();
    }
    bool has_room() const { return incoming_.has_room() && outgoing_.has_room(); }

    // Prepares for sleep. Adds to `words` the flags in memory that transfers wait for, because no
    // event reports them. kInProgress: call progress() first.
    Status arm(std::vector<Watched>& words);
    // Whether progress() would do anything.
    [[gnu::always_inline]] bool has_work() const {
        return pins_.has_changes() || !nothing_begun() || budget_.is_changed();
    }
    unsigned progress() {
        pins_.progress();
        const unsigned count = nothing_begun() || quiet() ? 0 : advance();
        budget_.renew();
        return count;
    }

    // Called by the engine.
    static bool is_cookie(const void* cookie) {
        const CookieKind kind = kind_of(cookie);
        return kind == CookieKind::kWrite || kind == CookieKind::kRead;
    }
    void done(void* cookie, Status status);
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    bool notified(Channel& channel, uint32_t immediate) {
        return incoming_.notified(channel, immediate);
    }
    // Ends the transfers and flushes of a channel that is over. Returns the status for its
    // endpoints.
    Status ended(Channel& channel, Status status);
    // Ends all transfers at once: all channels have failed, and a call was left by an exception, so
    // nobody knows what the transfers would do next.
    void break_down();

    // How often transfers have been looked at, to move them on.
    uint64_t steps() const { return incoming_.steps() + outgoing_.steps(); }
    const CostModel& model() const { return decider_.model(); }
    const RendezvousCounters& counters() const { return counters_; }
    const Decider& decider() const { return decider_; }
    // Bytes of the longest buffer that is pinned.
    uint64_t longest_pin() const { return memory_.longest_pin(); }
    uint64_t registered_bytes() const {
        return incoming_.registered_bytes() + outgoing_.registered_bytes();
    }

  private:
    friend class RendezvousPart;
    // At most calls of progress there is nothing that could be moved on.
    bool nothing_begun() const { return accounts_.none() && refusals_.empty() && flushes_.empty(); }
    bool quiet() const {
        return !accounts_.any_work() && incoming_.quiet() && outgoing_.quiet() &&
               refusals_.empty() && flushes_.empty();
    }
    bool reads(std::span<const Buffers::Piece> to) const;
    unsigned advance();
    unsigned progress_flushes();
    bool refused(Channel& channel, const std::byte* data, uint32_t length);

    Engine& engine_;
    PinCache& pins_;
    RendezvousOwner& owner_;
    const RendezvousSettings settings_;
    Decider decider_;
    RendezvousCounters counters_;
    ProgressBudget budget_;
    TransferMemory memory_;
    TransferAccounts accounts_;
    Refusals refusals_;
    IncomingTransfers incoming_;
    OutgoingTransfers outgoing_;
    Flushes flushes_;
    uint64_t revocations_ = 0;  // those after which transfers were woken
    uint8_t turn_ = 0;  // 0: what waits comes first, 1: incoming transfers, 2: outgoing ones
};

}  // namespace tern
