// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "connection/cookie.h"
#include "engine/engine.h"
#include "rendezvous/early_copies.h"
#include "rendezvous/flushes.h"
#include "rendezvous/transfer.h"

namespace tern {

struct MoverSettings {
    uint32_t window = 256 * 1024;  // bytes of a ring
    uint32_t windows = 16;         // at most, for receiving; as many again for sending
    uint32_t buffers = 3;          // chunks that share a ring
    Policy::Settings policy;
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

// Moves messages that are too long for a frame: the rendezvous of an interface, over its engine.
// The side that has the bytes writes them, and the other asks it to; only open memory is read by
// the receiver's device. Large transfers take turns. One thread at a time.
class Mover {
  public:
    Mover(Engine& engine, Regions& regions, PinCache& pins, const Policy& policy,
          const MoverSettings& settings, MoverOwner& owner);
    ~Mover();
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
                             const WireKey& key, bool returns);
    // Nothing if that has been used, or dropped, by then.
    void drop_early_copy(uint64_t number);
    // All that was asked for on this channel so far is over: kOk. kInProgress: the waiter, if any,
    // is told, when all sent before has arrived as well.
    Status flush(Channel& channel, const Waiter& waiter);
    bool idle() const { return users_ == 0; }
    // For fences. Operations begun so far, on all channels; and whether one of those that were
    // begun on this one, no later than the `until`th, has something to post yet, or waits for the
    // peer: what is sent now might come before. Reads that are posted count as such.
    uint64_t begun() const { return sequence_; }
    bool may_be_overtaken(const Channel& channel, uint64_t until) const;
    // Whether operations of users are under way on this channel.
    bool busy(const Channel& channel) const { return users_ != 0 && pending(channel, sequence_); }
    // A user of the channel leaves: his flushes are over.
    void cancel_flushes(const Channel& channel, const void* user) {
        flushes_.cancel(channel, user, owner_);
    }
    // An operation on this channel would be begun now.
    bool can_begin(const Channel& channel) const {
        return engine_.may_begin(channel) && has_room();
    }
    // One more can be begun.
    bool has_room() const {
        return (incoming_.size() < kMostTransfers || !free_incoming_.empty()) &&
               (outgoing_.size() < kMostTransfers || !free_outgoing_.empty());
    }

