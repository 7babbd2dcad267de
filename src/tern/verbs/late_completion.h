// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace tern::verbs {

// Completions taken off a queue early; poll() returns them first. A completion between the last
// poll and the request for an event raises no event, so a caller that is about to sleep looks for
// it with take(). A caller that looks for certain completions puts others aside; one that has done
// enough puts the rest back.
class LateCompletion {
  public:
    LateCompletion() { aside_.reserve(kRoom); }

    bool waits() const { return waits_; }
    // Whether `count` completions may be set aside without an allocation. The one that take()
    // finds, and those that poll() has returned, have room besides.
    bool has_room(size_t count) const { return aside_.size() + count <= kRoom / 2; }
    // Call after ibv_req_notify_cq(). True: do not sleep; there is a completion, or the queue has
    // failed.
    bool take(ibv_cq* cq) {
        ibv_wc completion{};
        const int count = ibv_poll_cq(cq, 1, &completion);
        if (count > 0) set_aside(completion);
        return count != 0 || waits_;
    }
    void set_aside(const ibv_wc& completion) {
        aside_.push_back(completion);
        waits_ = true;
    }
    // Gives back the last `count` completions that poll() has returned, to be returned again first.
    void put_back(const ibv_wc* completions, int count) {
        aside_.insert(aside_.begin(), completions, completions + count);
        waits_ = true;
    }
    // Polls like ibv_poll_cq(): negative if the queue fails.
    int poll(ibv_cq* cq, int most, ibv_wc* completions) {
        if (!waits_) [[likely]]
            return ibv_poll_cq(cq, most, completions);
        return take_aside(most, completions);
    }

  private:
    [[gnu::noinline, gnu::cold]] int take_aside(int most, ibv_wc* completions) {
        const size_t count = std::min(aside_.size(), static_cast<size_t>(most));
        const auto end = aside_.begin() + static_cast<std::ptrdiff_t>(count);
        std::copy(aside_.begin(), end, completions);
        aside_.erase(aside_.begin(), end);
        waits_ = !aside_.empty();
        return static_cast<int>(count);
    }

    static constexpr size_t kRoom = 128;

    bool waits_ = false;
    std::vector<ibv_wc> aside_;
};

}  // namespace tern::verbs
