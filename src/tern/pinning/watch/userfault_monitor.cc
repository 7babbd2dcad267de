// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/userfault_monitor.h"

#include <new>

#include "tern/pinning/watch/mapping.h"

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
    Mappings whole;
    const bool is_private = private_mappings(start, end, whole);
    // Other processes can take the pages of shared memory and of files, without an event. Only such
    // memory is left to others who watch.
    not_now_ = is_private ? source_->refuses(start, end) : !whole.other;
    if (not_now_ || !is_private) return false;
    // EBUSY: another userfaultfd has a part of it.
    if (!source_->begin(whole)) {
        not_now_ = !source_->has_failed();
        return false;
    }
    // Another thread may have made a mapping longer meanwhile, whose new part has been split off.
    Mappings now;
    for (int i = 0; i < kGrowths && !whole.followed; ++i) {
        if (!private_mappings(start, end, now) || !now.followed) break;
        if (!private_mappings(whole.end, whole.end + 1, now) || !source_->begin(now)) break;
        whole = now;
    }
    // Other buffers of the mapping may have been unmapped and mapped again before it was
    // registered; not this one, which is in use.
    try {
        ranges_.join(start, end);
    } catch (const std::bad_alloc&) {
        return false;
    }
    return true;
}

void UserfaultMonitor::changed(const MemoryChange& change) {
    if (change.unmapped) ranges_.remove(change.start, change.end);
    source_->progress();
}

}  // namespace tern
