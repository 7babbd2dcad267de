// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/messages.h"

#include <infiniband/verbs.h>

#include "tern/matching/key_mask.h"

namespace tern {

namespace {

constexpr uint32_t kMostNumber = 0xffffff;  // largest queue pair or packet number

bool is_mtu(uint32_t mtu) {
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096;
}

}  // namespace

bool is_valid(const WireBind& frame) {
    return KeyMask::eligible(frame.mask) && frame.node != 0 && frame.queue != 0 &&
           frame.reserved == 0;
}

bool is_valid(const WireBound& frame) {
    if (frame.reserved != 0) return false;
    return frame.sender == WireBound::kRefused ||
           (frame.address != 0 && frame.address % sizeof(uint64_t) == 0);
}

bool is_valid(const WireClose& frame) {
    return frame.reserved == 0 && (frame.flags & ~WireClose::kUnbind) == 0;
}

bool is_valid(const WireClosed& frame) {
    return frame.reserved == 0 && (frame.flags & ~WireClose::kUnbind) == 0;
}

bool is_valid(const WireConnect& frame) {
    return frame.number != 0 && frame.qp_num != 0 && frame.qp_num <= kMostNumber &&
           frame.psn <= kMostNumber && is_mtu(frame.mtu);
}

bool is_valid(const WireConnected& frame) {
    return (frame.flags & ~WireConnected::kPagesOnDemand) == 0 && frame.number != 0 &&
           frame.qp_num <= kMostNumber && is_mtu(frame.mtu);
}

}  // namespace tern
