// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/refusals.h"

#include <iterator>

#include "tern/base/trace.h"

namespace tern {

bool Refusals::refuse(Channel& channel, uint32_t what, uint32_t number) {
    ++counters_.refused;
    if (!warned_) {
        warned_ = true;
        owner_.warn(channel.peer.to_string() +
                    " asks for memory that it has no key for, or not for that; refused. Its "
                    "program uses a remote key after the memory was deregistered, or beyond its "
                    "end");
    }
    TERN_DEBUG("transfer %u of %s is refused: no key permits it", number,
               channel.peer.to_string().c_str());
    add(channel, {.what = what, .number = number});
    const bool proper = frames_[&channel].size() <= kMost;
    (void)send();
    return proper;
}

unsigned Refusals::send() {
    unsigned count = 0;
    for (auto of_channel = frames_.begin(); of_channel != frames_.end();) {
        auto& [channel, frames] = *of_channel;
        for (;
             !frames.empty() && send_frame(engine_, *channel, TransferId::kRefuse, frames.front());
             ++count)
            frames.pop_front();
        of_channel = frames.empty() ? frames_.erase(of_channel) : std::next(of_channel);
    }
    return count;
}

}  // namespace tern
