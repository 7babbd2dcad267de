// SPDX-License-Identifier: BSD-3-Clause
#include "qp_state.h"

namespace softhca {
namespace {

using namespace qp_attr;

// The specification has a table for each transport; the rules follow from the roles of a transport.
constexpr bool is_requester(QpType type) {
    return type == QpType::kRc || type == QpType::kXrcSend;
}
constexpr bool is_responder(QpType type) {
    return type == QpType::kRc || type == QpType::kXrcRecv;
}
constexpr uint32_t when(bool condition, uint32_t mask) {
    return condition ? mask : 0;
}

constexpr uint32_t address_of_init(QpType type) {
    return kPkeyIndex | kPort | (type == QpType::kUd ? kQkey : kAccessFlags);
}

// What may change at run time, in RTS and on every transition into it.
constexpr uint32_t running_attributes(QpType type) {
    if (type == QpType::kUd) return kCurState | kQkey;
    return kCurState | kAltPath | kAccessFlags | kPathMigState |
           when(is_responder(type), kMinRnrTimer);
}

constexpr uint32_t drained_attributes(QpType type) {
    if (type == QpType::kUd) return kPkeyIndex | kQkey;
    return kAv | kAltPath | kAccessFlags | kPkeyIndex | kPathMigState |
           when(is_reliable(type), kPort | kTimeout) |
           when(is_requester(type), kRetryCnt | kRnrRetry | kMaxQpRdAtomic) |
           when(is_responder(type), kMaxDestRdAtomic | kMinRnrTimer);
}

constexpr QpTransition init_to_rtr(QpType type) {
    if (type == QpType::kUd) return {true, 0, kPkeyIndex | kQkey};
    return {true,
            kAv | kPathMtu | kDestQpn | kRqPsn |
                when(is_responder(type), kMaxDestRdAtomic | kMinRnrTimer),
            kAltPath | kAccessFlags | kPkeyIndex};
}

constexpr QpTransition rtr_to_rts(QpType type) {
    return {true,
            kSqPsn | when(is_reliable(type), kTimeout) |
                when(is_requester(type), kRetryCnt | kRnrRetry | kMaxQpRdAtomic),
            running_attributes(type)};
}

// Only unreliable transports stop their send queue alone. An error of a reliable transport stops
// the whole queue pair.
constexpr QpTransition sqe_to_rts(QpType type) {
    if (is_reliable(type)) return {};
    return {true, 0, type == QpType::kUd ? kCurState | kQkey : kCurState | kAccessFlags};
}

constexpr uint32_t pair(QpState from, QpState to) {
    return static_cast<uint32_t>(from) * 8 + static_cast<uint32_t>(to);
}

constexpr uint8_t kTimerCodeMask = 31;
constexpr uint64_t kRnrTimerUnitNs = 10'000;
constexpr uint32_t kRnrTimers[kTimerCodeMask + 1] = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

}  // namespace

QpTransition qp_transition(QpType type, QpState from, QpState to) {
    if (to == QpState::kReset) return {true, 0, 0};
    // Verbs on Linux refuse reset to error: there is nothing to flush.
    if (to == QpState::kErr) return {from != QpState::kReset, 0, 0};
    switch (pair(from, to)) {
        case pair(QpState::kReset, QpState::kInit):
            return {true, address_of_init(type), 0};
        case pair(QpState::kInit, QpState::kInit):
            return {true, 0, address_of_init(type)};
        case pair(QpState::kInit, QpState::kRtr):
            return init_to_rtr(type);
        case pair(QpState::kRtr, QpState::kRts):
            return rtr_to_rts(type);
        case pair(QpState::kRts, QpState::kRts):
        case pair(QpState::kSqd, QpState::kRts):
            return {true, 0, running_attributes(type)};
        case pair(QpState::kRts, QpState::kSqd):
            return {true, 0, kEnSqdAsyncNotify};
        case pair(QpState::kSqd, QpState::kSqd):
            return {true, 0, drained_attributes(type)};
        case pair(QpState::kSqe, QpState::kRts):
            return sqe_to_rts(type);
        default:
            return {};
    }
}

bool qp_transition_allowed(QpType type, QpState from, QpState to, uint32_t mask) {
    const QpTransition rule = qp_transition(type, from, to);
    if (!rule.allowed || (mask & rule.required) != rule.required) return false;
    return (mask & ~(rule.required | rule.optional | kState)) == 0;
}

bool can_post_send(QpState state) {
    return state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe ||
           state == QpState::kErr;
}

bool can_post_recv(QpState state) {
    return state != QpState::kReset;
}

bool responds(QpState state) {
    return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd ||
           state == QpState::kSqe;
}

bool sends(QpState state) {
    return state == QpState::kRts;
}

uint64_t rnr_timer_ns(uint8_t code) {
    return kRnrTimers[code & kTimerCodeMask] * kRnrTimerUnitNs;
}

uint64_t ack_timeout_ns(uint8_t code) {
    const unsigned exponent = code & kTimerCodeMask;
    return exponent == 0 ? 0 : uint64_t{4096} << exponent;
}

uint32_t mtu_bytes(uint8_t code) {
    return code >= 1 && code <= 5 ? 128u << code : 0;
}

}  // namespace softhca
