// SPDX-License-Identifier: BSD-3-Clause
#include "engine/polled_blocks.h"

namespace tern {

void PolledBlocks::add(Channel& channel) {
    TERN_ASSERT(!channel.receiving.polled);
    if (channels_.empty()) budget_.end_reason();
    channel.receiving.polled = true;
    channel.receiving.poll_index = static_cast<uint32_t>(channels_.size());
    if (channel.receiving.poll_index == tails_.size())
        tails_.resize(tails_.size() + kGroup, &kNoTail);
    channels_.push_back(&channel);
    update(channel);
}

// The last of the polled channels takes the place.
void PolledBlocks::remove(Channel& channel) {
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
    if (channels_.size() + kGroup == tails_.size()) tails_.resize(channels_.size());
    if (channels_.empty()) budget_.begin_reason();
}

}  // namespace tern
