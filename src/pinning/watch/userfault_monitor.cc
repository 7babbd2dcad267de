// SPDX-License-Identifier: BSD-3-Clause
#include "pinning/watch/userfault_monitor.h"

#include <new>

#include "pinning/watch/mapping.h"

namespace tern {

std::unique_ptr<UserfaultMonitor> UserfaultMonitor::create(Inbox& inbox,
                                                           std::function<void()> notify) {
    auto source = UserfaultSource::get();
    if (!source) return nullptr;
    std::unique_ptr<UserfaultMonitor> monitor(
        new UserfaultMonitor(std::move(source), inbox, std::move(notify)));
    if (!monitor->source_->subscribe(&monitor->subscriber_)) return nullptr;
    return monitor;
}

bool UserfaultMonitor::watch(uint64_t start, uint64_t end) {
    // While a change is under way, the mapping may be new, and `ranges_` has the old one.
    if (ranges_.contains(start, end) && settled()) return true;
    // Other processes can take the pages of shared memory and of files, without an event.
    if (!private_anonymous(start, end)) return false;
    while (ranges_.size() >= kMostRanges) give_up_one();
    // EBUSY: another userfaultfd has the range.
    if (!source_->begin(start, end)) return false;
    try {
        ranges_.add(start, end);
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

// Ends the watch of one range; successive calls take the ranges in turn.
void UserfaultMonitor::give_up_one() {
    const auto [start, end] = ranges_.after(given_up_);
    given_up_ = end;
    ranges_.remove(start, end);
    source_->end(start, end);
}

void UserfaultMonitor::changed(const MemoryChange& change) {
    if (!change.unmapped) return;
    ranges_.remove(change.start, change.end);
    source_->changed(change);
}

}  // namespace tern
