// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "common/assert.h"
#include "common/make_room.h"
#include "tern/rendezvous/progress_budget.h"

namespace tern {

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
    // Calls `call(first)` for the first of each peer, and again as long as the call returns true:
    // it has removed it. Returns how often.
    template <class Call>
    unsigned move_firsts(Call&& call) {
        unsigned number = 0;
        for (size_t i = 0; i < peers_.size();) {
            if (call(peers_[i].waiting.front()))
                ++number;
            else
                ++i;
        }
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

// What a step of a transfer leaves to do.
enum class Next : uint8_t {
    kAgain,    // there may be more to do, or to poll for, in the next call of progress
    kOnEvent,  // a frame, a completion, or another transfer wakes it
    kOnRoom,   // what it has to post or to send finds no room on its channel
    kOver,     // the transfer is not there any more
};

struct Step {
    unsigned count = 0;  // of what has been done
    Next next = Next::kAgain;
};

// The place of a transfer among those of Turns.
struct Turn {
    static constexpr uint32_t kNone = UINT32_MAX;

    uint32_t ready = kNone;       // index
    bool runs = false;            // has been added
    bool woken = false;           // since its last step began
    bool waits_for_room = false;  // is in the queue of its channel
};

// The transfers of one half whose bytes are being moved. Each call of progress steps those that are
// ready, and of those that wait for room the first of each channel; the others wait for events.
// They take turns: if the budget of one call is too small for all, the next call begins where it
// was spent. Pure.
template <class T>
class Turns {
  public:
    explicit Turns(const ProgressBudget& budget) : budget_(budget) {}

    bool empty() const { return size_ == 0; }
    uint64_t steps() const { return steps_; }  // so far
    void add(T& transfer) {
        TERN_ASSERT(!transfer.turn.runs);
        base::make_room(ready_, ready_.size() + 1);  // an exception leaves nothing behind
        transfer.turn.runs = true;
        ++size_;
        wake(transfer);
    }
    // Returns how many were removed: one, or none.
    size_t remove(T& transfer) {
        if (!transfer.turn.runs) return 0;
        rest(transfer);
        if (transfer.turn.waits_for_room) for_room_.remove(*transfer.channel, &transfer);
        transfer.turn = {};
        --size_;
        return 1;
    }
    // An event: the transfer, if it is here, is ready.
    void wake(T& transfer) {
        Turn& turn = transfer.turn;
        turn.woken = true;
        if (!turn.runs || turn.ready != Turn::kNone) return;
        ready_.push_back(&transfer);
        turn.ready = static_cast<uint32_t>(ready_.size() - 1);
    }
    // An event: moves the transfer on by `step(transfer)`, at once unless others come first.
    template <class Stepper>
    void move_now(T& transfer, Stepper&& step) {
        if (budget_.behind())
            wake(transfer);
        else
            move(transfer, step);
    }
    // Moves the transfer on at once, whatever comes first.
    template <class Stepper>
    Step move(T& transfer, Stepper&& step) {
        ++steps_;
        transfer.turn.woken = false;
        const Step done = step(transfer);
        if (done.next == Next::kOver) return done;
        Turn& turn = transfer.turn;
        if (done.next == Next::kAgain) {
            wake(transfer);
        } else if (!turn.woken) {
            rest(transfer);
        }
        if (done.next == Next::kOnRoom && turn.runs && !turn.waits_for_room) {
            for_room_.push(*transfer.channel, &transfer);
            turn.waits_for_room = true;
        }
        return done;
    }
    template <class Call>
    void for_each_ready(Call&& call) const {
        for (T* transfer : ready_)
            if (transfer != nullptr) call(*transfer);
    }

    // Moves transfers on. Returns how much there was to do. The step may remove its transfer, and a
    // completion calls the user, who may begin others.
    template <class Stepper>
    unsigned advance(Stepper&& step) {
        unsigned count = 0;
        if (!for_room_.empty()) [[unlikely]]
            for_room_.move_firsts([&](T* transfer) {
                const Step done = move(*transfer, step);
                count += done.count;
                if (done.next == Next::kOnRoom) return false;
                if (done.next != Next::kOver && transfer->turn.waits_for_room) {
                    for_room_.remove(*transfer->channel, transfer);
                    transfer->turn.waits_for_room = false;
                }
                return true;
            });
        compact();
        const size_t size = ready_.size();
        size_t at = budget_.behind() && next_ < size ? next_ : 0;
        for (size_t left = size; left != 0; --left, at = at + 1 < size ? at + 1 : 0) {
            if (ready_[at] == nullptr) continue;
            const bool late = budget_.over();
            const unsigned done = move(*ready_[at], step).count;
            count += done;
            // A registration that did not fit in comes first in the next call.
            if (!late && budget_.over()) next_ = done == 0 ? at : at + 1 < size ? at + 1 : 0;
        }
        return count;
    }

  private:
    // Its place stays empty until compact(): advance() may be under way.
    void rest(T& transfer) {
        if (transfer.turn.ready == Turn::kNone) return;
        ready_[std::exchange(transfer.turn.ready, Turn::kNone)] = nullptr;
    }
    void compact() {
        size_t kept = 0;
        for (size_t i = 0; i < ready_.size(); ++i) {
            if (i == next_) next_ = kept;
            if (ready_[i] == nullptr) continue;
            ready_[i]->turn.ready = static_cast<uint32_t>(kept);
            ready_[kept++] = ready_[i];
        }
        ready_.resize(kept);
    }

    const ProgressBudget& budget_;
    std::vector<T*> ready_;  // null: not any more
    PeerTurns<T*> for_room_;
    size_t size_ = 0;
    size_t next_ = 0;  // comes first if the last budget was too small
    uint64_t steps_ = 0;
};

}  // namespace tern
