// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/footprint.h"

#include <cstdlib>

#include "bench/measure/failure.h"
#include "inspect/fabric_view.h"

namespace bench {

Footprint footprint_of(pid_t process) {
    const char* name = std::getenv("SOFTHCA_FABRIC");
    std::string error;
    const auto fabric =
        softhca::FabricView::open(name != nullptr && *name != '\0' ? name : "default", &error);
    if (!fabric) throw Failure(error);
    Footprint footprint;
    bool found = false;
    for (uint32_t i = 0; i < softhca::kMaxProcesses; ++i) {
        const softhca::ProcessSlot& slot = fabric->header().slots[i];
        if (!fabric->alive(slot) || slot.pid.load(std::memory_order_relaxed) != process) continue;
        found = true;
        footprint.registered_bytes +=
            slot.counters.registered_bytes.load(std::memory_order_relaxed);
        footprint.queue_pairs += fabric->count_objects(i).queue_pairs;
    }
    if (!found) throw Failure("the software HCA does not know the process");
    return footprint;
}

}  // namespace bench
