// SPDX-License-Identifier: BSD-3-Clause
// In virtual time: for whom something happens next, and when. Pure; one thread uses it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace softhca {

class VirtualEvents {
  public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    // What a member may see at a time comes before what the device does then: a simulation can
    // first let the member run until that time.
    enum class Kind : uint8_t { kSeen, kActs };
    struct Event {
        uint64_t time;
        Kind kind;
        uint32_t member;  // its slot of the fabric
        bool operator>(const Event& other) const {
            return std::tie(time, kind, member) > std::tie(other.time, other.kind, other.member);
        }
        bool operator==(const Event&) const = default;
    };

    // The member may find at that time what it did not find before: a completion, or data.
    void seen(uint32_t member, uint64_t time) { add({time, Kind::kSeen, member}); }
    // The member's device has something to do then.
    void acts(uint32_t member, uint64_t time) { add({time, Kind::kActs, member}); }

    bool empty() const { return events_.empty(); }
    // What happens next. Events whose time is over happen at once.
    Event next() const {
        if (events_.empty()) return {kNever, Kind::kActs, 0};
        Event event = events_.top();
        event.time = std::max(event.time, reached_);
        return event;
    }
    // What happens next, which is forgotten with all that is equal to it.
    Event take() {
        const Event event = next();
        const Event first = events_.top();
        while (!events_.empty() && events_.top() == first) events_.pop();
        reached_ = event.time;
        return event;
    }

  private:
    void add(const Event& event) {
        if (event.time != kNever) events_.push(event);
    }

    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    uint64_t reached_ = 0;  // what happened so far
};

}  // namespace softhca
