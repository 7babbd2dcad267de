// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/lateness.h"

#include <cstdlib>

#include "bench/measure/statistics.h"
#include "inspect/fabric_view.h"

namespace bench {

LatenessWatch::LatenessWatch() {
    const char* name = std::getenv("SOFTHCA_FABRIC");
    std::string error;
    fabric_ =
        softhca::FabricView::open(name != nullptr && *name != '\0' ? name : "default", &error);
    share();
}

LatenessWatch::~LatenessWatch() = default;

double LatenessWatch::share() {
    if (!fabric_) return kNone;
    uint64_t operations = 0;
    uint64_t late = 0;
    for (const softhca::ProcessSlot& process : fabric_->header().slots) {
        if (!fabric_->alive(process)) continue;
        operations += process.lateness.count.load(std::memory_order_relaxed);
        late += process.lateness.late.load(std::memory_order_relaxed);
    }
    const uint64_t new_operations = operations - operations_;
    const uint64_t new_late = late - late_;
    operations_ = operations;
    late_ = late;
    if (new_operations == 0) return kNone;
    return static_cast<double>(new_late) / static_cast<double>(new_operations);
}

}  // namespace bench
