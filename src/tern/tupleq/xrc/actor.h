// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tern/engine/engine.h"
#include "tern/tupleq/xrc/binder.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/tupleq/xrc/drains.h"
#include "tern/tupleq/xrc/entry_memory.h"
#include "tern/tupleq/xrc/grant_memory.h"
#include "tern/tupleq/xrc/link_table.h"
#include "tern/tupleq/xrc/messages.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/tupleq/xrc/queues.h"
#include "tern/tupleq/xrc/revoker.h"
#include "tern/tupleq/xrc/table.h"
#include "tern/verbs/xrc.h"

namespace tern {

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
