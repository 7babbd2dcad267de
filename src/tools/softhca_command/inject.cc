// SPDX-License-Identifier: BSD-3-Clause
// `softhca inject`: changes the faults of a running fabric.
#include <cstdio>
#include <string>

#include "core/faults.h"
#include "tools/fabric_view.h"
#include "tools/softhca_command/command.h"
#include "tools/softhca_command/fabric_option.h"
#include "transport/notice.h"

namespace softhca {
namespace {

/// The engines wait for their doorbells; each is to see a port that changed.
void announce(FabricView* fabric) {
    for (ProcessSlot& process : fabric->header().slots) {
        if (process.state.load(std::memory_order_acquire) == SlotState::alive)
            ring_doorbell(process);
    }
}

/// Whether the ports that are to go down exist. All at once are those that exist.
bool has_ports(const FabricConfig& config, uint32_t down) {
    for (uint32_t bit = 0; down != UINT32_MAX && bit < kMaxLinks; ++bit) {
        const bool exists = bit / kMaxPorts < config.devices && bit % kMaxPorts < config.ports;
        if ((down >> bit & 1) != 0 && !exists) return false;
    }
    return true;
}

}  // namespace

int inject_main(int argc, char** argv) {
    FabricRequest request;
    std::string error = parse_fabric_options(argc, argv, false, &request);
    if (!error.empty()) return usage_error("inject", error);
    if (request.help) return print_help("inject");
    if (request.arguments[0] == nullptr) return usage_error("inject", "no faults given");
    std::string list;
    for (char** argument = request.arguments; *argument != nullptr; ++argument) {
        list.append(list.empty() ? "" : ",").append(*argument);
    }
    Faults scratch = {};  // a wrong list is a wrong list, whether somebody is in the fabric or not
    if (const auto reason = apply_faults(list, scratch)) return usage_error("inject", *reason);
    const auto fabric = FabricView::open(request.fabric, &error);
    if (fabric == nullptr) return failure("inject", error);
    if (!has_ports(fabric->header().config, scratch.ports_down)) {
        return failure("inject",
                       "fabric '" + request.fabric + "' has no such port; see 'softhca status'");
    }
    apply_faults(list, fabric->header().faults);
    announce(fabric.get());
    std::printf("faults: %s\n", describe(fabric->header().faults).c_str());
    return 0;
}

}  // namespace softhca
