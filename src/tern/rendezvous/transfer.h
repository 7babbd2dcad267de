// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/assert.h"
#include "common/make_room.h"
#include "tern/engine/engine.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/buffers.h"
#include "tern/rendezvous/messages.h"

namespace tern {

// The fields that both halves of a transfer have.
struct Transfer {
    uint32_t number = 0;  // see TransferTable
    Channel* channel = nullptr;
    uint64_t length = 0;
    Buffers memory;
    RegionUse* use = nullptr;  // of declared memory, if the peer asked
    bool asked_here = false;   // this side's user asked
    uint64_t sequence = 0;     // TransferAccounts::begun() at its beginning
    void* cookie = nullptr;    // of the user, to be completed
    uint64_t address = 0;      // of the peer's memory, if this side asked
    WireKey key;
    Pin* pin = nullptr;      // of the piece being transferred in place
    Pin* ahead = nullptr;    // of the next piece
    std::vector<Pin*> pins;  // of earlier pieces
};

// Sends a frame about a transfer. False: it cannot be sent now.
inline bool send_frame(Engine& engine, Channel& channel, TransferId id, const void* frame,
                       uint32_t length, bool of_user = false) {
    return channel.carries() &&
           engine.send_control(channel, static_cast<ControlId>(id), frame, length, of_user);
}
template <class Frame>
bool send_frame(Engine& engine, Channel& channel, TransferId id, const Frame& frame) {
    return send_frame(engine, channel, id, &frame, sizeof(frame));
}

// While a RegionAccess exists and is true, the memory may be accessed. False: it has been
// undeclared.
class RegionAccess {
  public:
    explicit RegionAccess(const Transfer& transfer)
        : use_(transfer.use), may_(use_ == nullptr || use_->enter()) {}
    ~RegionAccess() {
        if (use_ != nullptr && may_) use_->leave();
    }
    RegionAccess(const RegionAccess&) = delete;
    RegionAccess& operator=(const RegionAccess&) = delete;

    explicit operator bool() const { return may_; }

  private:
    RegionUse* use_;
    bool may_;
};

// The transfers of one half, by number: an index in the low 16 bits, and above them how often that
// index was used before. Places are used again.
template <class T>
class TransferTable {
  public:
    static constexpr uint32_t kMost = 1 << 16;

    bool has_room() const { return all_.size() < kMost || !free_.empty(); }
    // Whether a peer may have one more transfer that it has asked for, if it has `held`: twice as
    // many as it leaves to this side and to other peers. So a peer that makes no progress, or
    // several, do not take all places.
    bool serves(uint32_t held) const {
        const auto left = static_cast<uint32_t>(kMost - all_.size() + free_.size());
        return left != 0 && held < 2 * left;
    }
    // Null: all places are taken.
    T* take() {
        if (free_.empty()) {
            if (all_.size() >= kMost) return nullptr;
            base::make_room(free_, all_.size() + 1);  // for put_back()
            all_.push_back(std::make_unique<T>());
            free_.push_back(static_cast<uint32_t>(all_.size() - 1));
            all_.back()->number = free_.back();
        }
        T* transfer = all_[free_.back()].get();
        free_.pop_back();
        return transfer;
    }
    void put_back(T& transfer) {
        const uint32_t number = transfer.number;
        TERN_ASSERT(all_[number % kMost].get() == &transfer && transfer.channel != nullptr);
        transfer = {};
        transfer.number = number + kMost;
        free_.push_back(number % kMost);
    }
    // A transfer under way on this channel, by number or by index alone; null if there is none.
    T* find(const Channel& channel, uint32_t number) const {
        T* transfer = find_index(channel, number % kMost);
        return transfer != nullptr && transfer->number == number ? transfer : nullptr;
    }
    T* find_index(const Channel& channel, uint32_t index) const {
        if (index >= all_.size() || all_[index]->channel != &channel) return nullptr;
        return all_[index].get();
    }

    // Whether a transfer is under way that this side's user began on this channel, no later than
    // the `until`th of the interface, and for which `counts(transfer)` is true.
    bool any_pending(const Channel& channel, uint64_t until) const {
        return any_pending(channel, until, [](const T&) { return true; });
    }
    template <class Counts>
    bool any_pending(const Channel& channel, uint64_t until, Counts&& counts) const {
        return std::any_of(all_.begin(), all_.end(), [&](const auto& transfer) {
            return transfer->asked_here && transfer->channel == &channel &&
                   transfer->sequence <= until && counts(*transfer);
        });
    }

    // Calls `call(transfer)` for each transfer that is under way. The call may end the transfer,
    // and the user, who gets a completion then, may begin others.
    template <class Call>
    void for_each(Call&& call) const {
        // By index, because the table may grow.
        for (size_t i = 0; i < all_.size(); ++i)
            if (all_[i]->channel != nullptr) call(*all_[i]);
    }

  private:
    std::vector<std::unique_ptr<T>> all_;
    std::vector<uint32_t> free_;
};

}  // namespace tern
