// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fastpath/channel.h"

namespace tern {

// Flushes that wait for what is to be over before the engine's flush may begin. `owner` has
// completed(cookie, status).
class Flushes {
  public:
    bool empty() const { return flushes_.empty(); }
    // `until`: the last of what it waits for, as the caller counts.
    void add(Channel& channel, uint64_t until, void* cookie) {
        flushes_.push_back({&channel, until, cookie});
    }
    // `begin(channel, until, cookie)`: kNoResource if it has to wait further; else what the engine
    // says of the flush. Returns how many have begun.
    template <class Begin, class Owner>
    unsigned pay(Begin&& begin, Owner& owner) {
        unsigned count = 0;
        for (size_t i = 0; i < flushes_.size();) {
            const Flush flush = flushes_[i];
            const Status status = begin(*flush.channel, flush.until, flush.cookie);
            if (status == Status::kNoResource) {
                ++i;
                continue;
            }
            remove(i);
            ++count;
            if (status == Status::kOk) owner.completed(flush.cookie, Status::kOk);
        }
        return count;
    }
    // The channel is over.
    template <class Owner>
    void ended(const Channel& channel, Status status, Owner& owner) {
        for (size_t i = 0; i < flushes_.size();) {
            const Flush flush = flushes_[i];
            if (flush.channel != &channel) {
                ++i;
                continue;
            }
            remove(i);
            owner.completed(flush.cookie, status);
        }
    }

  private:
    struct Flush {
        Channel* channel;
        uint64_t until;
        void* cookie;
    };

    void remove(size_t index) {
        flushes_.erase(flushes_.begin() + static_cast<std::ptrdiff_t>(index));
    }

    std::vector<Flush> flushes_;
};

}  // namespace tern
