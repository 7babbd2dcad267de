// SPDX-License-Identifier: BSD-3-Clause
// `softhca status`, `inject` and `clean`: operations on a fabric from outside.
#include <cstdio>

#include "softhca/command/command.h"
#include "softhca/core/faults.h"
#include "softhca/fabric/segment.h"
#include "softhca/transport/notice.h"

namespace softhca {
namespace {

std::string name_of(const Value& fabric) {
    Settings settings;
    choose(kSettings[0], fabric, &settings);
    return settings.fabric;
}

std::unique_ptr<FabricView> open(const std::string& name) {
    std::string error;
    auto fabric = FabricView::open(name, &error);
    if (fabric == nullptr) throw std::runtime_error(error);
    return fabric;
}

// Wakes the engines, which sleep until their doorbells ring, so that they see a changed port.
void ring_doorbells(FabricView* fabric) {
    for (ProcessSlot& process : fabric->header().slots) {
        if (process.state() == SlotState::kAlive) ring_doorbell(process);
    }
}

// Whether the ports to be taken down exist. "All ports" means those that exist.
bool has_ports(const FabricConfig& config, uint64_t down) {
    for (uint32_t bit = 0; down != UINT32_MAX && bit < kMaxLinks; ++bit) {
        const bool exists = bit / kMaxPorts < config.devices && bit % kMaxPorts < config.ports;
        if ((down >> bit & 1) != 0 && !exists) return false;
    }
    return true;
}

}  // namespace

int show_status(const Value& fabric, bool json) {
    const std::string name = name_of(fabric);
    const auto view = open(name);
    std::fputs((json ? status_json(name, *view) : status_text(name, *view)).c_str(), stdout);
    return 0;
}

int inject(const Value& fabric, const std::string& faults) {
    const std::string name = name_of(fabric);
    Faults scratch = {};  // an invalid list is an error even if the fabric cannot be opened
    if (const auto reason = apply_faults(faults, scratch)) throw tools::UsageError(*reason);
    const auto view = open(name);
    if (!has_ports(view->header().config, scratch.ports_down)) {
        throw std::runtime_error("fabric '" + name + "' has no such port; see 'softhca status'");
    }
    apply_faults(faults, view->header().faults);
    ring_doorbells(view.get());
    std::printf("faults: %s\n", describe(view->header().faults).c_str());
    return 0;
}

int clean(const Value& fabric) {
    const std::string named = name_of(fabric);
    for (const std::string& name : FabricView::names()) {
        std::string error;
        if (fabric && name != named) continue;
        if (Segment::remove_if_unused(name, &error)) {
            std::printf("removed fabric '%s'\n", name.c_str());
        } else if (fabric) {
            throw std::runtime_error(error);
        } else {
            std::printf("kept: %s\n", error.c_str());
        }
    }
    return 0;
}

}  // namespace softhca
