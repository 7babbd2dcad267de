// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/monitor.h"

#include "tern/pinning/watch/hooked_monitor.h"
#include "tern/pinning/watch/userfault_monitor.h"

namespace tern {

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
