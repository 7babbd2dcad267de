// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/monitor.h"

#include <new>

#include "tern/pinning/watch/hooked_monitor.h"
#include "tern/pinning/watch/userfault_monitor.h"

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

std::unique_ptr<Monitor> make_monitor(MonitorKind wanted, const MonitorMeans& means, Inbox& inbox,
                                      std::function<void()> notify) {
    const auto may_be = [wanted](MonitorKind kind) {
        return wanted == kind || wanted == MonitorKind::kAuto;
    };
    // Only if it is asked for: a page fault of a device takes more than a hundred times as long as
    // an access to a pinned page.
    if (wanted == MonitorKind::kOdp && means.on_demand)
        return std::make_unique<SilentMonitor>(MonitorKind::kOdp);
    if (may_be(MonitorKind::kUserfaultfd))
        if (auto monitor = UserfaultMonitor::create(inbox, std::move(notify))) {
            if (wanted != MonitorKind::kAuto || !means.has_hooks) return monitor;
            return std::make_unique<HookedMonitor>(std::move(monitor), means.hooks_see_all);
        }
    const bool reported = may_be(MonitorKind::kUcm) && means.has_hooks;
    return std::make_unique<SilentMonitor>(reported ? MonitorKind::kUcm : MonitorKind::kNone);
}

}  // namespace tern
