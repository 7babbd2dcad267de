// SPDX-License-Identifier: BSD-3-Clause
#include "engine/notify_requests.h"

#include "engine/work_requests.h"

namespace tern {

bool NotifyRequests::write(Channel& channel, uint16_t generation) {
    if (channel.receiving.words == 0 || channel.failed || !channel.up() ||
        channel.sends.room() == 0)
        return false;
    const uint32_t word = notify::word(generation);
    if (!requests_.write_inline(channel, &word, sizeof(word), channel.receiving.words,
                                channel.receiving.words_rkey, false))
        return false;
    channel.notifying.generation = generation;
    channel.notifying.confirmed = false;
    ++written_;
    return true;
}

}  // namespace tern
