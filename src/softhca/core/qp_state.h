// SPDX-License-Identifier: BSD-3-Clause
// Queue pair states: the transitions, their attributes, and what a queue pair may do in each state.
#pragma once

#include <cstdint>

namespace softhca {

// Values of enumerations and constants are those of the verbs ABI, so that conversion is a cast.
enum class QpState : uint8_t {
    kReset = 0,
    kInit = 1,
    kRtr = 2,
    kRts = 3,
    kSqd = 4,
    kSqe = 5,
    kErr = 6
};

enum class QpType : uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcRecv = 10 };

// Whether each message is acknowledged, or it fails.
constexpr bool is_reliable(QpType type) {
    return type != QpType::kUc && type != QpType::kUd;
}

// Bits of the attribute mask of ibv_modify_qp().
namespace qp_attr {
constexpr uint32_t kState = 1u << 0;
constexpr uint32_t kCurState = 1u << 1;
constexpr uint32_t kEnSqdAsyncNotify = 1u << 2;
constexpr uint32_t kAccessFlags = 1u << 3;
constexpr uint32_t kPkeyIndex = 1u << 4;
constexpr uint32_t kPort = 1u << 5;
constexpr uint32_t kQkey = 1u << 6;
constexpr uint32_t kAv = 1u << 7;
constexpr uint32_t kPathMtu = 1u << 8;
constexpr uint32_t kTimeout = 1u << 9;
constexpr uint32_t kRetryCnt = 1u << 10;
constexpr uint32_t kRnrRetry = 1u << 11;
constexpr uint32_t kRqPsn = 1u << 12;
constexpr uint32_t kMaxQpRdAtomic = 1u << 13;
constexpr uint32_t kAltPath = 1u << 14;
constexpr uint32_t kMinRnrTimer = 1u << 15;
constexpr uint32_t kSqPsn = 1u << 16;
constexpr uint32_t kMaxDestRdAtomic = 1u << 17;
constexpr uint32_t kPathMigState = 1u << 18;
constexpr uint32_t kCap = 1u << 19;
constexpr uint32_t kDestQpn = 1u << 20;
constexpr uint32_t kRateLimit = 1u << 25;
}  // namespace qp_attr

// The attributes that other processes read: those of the responder, and what its peer must fit.
struct ResponderAttributes {
    uint32_t link = 0;    // device * kMaxPorts + port - 1
    uint32_t access = 0;  // access flags: the remote operations that the queue pair permits
    uint32_t qkey = 0;
    uint32_t peer_number = 0;
    uint32_t peer_link = 0;
    uint32_t receive_psn = 0;  // the first ones
    uint32_t send_psn = 0;
    uint8_t path_mtu = 0;  // code
    uint8_t min_rnr_timer = 0;
    uint8_t max_dest_rd_atomic = 0;
    struct Paths {
        uint8_t own = 0;  // path bits of the LIDs
        uint8_t peer = 0;
    } paths;
};

struct RequesterAttributes {
    uint8_t retry_count = 0;
    uint8_t rnr_retry = 0;
    uint8_t timeout = 0;
    uint8_t max_rd_atomic = 0;
    bool drained_event = false;
};

// A modification. A field is valid if `mask` (qp_attr bits) names it.
struct QpChange {
    uint32_t mask = 0;
    QpState state = QpState::kReset;
    ResponderAttributes responder;
    RequesterAttributes requester;
};

// The attribute mask of one transition, without kState.
struct QpTransition {
    bool allowed;
    uint32_t required;
    uint32_t optional;
};

// The rule for one transition of one transport; `allowed` is false if there is no such transition.
QpTransition qp_transition(QpType type, QpState from, QpState to);

// Whether ibv_modify_qp() with this mask may take a queue pair from `from` to `to`: the transition
// exists, all required attributes are given, and no others but optional ones. For a mask without
// kState, pass `to` == `from`.
bool qp_transition_allowed(QpType type, QpState from, QpState to, uint32_t mask);

// Whether work requests may be posted to the send queue (in sqd they wait; in sqe and err they are
// flushed).
bool can_post_send(QpState state);
// Whether work requests may be posted to the receive queue (in err they are flushed).
bool can_post_recv(QpState state);
// Whether arriving requests are answered.
bool responds(QpState state);
// Whether new work requests of the send queue are started.
bool sends(QpState state);

// Waiting time of an RNR NAK timer code (its 5 low bits) in ns.
uint64_t rnr_timer_ns(uint8_t code);
// Local ACK timeout of a code (its 5 low bits) in ns; 0 means that there is none.
uint64_t ack_timeout_ns(uint8_t code);
// Bytes of a path MTU code 1..5; 0 for any other code.
uint32_t mtu_bytes(uint8_t code);

}  // namespace softhca
