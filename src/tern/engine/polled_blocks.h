// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/assert.h"
#include "tern/engine/channel.h"
#include "tern/engine/poll_budget.h"

namespace tern {

// The blocks that an interface polls, in one array of the words to look at: the next tail of each
// block. Data path, except add() and remove().
class PolledBlocks {
  public:
    explicit PolledBlocks(PollBudget& budget) : budget_(budget) {}

    // Whether any block may have a frame. The caller looks again, with acquire.
    [[gnu::always_inline]] bool any_frame() const {
        uint64_t any = 0;
        const uint64_t* const* tail = tails_.data();
        const uint64_t* const* const end = tail + tails_.size();
        do {
            any |= __atomic_load_n(tail[0], __ATOMIC_RELAXED) |
                   __atomic_load_n(tail[1], __ATOMIC_RELAXED);
            tail += kGroup;
        } while (tail != end);
        return any != 0;
    }
    bool may_have_frame(size_t i) const {
        return __atomic_load_n(tails_[i], __ATOMIC_RELAXED) != 0;
    }

    // Handlers of frames may add and remove blocks, so loops go by index.
    size_t size() const { return channels_.size(); }
    Channel& at(size_t i) const { return *channels_[i]; }

    // The channel's block has been offered, or is about to be freed.
    void add(Channel& channel);
    void remove(Channel& channel);
    // Frames have been taken from the channel's block.
    void update(Channel& channel) {
        if (channel.receiving.polled)
            tails_[channel.receiving.poll_index] = channel.receiving.path.next();
    }

  private:
    // The tails are looked at in groups, of which there is at least one. Where a group has no more
    // blocks, it has kNoTail.
    static constexpr size_t kGroup = 2;
    static constexpr uint64_t kNoTail = 0;

    std::vector<const uint64_t*> tails_ = std::vector<const uint64_t*>(kGroup, &kNoTail);
    std::vector<Channel*> channels_;
    PollBudget& budget_;
};

inline void PolledBlocks::add(Channel& channel) {
    TERN_ASSERT(!channel.receiving.polled);
    // What allocates comes first, here and elsewhere: an exception must leave what is noted right.
    const auto place = static_cast<uint32_t>(channels_.size());
    if (place == tails_.size()) tails_.resize(tails_.size() + kGroup, &kNoTail);
    channels_.push_back(&channel);
    if (place == 0) budget_.end_reason();
    channel.receiving.polled = true;
    channel.receiving.poll_index = place;
    update(channel);
}

// The last of the polled channels takes the place.
inline void PolledBlocks::remove(Channel& channel) {
    TERN_ASSERT(channel.receiving.polled && channels_[channel.receiving.poll_index] == &channel);
    Channel* last = channels_.back();
    channels_.pop_back();
    tails_[last->receiving.poll_index] = &kNoTail;
    channel.receiving.polled = false;
    if (last != &channel) {
        last->receiving.poll_index = channel.receiving.poll_index;
        channels_[last->receiving.poll_index] = last;
        update(*last);
    }
    if (channels_.empty())
        budget_.begin_reason();
    else if (channels_.size() + kGroup == tails_.size())
        tails_.resize(channels_.size());
}

}  // namespace tern
