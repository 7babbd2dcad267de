// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tern/base/tunables.h"

namespace tern {

// Decides which senders get a block: those that send often. Time is counted in messages received,
// so that an idle interface demotes no peer. A window is `window` messages. In every window
//   - a cold peer that has sent `after` messages is promoted if fewer than `most` peers are hot,
//   - otherwise it replaces the hot peer that has sent the least, if that is less than half as
//     much. A peer counts with this window or the one before, whichever had more: at the start of a
//     window, nobody has sent much yet,
//   - at the end, hot peers that have sent fewer than `keep` messages are demoted.
// Data path, except at the end of a window.
class Promotion {
  public:
    struct Limits {
        uint32_t after = 16;
        uint32_t most = 32;
        uint32_t window = kTunables.hot_window;
        uint32_t keep = kTunables.hot_keep;
    };

    // The state of one peer; a member of its channel.
    struct Peer {
        uint32_t window = 0;    // the window that `messages` belongs to
        uint32_t messages = 0;  // received in that window
        uint32_t before = 0;    // received in the window before that
        bool hot = false;       // has a block, or has been offered one
        void* owner = nullptr;  // the channel
    };

    enum class Decision : uint8_t { kStay, kPromote, kReplace };

    explicit Promotion(const Limits& limits) : limits_(limits) { begin_window(); }

    // Counts messages from `peer`. True: the window ends with them; call end_window().
    bool count(Peer& peer, uint32_t messages = 1) {
        if (peer.window != window_) [[unlikely]] {
            peer.before = messages_before(peer);
            peer.window = window_;
            peer.messages = 0;
        }
        peer.messages += messages;
        if (messages < left_) [[likely]] {
            left_ -= messages;
            return false;
        }
        left_ = 0;
        return true;
    }

    // Decides about a cold peer after count(). kReplace: the caller revokes the block of `victim`;
    // a later decide() promotes the peer when demoted() has been called for `victim`.
    Decision decide(const Peer& peer, Peer*& victim);

    void promoted(Peer& peer) {
        peer.hot = true;
        hot_.push_back(&peer);
    }
    // The block has been released, or the peer is gone.
    void demoted(Peer& peer);

    // Ends the window; calls demote(peer) for each hot peer that is to be demoted.
    template <class Demote>
    void end_window(Demote&& demote) {
        for (Peer* peer : hot_)
            if (messages_of(*peer) < limits_.keep) demote(*peer);
        ++window_;
        begin_window();
    }

    uint32_t hot() const { return static_cast<uint32_t>(hot_.size()); }

  private:
    void begin_window() { left_ = std::max(limits_.window, 1u); }
    uint32_t messages_of(const Peer& peer) const {
        return peer.window == window_ ? peer.messages : 0;
    }
    uint32_t messages_before(const Peer& peer) const {
        if (peer.window == window_) return peer.before;
        return peer.window + 1 == window_ ? peer.messages : 0;
    }
    uint32_t activity_of(const Peer& peer) const {
        return std::max(messages_of(peer), messages_before(peer));
    }

    Limits limits_;
    uint32_t window_ = 1;
    uint32_t left_ = 0;  // messages until the window ends
    std::vector<Peer*> hot_;
};

}  // namespace tern
