// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "tern/rendezvous/flushes.h"
#include "tern/tupleq/core/senders.h"
#include "tern/tupleq/xrc/grant_memory.h"
#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/owner.h"

namespace tern {

// The sending side of direct messages: the tuples that peers have bound, the way of each, and the
// messages under way. The data path is in send.h.
//
// A tuple at its sender (the core's TupleSenders has its numbers and grants):
//
//   unbound   Bind comes, the link to the queue is up: bind()     bound, with a route
//             Bind comes, and is refused                          unbound
//   bound     the link ends, or stop(): messages are ordinary     bound, without a route
//             Close with kUnbind comes: close()                   unbound
//             the channel ends: ended()                           unbound
class DirectSender {
  public:
    using Tuple = TupleSenders::Tuple;
    struct Counters {
        uint64_t sent = 0;  // messages
        uint64_t sent_copied = 0;
        uint64_t sent_bytes = 0;
        uint64_t unpinned = 0;  // times memory could not be registered
    };

    DirectSender(const TupleQParts& parts, LinkTable& links, GrantMemory& memory,
                 const TupleQSettings& settings);
    DirectSender(const DirectSender&) = delete;
    DirectSender& operator=(const DirectSender&) = delete;

    // Returns the tuple of a message; null if the message is ordinary. Data path. A channel that
    // has failed has no room for ordinary messages, so nothing is sent: the receiver may have
    // destroyed the queue, and another tuple's queue may have its number.
    Tuple* find(const Channel& channel, uint64_t tag) {
        if (senders_.bound() == 0 || channel.failed) return nullptr;
        return senders_.find(peer_number(channel), tag);
    }
    // True if the tuple's next message, with this tag, may be sent by one of the functions below.
    // An ordinary message of the tuple carries mark(); call that once, when the message is certain
    // to be sent.
    bool may_send(const Tuple& tuple, uint64_t tag, uint64_t length) const;
    static TupleMark mark(Tuple& tuple) { return TupleSenders::mark(tuple); }
    // At most copy_most bytes. For all send functions, kNoResource means that there is no memory,
    // or that the receiver has taken the grant back: send the message as an ordinary one.
    Status send(Channel& channel, Tuple& tuple, const void* data, uint32_t length);
    // A buffer for copy_most bytes; null if there is none. The caller sends it or gives it back;
    // after kNoResource it is still the caller's.
    SendPool::Buffer* take_buffer() {
        SendPool::Buffer* const buffer = pool_.take();
        return buffer != nullptr ? buffer : take_again();
    }
    void give_buffer(SendPool::Buffer* buffer) { pool_.give(buffer); }
    Status send(Channel& channel, Tuple& tuple, SendPool::Buffer* buffer, uint32_t length);
    // Sends from the user's memory. kInProgress: the owner's completed(cookie) follows when the
    // memory may be used again, if there is a cookie. kNoResource: also if the memory cannot be
    // registered.
    Status send_zcopy(Channel& channel, Tuple& tuple, const void* data, uint32_t length,
                      void* cookie);
    // A message on this link is complete; it was taken from the link.
    void on_sent(XrcLink& link, const TupleSend& send, ibv_wc_status status);

    // From now on sends no direct message and refuses each Bind, because the user sends some
    // messages of the same tags by another path. False: that was so already.
    bool stop();
    bool stopped() const { return stopped_; }

    // Bind has come, and the link to its queue is up. False if the peer violates the protocol.
    bool bind(Channel& channel, const WireBind& bind, XrcLink& link, TupleBound& answer);
    // Close has come. False if the peer violates the protocol.
    bool close(Channel& channel, const WireClose& close, TupleClosed& answer);

    // kOk: all messages sent so far on this channel have arrived. kInProgress: the waiter, if any,
    // gets its completion.
    // `by_force`: see Rendezvous::flush_by_force().
    Status flush(Channel& channel, const Waiter& waiter, bool by_force = false);
    bool has_flushes() const { return !flushes_.empty(); }
    unsigned progress_flushes();
    // A user leaves the channel: cancels the user's flushes.
    void cancel_flushes(const Channel& channel, const void* user) {
        flushes_.cancel(channel, user, owner_);
    }
    bool idle() const { return under_way_ == 0; }
    // For fences. sent(): the number of direct messages sent to this peer so far. arrived(): that
    // many have arrived. may_overtake(): a direct message sent now could overtake the contents of
    // this channel's send queue.
    uint64_t sent(const Channel& channel) const;
    bool arrived(const Channel& channel, uint64_t count) const;
    bool may_overtake(const Channel& channel) const {
        return senders_.bound() != 0 && peers_.find(channel) != nullptr;
    }

    // The channel ends: ends the links that it hosts.
    void end_links(const Channel& channel);
    // Closes all links, and gives up the sends under way: nothing completes any more.
    void give_up();
    bool has_peer(const Channel& channel) const { return peers_.find(channel) != nullptr; }
    // The channel has ended; all direct sends to the peer are complete. True if some message may
    // not have arrived.
    bool ended(const Channel& channel);
    void end_flushes(const Channel& channel, Status status) {
        flushes_.ended(channel, status, owner_);
    }
    uint32_t tuples_sent() const { return senders_.bound(); }
    const Counters& counters() const { return counters_; }
    uint64_t registered_bytes() const { return pool_.registered_bytes(); }

  private:
    struct Peer {
        Channel* channel = nullptr;
        uint64_t posted = 0;  // direct messages, ever
        uint64_t completed = 0;
        bool lost = false;  // some message may not have arrived
    };
    // The way of a tuple's direct messages. Without a link, messages are ordinary.
    struct Route {
        XrcLink* link = nullptr;  // never kOver
        uint32_t queue = 0;
        uint32_t nonce = 0;  // of the bind
    };

    Status post(Channel& channel, Tuple& tuple, ibv_send_wr& request, uint32_t length,
                SendPool::Buffer* buffer, Pin* pin, void* cookie);
    [[gnu::cold]] SendPool::Buffer* take_again();
    void end(XrcLink& link);

    Engine& engine_;
    Rendezvous& rendezvous_;
    PinCache& pins_;
    LinkTable& links_;
    TupleQOwner& owner_;
    const uint64_t most_bytes_;  // of a message, for the port
    SendPool pool_;
    TupleSenders senders_;
    std::vector<Route> routes_;  // by the sender's number of a tuple
    PeerTable<Peer> peers_;
    Flushes flushes_;
    uint64_t under_way_ = 0;  // direct messages
    bool stopped_ = false;
    Counters counters_;
};

}  // namespace tern
