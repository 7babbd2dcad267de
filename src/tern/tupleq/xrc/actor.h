// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/connection/cookie.h"
#include "tern/engine/engine.h"
#include "tern/tupleq/core/action.h"
#include "tern/tupleq/xrc/binder.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/tupleq/xrc/entry_memory.h"
#include "tern/tupleq/xrc/grant_memory.h"
#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/tupleq/xrc/queues.h"
#include "tern/verbs/xrc.h"

namespace tern {

// Drains: empty messages that this process sends to its own queues. An entry can only leave a queue
// by a message.
class Drains {
  public:
    Drains(LinkTable& links, XrcQueues& queues) : links_(links), queues_(queues) {}

    enum class Result : uint8_t { kDone, kNoRoom, kFailed };
    // Sends the drains of a kDrain action; the action's count is decremented with each.
    Result send(TupleAction& action);

    // What the completion of a drain means for its queue.
    enum class Fate : uint8_t {
        kNothing,  // it has arrived, or its queue is gone
        kAgain,    // not executed: send it again, over a new link
        kLost,     // the queue cannot be drained
    };
    struct Outcome {
        Fate fate = Fate::kNothing;
        uint16_t queue = 0;
    };
    // The drain was taken from its link. May destroy the link.
    Outcome on_sent(XrcLink& link, const void* cookie, ibv_wc_status status);

    // True while a drain is on its way to a queue that is gone. A new queue might get that queue's
    // number.
    bool any_astray() const;

  private:
    // In a drain's cookie: the queue's index, and above it the generation.
    void* cookie_of(uint16_t queue) const {
        return reinterpret_cast<void*>(uintptr_t{queues_.generation(queue)} << 16 | queue);
    }
    static uint16_t queue_of(const void* cookie) {
        return static_cast<uint16_t>(reinterpret_cast<uintptr_t>(cookie));
    }
    bool is_astray(const void* cookie) const;

    LinkTable& links_;
    XrcQueues& queues_;
};

// Takes grants back without the sender's processor: writes zero over them, and then reads the
// number that the sender has announced. Control path.
class Revoker {
  public:
    // The word that a read fills, until the read is complete.
    static constexpr uint64_t kNothingRead = ~uint64_t{0};

    Revoker(Engine& engine, GrantMemory& memory) : engine_(engine), memory_(memory) {}

    // Performs a kRevoke action, whose `place` counts the grants taken back so far. False: there is
    // no room now.
    bool post(Channel& channel, const PeerWords& words, const DirectMatcher& matcher,
              TupleAction& action);

    // What the read of a queue's sender has filled so far. Any time after post().
    uint64_t announced(uint16_t queue) const {
        return __atomic_load_n(&memory_.read_word(queue), __ATOMIC_ACQUIRE);
    }

    // The queue, and the count of its kRevoke, in the cookie of a read.
    static bool is_cookie(const void* cookie) { return kind_of(cookie) == CookieKind::kRevocation; }
    static uint16_t queue_of(const void* cookie) {
        return static_cast<uint16_t>(reinterpret_cast<uintptr_t>(cookie) >> 3);
    }
    static uint32_t count_of(const void* cookie) {
        return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(cookie) >> 19);
    }

  private:
    static void* cookie_of(const TupleAction& action) {
        return make_cookie(CookieKind::kRevocation,
                           uintptr_t{action.count} << 19 | uintptr_t{action.tuple} << 3);
    }

    Engine& engine_;
    GrantMemory& memory_;
};

// Performs the actions of the core (TupleAction), in order. An action that finds no room waits, and
// with it all later ordered actions of the same peer.
class TupleActor {
  public:
    // The objects that actions use; they outlive this one.
    struct Parts {
        Engine& engine;
        TupleQOwner& owner;
        const verbs::XrcDomain& domain;
        XrcCompletions& completions;
        LinkTable& links;
        XrcQueues& queues;
        EntryMemory& memory;
        DirectMatcher& matcher;
        TupleBinder& binder;
        GrantMemory& grants;
    };
    explicit TupleActor(const Parts& parts);

    // Performs all actions that the core requests. Does nothing if it is called by an action. Data
    // path.
    void act() {
        if (!acting_ && !matcher_.actions().empty()) perform_all();
    }
    // True within a callback that an action makes.
    bool acting() const { return acting_; }
    // Performs the action, or has it wait.
    void perform_or_defer(TupleAction& action);
    bool any_deferred() const { return !waiting_.empty(); }
    // True if the peer exists and none of its actions waits.
    bool is_up_to_date(uint32_t peer) const;
    // Tries the waiting actions again; returns how many were performed.
    unsigned retry_deferred();
    // Drains for this queue have completed, or failed.
    void on_drain_sent(const Drains::Outcome& outcome, ibv_wc_status status);

    // A tuple of this peer is being bound.
    void add_peer(Channel& channel) { (void)peers_.of(channel); }
    // Bound has come. False if the peer names another memory for grants than before.
    bool learn_words(Channel& channel, const WireBound& frame);
    bool has_peer(const Channel& channel) const { return peers_.find(channel) != nullptr; }
    // The channel has ended: drops the peer's actions.
    void erase_peer(const Channel& channel);
    // Fails the channel of the tuple's sender.
    void fail_tuple(uint16_t number, Status status, const std::string& why);

    TupleQOwner& owner() { return owner_; }
    Revoker& revoker() { return revoker_; }
    Drains& drains() { return drains_; }

  private:
    struct Peer {
        Channel* channel = nullptr;
        PeerWords words;
        TupleActions later;  // actions that found no room, and ordered actions behind them
    };

    void perform_all();
    bool perform_ordered(Peer& peer, TupleAction& action);
    void perform_local(const TupleAction& action);
    bool announce(Peer& peer, const TupleAction& action);
    bool send_close(Peer& peer, const TupleAction& action);
    bool put_and_grant(Peer& peer, const TupleAction& action);
    bool drain(TupleAction& action);
    void discard(uint16_t number);

    Engine& engine_;
    TupleQOwner& owner_;
    const verbs::XrcDomain& domain_;
    XrcCompletions& completions_;
    LinkTable& links_;
    XrcQueues& queues_;
    EntryMemory& memory_;
    DirectMatcher& matcher_;
    TupleBinder& binder_;
    Drains drains_;
    Revoker revoker_;
    PeerTable<Peer> peers_;
    std::vector<Peer*> waiting_;  // peers with actions in `later`
    bool acting_ = false;
};

}  // namespace tern
