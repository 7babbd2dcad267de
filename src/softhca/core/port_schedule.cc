// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/port_schedule.h"

#include <algorithm>
#include <type_traits>

namespace softhca {

static_assert(std::is_standard_layout_v<PortSchedule>);

uint64_t PortSchedule::reserve(uint64_t now, uint64_t earliest, uint64_t work) {
    if (work == 0) return earliest;
    uint32_t first = count_;  // of the intervals that the booking fills the pauses between
    while (first != 0 && busy_[first - 1].end >= earliest) --first;
    uint32_t last = first;
    uint64_t begin = earliest, at = earliest, left = work;
    for (; last != count_ && busy_[last].begin < at + left; ++last) {
        const Interval& interval = busy_[last];
        if (interval.begin > at) left -= interval.begin - at;
        begin = std::min(begin, interval.begin);
        at = std::max(at, interval.end);
    }
    const uint64_t end = at + left;
    erase(first, last);
    insert(first, {begin, end});
    if (count_ == kIntervals) close_a_pause(now);
    return end - work;
}

void PortSchedule::erase(uint32_t from, uint32_t to) {
    if (from == to) return;
    std::copy(busy_ + to, busy_ + count_, busy_ + from);
    count_ -= to - from;
}

void PortSchedule::insert(uint32_t at, const Interval& interval) {
    std::copy_backward(busy_ + at, busy_ + count_, busy_ + count_ + 1);
    busy_[at] = interval;
    ++count_;
}

void PortSchedule::close_a_pause(uint64_t now) {
    uint32_t closed = 1;  // the pause before that interval
    if (busy_[1].begin > now) {
        const auto pause = [this](uint32_t i) { return busy_[i].begin - busy_[i - 1].end; };
        for (uint32_t i = 2; i < count_; ++i)
            if (pause(i) < pause(closed)) closed = i;
    }
    busy_[closed - 1].end = busy_[closed].end;
    erase(closed, closed + 1);
}

}  // namespace softhca
