// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "common/assert.h"

namespace tern {

struct Channel;

// The frames of tagged messages that are held, those of each peer in the order of arrival. A peer
// of which many are held is asked to pause, and told to go on when all have been matched. What it
// had sent before it learns of that is still held. Control path.
class HeldFrames {
  public:
    // Bytes of one peer.
    struct Limits {
        uint64_t pause = 256 << 10;  // from here on it is to pause
        uint64_t most = 256 << 20;   // more than a peer that pauses has under way
    };
    // Kept for each frame besides its bytes; so empty messages count too.
    static constexpr uint64_t kOverhead = 64;

    struct Frame {
        Channel* channel = nullptr;  // null: the connection is over
        uint32_t id = 0;
        std::vector<std::byte> bytes;
    };

    explicit HeldFrames(const Limits& limits) : limits_(limits) {}

    // Keeps a copy. `number`: the peer's. False: the peer has not paused.
    bool hold(uint32_t number, Channel& channel, uint32_t id, const std::byte* data,
              uint32_t length) {
        Peer& peer = peers_[number];
        peer.channel = &channel;
        const uint64_t bytes = peer.bytes + length + kOverhead;
        if (bytes > limits_.most) return false;
        peer.frames.push_back({&channel, id, {data, data + length}});
        peer.bytes = bytes;
        if (peer.bytes > limits_.pause) want(peer, true);
        return true;
    }
    // The oldest frame of the peer; null: none is held.
    const Frame* first(uint32_t number) const {
        const auto peer = peers_.find(number);
        return peer == peers_.end() || peer->second.frames.empty() ? nullptr
                                                                   : &peer->second.frames.front();
    }
    // Removes the frame that first() has returned.
    Frame take(uint32_t number) {
        const auto at = peers_.find(number);
        TERN_ASSERT(at != peers_.end() && !at->second.frames.empty());
        Peer& peer = at->second;
        Frame frame = std::move(peer.frames.front());
        peer.frames.pop_front();
        frame.channel = peer.channel;
        peer.bytes -= frame.bytes.size() + kOverhead;
        if (peer.frames.empty()) want(peer, false);
        erase_if_done(at);
        return frame;
    }

    // Whether some peer is to be told to pause or to go on.
    bool any_untold() const { return untold_ != 0; }
    // Calls `tell(channel, pause)` for each of them. It returns false if there is no room now.
    template <class Tell>
    void tell(Tell&& tell) {
        for (auto at = peers_.begin(); untold_ != 0 && at != peers_.end();) {
            const auto next = std::next(at);
            Peer& peer = at->second;
            if (peer.wanted != peer.told && tell(*peer.channel, peer.wanted)) {
                peer.told = peer.wanted;
                --untold_;
                erase_if_done(at);
            }
            at = next;
        }
    }
    // The peer's connection is over: its frames stay, but there is nobody to tell.
    void gone(uint32_t number) {
        const auto at = peers_.find(number);
        if (at == peers_.end()) return;
        want(at->second, at->second.told);
        at->second.channel = nullptr;
        erase_if_done(at);
    }

  private:
    struct Peer {
        Channel* channel = nullptr;
        std::deque<Frame> frames;
        uint64_t bytes = 0;   // of `frames`, with their overhead
        bool wanted = false;  // the peer is to pause
        bool told = false;    // the peer has been told to pause, and not to go on
    };
    using Peers = std::map<uint32_t, Peer>;

    void want(Peer& peer, bool pause) {
        if (peer.channel == nullptr || peer.wanted == pause) return;
        untold_ += pause != peer.told ? 1 : -1;
        peer.wanted = pause;
    }
    void erase_if_done(Peers::iterator at) {
        const Peer& peer = at->second;
        if (peer.frames.empty() && (peer.channel == nullptr || (!peer.wanted && !peer.told)))
            peers_.erase(at);
    }

    const Limits limits_;
    Peers peers_;
    int untold_ = 0;  // peers whose `wanted` is not `told`
};

}  // namespace tern
