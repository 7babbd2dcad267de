// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "connection/cookie.h"
#include "rendezvous/flushes.h"
#include "rendezvous/receives.h"
#include "rendezvous/sends.h"

namespace tern {

// Moves messages that are too long for a frame: the rendezvous of an interface, over its engine.
// The side that has the bytes writes them, and the other asks it to; only open memory is read by
// the receiver's device. Large transfers take turns. One thread at a time.
class Mover {
  public:
    Mover(Engine& engine, Regions& regions, PinCache& pins, const Policy& policy,
          const MoverSettings& settings, MoverOwner& owner);
    Mover(const Mover&) = delete;
    Mover& operator=(const Mover&) = delete;

    // Reads the peer's declared memory at `from`. kInProgress: `cookie` is told, never from within
    // this call. Pieces: at most Buffers::kMost, some bytes in all. `pinned`: that memory is, for
    // all that is known. `rkey`: of memory that is open, to be read without the peer, or 0.
    Status get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
               const WireKey& key, uint32_t rkey, bool pinned, void* cookie);
    // The same, into memory of the mover's: `unpack` gets the bytes before `cookie`, if any, is
    // told, unless it fails. kDevice: there is no memory.
    Status get_owned(Channel& channel, size_t length, uint64_t from, const WireKey& key,
                     uint32_t rkey, Unpack unpack, void* argument, void* cookie);
    // Writes to it. When `cookie` is told the bytes are there. `rkey`: of memory that is open to
    // writes without the peer, or 0.
    Status put(Channel& channel, std::span<const Buffers::Piece> from, uint64_t to,
               const WireKey& key, uint32_t rkey, void* cookie);
    // The same, of bytes that are given away; kOk: under way, and only a flush tells of the end.
    Status put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                     uint64_t to, const WireKey& key);
    // The peer has just been sent a request to fetch this memory, which does not change until that
    // is over. While it travels the first chunk is copied, if the message is likely to be staged
    // and a ring is to spare. `returns`: the memory is pinned, or soon will be. What to drop when
    // the message is over; 0: nothing. Data path.
    uint64_t make_early_copy(Channel& channel, const void* from, uint64_t length,
                             const WireKey& key, bool returns) {
        return sends_.make_early_copy(channel, from, length, key, returns);
    }
    // Nothing if that has been used, or dropped, by then.
    void drop_early_copy(uint64_t number) { sends_.drop_early_copy(number); }
    // All that was asked for on this channel so far is over: kOk. kInProgress: the waiter, if any,
    // is told, when all sent before has arrived as well.
    Status flush(Channel& channel, const Waiter& waiter);
    bool idle() const { return context_.users == 0; }
    // For fences. Operations begun so far, on all channels; and whether one of those that were
    // begun on this one, no later than the `until`th, has something to post yet, or waits for the
    // peer: what is sent now might come before. Reads that are posted count as such.
    uint64_t begun() const { return context_.begun; }
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    // Whether operations of users are under way on this channel.
    bool busy(const Channel& channel) const {
        return context_.users != 0 && pending(channel, context_.begun);
    }
    // A user of the channel leaves: his flushes are over.
    void cancel_flushes(const Channel& channel, const void* user) {
        flushes_.cancel(channel, user, context_.owner);
    }
    // An operation on this channel would be begun now.
    bool can_begin(const Channel& channel) const {
        return context_.engine.may_begin(channel) && has_room();
    }
    // One more can be begun.
    bool has_room() const { return receives_.has_room() && sends_.has_room(); }

    // For who is about to sleep. kInProgress: there is something to do first. Adds to `words` what
    // is waited for in memory: nothing else tells of it.
    Status arm(std::vector<Watched>& words);
    unsigned progress() {
        context_.pins.progress();
        return quiet() ? 0 : advance();
    }

    // From the engine.
    static bool is_cookie(const void* cookie) {
        const CookieKind kind = kind_of(cookie);
        return kind == CookieKind::kWrite || kind == CookieKind::kRead;
    }
    void done(void* cookie, Status status);
    bool control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length);
    bool notified(Channel& channel, uint32_t immediate);
    // The channel is over: so are its transfers. Returns what its endpoints are to hear.
    Status ended(Channel& channel, Status status);

    const MoverCounters& counters() const { return context_.counters; }
    uint64_t registered_bytes() const {
        return receives_.registered_bytes() + sends_.registered_bytes();
    }

  private:
    static constexpr uint32_t kIdleCheck = 1 << 14;  // looks in vain, until peers are looked at

    bool quiet() const {
        return context_.users == 0 && receives_.quiet() && sends_.quiet() &&
               !context_.any_refusals() && flushes_.empty();
    }
    unsigned advance();
    unsigned progress_flushes();
    bool pending(const Channel& channel, uint64_t until) const {
        return receives_.pending(channel, until) || sends_.pending(channel, until);
    }
    bool refused(Channel& channel, const std::byte* data, uint32_t length);

    TransferContext context_;
    Receives receives_{context_};
    Sends sends_{context_};
    Flushes flushes_;
};

}  // namespace tern
