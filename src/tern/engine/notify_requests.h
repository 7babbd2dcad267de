// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "tern/engine/channel.h"
#include "tern/engine/work_requests.h"

namespace tern {

// Asks the writers of blocks to notify this side of frames, by writes to their notify words
// (writer_words.h), and stops them again. Each request has a generation, which comes back in the
// immediate data: so a notification shows that the writer has read this request. Owns
// Channel::notifying. Control path.
class NotifyRequests {
  public:
    explicit NotifyRequests(WorkRequests& requests) : requests_(requests) {}

    // Asks the writer, unless it has been asked already.
    void begin(Channel& channel) {
        if (channel.notifying.generation != 0 || channel.notifying.always) return;
        if (generation_ == UINT16_MAX) generation_ = 0;
        (void)write(channel, ++generation_);
    }
    // Ends the request, if there is one. False: that is not possible now.
    bool end(Channel& channel) { return channel.notifying.generation == 0 || write(channel, 0); }
    // A notification has come.
    static void on_notification(Channel& channel, uint32_t immediate) {
        if (immediate == 0) channel.notifying.always = true;
        if (notify::generation(immediate) == channel.notifying.generation)
            channel.notifying.confirmed = true;
    }
    // Whether each further frame raises a notification.
    static bool is_certain(const Channel& channel) {
        return channel.notifying.confirmed || channel.notifying.always;
    }

    uint64_t written() const { return written_; }

  private:
    // Writes the peer's notify word. False: that is not possible now.
    bool write(Channel& channel, uint16_t generation);

    WorkRequests& requests_;
    uint16_t generation_ = 0;  // the last one; 0 only before the first
    uint64_t written_ = 0;
};

inline bool NotifyRequests::write(Channel& channel, uint16_t generation) {
    if (channel.receiving.words == 0 || channel.failed || !channel.up() ||
        channel.sends.room() == 0)
        return false;
    // The completion of a request would wake this side.
    if (!requests_.write_word(channel, notify::word(generation), channel.receiving.words,
                              channel.receiving.words_rkey, channel.notifying.last,
                              generation == 0 ? IBV_SEND_SIGNALED : 0))
        return false;
    channel.notifying.generation = generation;
    channel.notifying.confirmed = false;
    ++written_;
    return true;
}

}  // namespace tern
