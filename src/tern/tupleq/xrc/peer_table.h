// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "tern/connection/work_request_id.h"
#include "tern/engine/channel.h"

namespace tern {

// The number of the peer at the other end of a channel: the channel's index and generation.
inline uint32_t peer_number(const Channel& channel) {
    return static_cast<uint32_t>(channel.tag >> 32);
}

// What one part of TupleQ keeps of each peer: objects of type T, which has `Channel* channel`. An
// object exists from the first of() until erase(), which its owner calls when the channel ends.
template <class T>
class PeerTable {
  public:
    // The peer's object, made if need be.
    T& of(Channel& channel) {
        if (peers_.size() <= channel.index) peers_.resize(channel.index + 1);
        auto& peer = peers_[channel.index];
        if (!peer) {
            peer = std::make_unique<T>();
            peer->channel = &channel;
        }
        TERN_ASSERT(peer->channel == &channel);
        return *peer;
    }
    // The peer's object, which must exist. Data path.
    T& at(const Channel& channel) const {
        TERN_ASSERT(channel.index < peers_.size() && peers_[channel.index]);
        TERN_ASSERT(peers_[channel.index]->channel == &channel);
        return *peers_[channel.index];
    }
    // Null if there is no object, or the peer's channel has ended.
    T* find(uint32_t number) const {
        const uint32_t index = work_request_id::index(uint64_t{number} << 32);
        T* const peer = index < peers_.size() ? peers_[index].get() : nullptr;
        return peer != nullptr && peer_number(*peer->channel) == number ? peer : nullptr;
    }
    T* find(const Channel& channel) const { return find(peer_number(channel)); }
    void erase(const Channel& channel) {
        if (channel.index < peers_.size()) peers_[channel.index].reset();
    }

  private:
    std::vector<std::unique_ptr<T>> peers_;  // by the channel's index
};

}  // namespace tern
