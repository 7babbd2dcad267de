// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/watch/monitor.h"

#include "tern/pinning/watch/hooked_monitor.h"
#include "tern/pinning/watch/userfault_monitor.h"

namespace tern {

const char* monitor_name(MonitorKind kind) {
    switch (kind) {
        case MonitorKind::kAuto:
            return "auto";
        case MonitorKind::kOdp:
            return "odp";
        case MonitorKind::kUserfaultfd:
            return "userfaultfd";
        case MonitorKind::kUcm:
            return "ucm";
        case MonitorKind::kNone:
            break;
    }
    return "none";
}

std::unique_ptr<Monitor> make_monitor(MonitorKind wanted, const MonitorMeans& means, Inbox& inbox,
                                      std::function<void()> notify) {
    const auto may_be = [wanted](MonitorKind kind) {
        return wanted == kind || wanted == MonitorKind::kAuto;
    };
    // Only if it is asked for: a page fault of a device takes more than a hundred times as long as
    // an access to a pinned page.
    if (wanted == MonitorKind::kOdp && means.on_demand) return std::make_unique<OdpMonitor>();
    if (may_be(MonitorKind::kUserfaultfd))
        if (auto monitor = UserfaultMonitor::create(inbox, std::move(notify))) {
            if (wanted != MonitorKind::kAuto || !means.has_hooks) return monitor;
            return std::make_unique<HookedMonitor>(std::move(monitor), means.hooks_see_all);
        }
    if (may_be(MonitorKind::kUcm) && means.has_hooks) return std::make_unique<ExternalMonitor>();
    return std::make_unique<NoMonitor>();
}

}  // namespace tern