    // For who is about to sleep. kInProgress: there is something to do first. Adds to `words` what
    // is waited for in memory: nothing else tells of it.
    Status arm(std::vector<Watched>& words);
    unsigned progress() {
        pins_.progress();
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

    const MoverCounters& counters() const { return counters_; }
    uint64_t registered_bytes() const {
        return rings_.registered_bytes() + staging_.registered_bytes();
    }

  private:
    static constexpr uint32_t kBlocksAtOnce = 16;  // taken of one transfer before the next's turn
    static constexpr uint32_t kWritesAtOnce = 2;   // the same for sending
    static constexpr uint64_t kDirectWrite = 512 * 1024;  // bytes of one
    static constexpr uint32_t kIdleCheck = 1 << 14;      // looks in vain, until peers are looked at
    static constexpr uint32_t kPatience = 1 << 14;       // the same for a ring
    static constexpr uint32_t kIdleAck = 256;            // until what is owed is acknowledged
    static constexpr uint32_t kMostTransfers = 1 << 16;  // of each kind: ids have 16 bits for it
    static constexpr uint32_t kMostRefusals = 2 * kMostTransfers;  // that wait, of one peer's

    bool quiet() const {
        return users_ == 0 && receiving_.empty() && sending_.empty() && offers_.empty() &&
               waiting_.empty() && waiting_to_send_.empty() && refusals_.empty() &&
               flushes_.empty() && failures_.empty();
    }
    unsigned advance();
    void look_at_peers();
    unsigned do_without_rings();

    // mover.cc
    template <class T>
    static T* take(std::vector<std::unique_ptr<T>>& table, std::vector<uint32_t>& free);
    template <class Frame>
    bool send(Channel& channel, TransferId id, const Frame& frame);
    void begin(Transfer& transfer, Channel& channel, void* cookie);
    void ask_for(Transfer& transfer, uint64_t address, const WireKey& key);
    unsigned begin_connected();
    void serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    static bool lend(Transfer& transfer, bool writes);
    bool cut(Transfer& transfer);
    BufferState look_up(Transfer& transfer, unsigned access);
    bool fits(uint64_t length) const;
    void release_memory(Transfer& transfer);
    void end(Transfer& transfer);
    void tell(bool users, void* cookie, Channel& channel, Status status);
    void tell_of_limit();
    bool refuse(Channel& channel, uint32_t what, uint32_t number);
    bool refused(Channel& channel, const std::byte* data, uint32_t length);
    unsigned send_refusals();
    unsigned progress_flushes();
    bool pending(const Channel& channel, uint64_t until) const;
    RegionUse* open(const WireKey& key, uint64_t address, uint64_t length, unsigned access);

    // mover_receive.cc
    Incoming* take_incoming();
    void receive(Incoming& transfer);
    Plan plan(Incoming& transfer);
    bool start(Incoming& transfer, bool may_lend);
    bool lend_ring(Incoming& transfer, bool may_lend);
    bool ask(Incoming& transfer);
    unsigned step(Incoming& transfer);
    unsigned take_blocks(Incoming& transfer);
    unsigned more(Incoming& transfer);
    unsigned complete(Incoming& transfer);
    bool acknowledge(Incoming& transfer);
    bool out_of_rings(Incoming& transfer);
    bool give_up(Incoming& transfer);
    bool delivery(Channel& channel, const std::byte* data, uint32_t length);
    bool finish(Channel& channel, const std::byte* data, uint32_t length);
    Incoming* incoming(const Channel& channel, uint32_t number);
    void over(Incoming& transfer, Status status);

    // mover_pin.cc
    uint64_t piece_of(uint64_t planned, uint64_t rest) const;
    Part pin_next(Incoming& transfer);
    Pin* pin(std::byte* at, uint64_t length);
    static Part direct_part(const Pin& pin, const std::byte* at, uint64_t length);
    bool prepare(Outgoing& transfer, uint64_t upto);
    void plan_source(Outgoing& transfer, const Sender::Chunk& chunk);
    bool pin_source(Outgoing& transfer, Sender::Chunk& chunk);
    void pin_behind(Outgoing& transfer, uint64_t offset);
    unsigned pin_ahead(Outgoing& transfer);

    // mover_read.cc
    bool start_reading(Incoming& transfer, bool may_lend);
    unsigned read_more(Incoming& transfer);
    void have_read(Incoming::Read& read, Status status);

    // mover_early_copy.cc
    void drop(const EarlyCopy& copy);
    void take_early_copy(Outgoing& transfer, const Fetch& frame);

    // mover_send.cc
    Outgoing* take_outgoing();
    void offer(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey);
    void offer(Outgoing& transfer);
    unsigned make_offers();
    Outgoing* offered(const Channel& channel, uint32_t number);
    bool fetch(Channel& channel, const std::byte* data, uint32_t length);
    bool accepted(Channel& channel, const std::byte* data, uint32_t length);
    bool part(Channel& channel, const std::byte* data, uint32_t length);
    bool ack(Channel& channel, const std::byte* data, uint32_t length);
    bool run(Outgoing& transfer, const WireRing& ring, const WirePart& first);
    bool stage(Outgoing& transfer);
    bool lend_staging(Outgoing& transfer);
    void reclaim_staging();
    void take_staging_back(Outgoing& transfer);
    unsigned lend_to_waiting();
    unsigned step(Outgoing& transfer);
    bool withdraw(Outgoing& transfer);
    bool post_staged(Outgoing& transfer, const Sender::Chunk& chunk);
    bool post_direct(Outgoing& transfer, Sender::Chunk& chunk);
    bool write_direct(Outgoing& transfer, const Sender::Chunk& chunk, const std::byte* from,
                      uint32_t lkey, Outgoing::Write& write);
    void written(Outgoing::Write& write, Status status);
    Outgoing* outgoing(const Channel& channel, uint32_t receiver);
    void over(Outgoing& transfer, Status status);

    Engine& engine_;
    Regions& regions_;
    PinCache& pins_;
    Policy policy_;
    MoverSettings settings_;
    MoverOwner& owner_;
    RingPool rings_;
    RingPool staging_;
    uint64_t generation_;  // of the last ring lent: of the flags in it
    uint64_t sequence_ = 0;
    uint32_t idle_ = 0;   // calls of advance() that found nothing
    uint32_t waits_ = 0;  // the same, no ring
    uint32_t users_ = 0;  // operations of this side's users
    bool told_refusal_ = false;
    bool told_rings_ = false;

    std::vector<std::unique_ptr<Incoming>> incoming_;
    std::vector<uint32_t> free_incoming_;
    std::vector<std::unique_ptr<Outgoing>> outgoing_;
    std::vector<uint32_t> free_outgoing_;
    std::deque<Incoming*> early_gets_;       // of users, whose channels are not up yet
    std::deque<Outgoing*> early_puts_;       // the same
    std::vector<Incoming*> receiving_;       // from asking on
    std::deque<Incoming*> waiting_;          // for a ring
    std::deque<Outgoing*> offers_;           // to be made
    std::vector<Incoming*> failures_;        // to be told
    std::deque<Outgoing*> waiting_to_send_;  // for staging memory
    std::vector<Outgoing*> sending_;         // and waiting for the last acknowledgement
    // That there is no room for yet, in order.
    std::map<Channel*, std::deque<Refuse>> refusals_;
    EarlyCopies early_copies_;
    Flushes flushes_;
    MoverCounters counters_;
};

// Null if there are too many.
template <class T>
T* Mover::take(std::vector<std::unique_ptr<T>>& table, std::vector<uint32_t>& free) {
    if (free.empty()) {
        if (table.size() >= kMostTransfers) return nullptr;
        free.push_back(static_cast<uint32_t>(table.size()));
        table.push_back(std::make_unique<T>());
        table.back()->number = free.back();
    }
    T* transfer = table[free.back()].get();
    free.pop_back();
    return transfer;
}

// False: there is no room now.
template <class Frame>
bool Mover::send(Channel& channel, TransferId id, const Frame& frame) {
    return channel.carries() &&
           engine_.send_control(channel, static_cast<ControlId>(id), &frame, sizeof(frame));
}

}  // namespace tern
