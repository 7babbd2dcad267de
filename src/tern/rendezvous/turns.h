// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "tern/rendezvous/progress_budget.h"

namespace tern {

// The transfers of one half whose bytes are being moved. They take turns: if the budget of one call
// of progress is too small for all, the next call begins where it was spent. Pure.
template <class T>
class Turns {
  public:
    explicit Turns(const ProgressBudget& budget) : budget_(budget) {}

    bool empty() const { return transfers_.empty(); }
    auto begin() const { return transfers_.begin(); }
    auto end() const { return transfers_.end(); }
    void add(T& transfer) { transfers_.push_back(&transfer); }
    // Returns how many were removed: one, or none.
    size_t remove(T& transfer) { return std::erase(transfers_, &transfer); }

    // Moves each transfer on by `step(transfer)`, which returns how much there was to do. Returns
    // the sum. The step may remove its transfer, and a completion calls the user, who may begin
    // others.
    template <class Step>
    unsigned advance(Step&& step) {
        unsigned count = 0;
        size_t at = budget_.behind() ? next_ : 0;
        for (size_t left = transfers_.size(); left != 0 && !transfers_.empty(); --left) {
            if (at >= transfers_.size()) at = 0;
            T& transfer = *transfers_[at];
            const bool late = budget_.over();
            count += step(transfer);
            // If the transfer is over, the next one has taken its place.
            const size_t was = at;
            if (at < transfers_.size() && transfers_[at] == &transfer) ++at;
            // A registration that did not fit in comes first in the next call.
            if (!late && budget_.over()) next_ = budget_.put_off() ? was : at;
        }
        return count;
    }

  private:
    const ProgressBudget& budget_;
    std::vector<T*> transfers_;
    size_t next_ = 0;  // comes first if the last budget was too small
};

struct Channel;

// What waits, of several peers: that of one peer in order, and the peers in turn, so that a peer
// with much to wait, or with what makes no progress, holds up its own only. Pure.
template <class T>
class PeerTurns {
  public:
    struct Peer {
        Channel* channel = nullptr;
        std::deque<T> waiting;  // never empty
    };

    bool empty() const { return peers_.empty(); }
    size_t count(const Channel& channel) const {
        const auto peer = find(peers_, channel);
        return peer != peers_.end() ? peer->waiting.size() : 0;
    }
    void push(Channel& channel, const T& what) {
        const auto peer = find(peers_, channel);
        if (peer != peers_.end())
            peer->waiting.push_back(what);
        else
            peers_.push_back({&channel, {what}});
    }
    // The first peer in turn for which `may(channel)` is true; null: none.
    template <class May>
    const Peer* next(May&& may) const {
        const auto peer = std::find_if(peers_.begin(), peers_.end(),
                                       [&](const Peer& each) { return may(*each.channel); });
        return peer != peers_.end() ? &*peer : nullptr;
    }
    // What comes next of the first peer in turn. Something must wait.
    const T& front() const { return peers_.front().waiting.front(); }
    // Removes and returns the first of a peer, of which something waits; the peer comes last from
    // now on.
    T pop(const Channel& channel) {
        const auto peer = find(peers_, channel);
        TERN_ASSERT(peer != peers_.end());
        const T first = peer->waiting.front();
        peer->waiting.pop_front();
        Peer last = std::move(*peer);
        peers_.erase(peer);
        if (!last.waiting.empty()) peers_.push_back(std::move(last));
        return first;
    }
    // Removes it if it waits.
    void remove(const Channel& channel, const T& what) {
        const auto peer = find(peers_, channel);
        if (peer == peers_.end()) return;
        // When a channel ends, its transfers end in about this order.
        const auto at = std::find(peer->waiting.begin(), peer->waiting.end(), what);
        if (at != peer->waiting.end()) peer->waiting.erase(at);
        if (peer->waiting.empty()) peers_.erase(peer);
    }
    // Removes all of a peer, and returns how much it was.
    size_t forget(const Channel& channel) {
        const size_t number = count(channel);
        if (number != 0) peers_.erase(find(peers_, channel));
        return number;
    }
    // Removes that for which `is(what)` is true, and returns how much it was.
    template <class Is>
    size_t erase_if(Is&& is) {
        size_t number = 0;
        for (Peer& peer : peers_) number += std::erase_if(peer.waiting, is);
        std::erase_if(peers_, [](const Peer& peer) { return peer.waiting.empty(); });
        return number;
    }

  private:
    template <class Peers>
    static auto find(Peers& peers, const Channel& channel) {
        return std::find_if(peers.begin(), peers.end(),
                            [&](const Peer& peer) { return peer.channel == &channel; });
    }

    std::deque<Peer> peers_;  // in turn
};

}  // namespace tern
