// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/settings.h"

#include <algorithm>
#include <bit>

namespace tern {

namespace {

constexpr uint32_t kLinks = 8;           // links to leave room for, the loop-back link included
constexpr uint32_t kEngineQueues = 1;    // shared receive queues of the engine
constexpr uint32_t kSensibleDepth = 16;  // rather fewer tuples than a smaller depth

uint32_t limit(int of_device) {
    return static_cast<uint32_t>(std::max(of_device, 0));
}

}  // namespace

uint64_t TupleQSettings::completions(uint32_t links) const {
    return uint64_t{tuples} * depth * 2 + uint64_t{links} * std::bit_ceil(sends);
}

TupleQSettings TupleQSettings::within(const ibv_device_attr& device) const {
    const uint64_t most = limit(device.max_cqe);
    TupleQSettings fit = *this;
    const uint64_t at_once = std::min<uint64_t>(limit(device.max_qp_wr), most / 2 / kLinks);
    fit.sends = static_cast<uint32_t>(std::min<uint64_t>(sends, std::bit_floor(at_once)));
    fit.depth = std::min(depth, std::bit_floor(limit(device.max_srq_wr)));
    fit.tuples =
        std::min(tuples, limit(device.max_srq) - std::min(limit(device.max_srq), kEngineQueues));
    if (fit.sends == 0 || fit.depth == 0) fit.tuples = 0;
    while (fit.tuples != 0 && fit.completions(kLinks) > most) {
        if (fit.depth > kSensibleDepth || fit.tuples == 1)
            fit.depth /= 2;
        else
            fit.tuples /= 2;
        if (fit.depth == 0) fit.tuples = 0;
    }
    return fit;
}

}  // namespace tern
