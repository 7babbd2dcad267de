// SPDX-License-Identifier: BSD-3-Clause
// Queue pair states: the transitions, their attributes, and what a queue pair may do in each state.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace softhca {

// Values of enumerations and constants are those of the verbs ABI, so that conversion is a cast.
enum class QpState : uint8_t {
    kReset = IBV_QPS_RESET,
    kInit = IBV_QPS_INIT,
    kRtr = IBV_QPS_RTR,
    kRts = IBV_QPS_RTS,
    kSqd = IBV_QPS_SQD,
    kSqe = IBV_QPS_SQE,
    kErr = IBV_QPS_ERR
};

enum class QpType : uint8_t {
    kRc = IBV_QPT_RC,
    kUc = IBV_QPT_UC,
    kUd = IBV_QPT_UD,
    kXrcSend = IBV_QPT_XRC_SEND,
    kXrcRecv = IBV_QPT_XRC_RECV
};

// Whether each message is acknowledged, or it fails.
constexpr bool is_reliable(QpType type) {
    return type != QpType::kUc && type != QpType::kUd;
}

// Bits of the attribute mask of ibv_modify_qp().
namespace qp_attr {
constexpr uint32_t kState = IBV_QP_STATE;
constexpr uint32_t kCurState = IBV_QP_CUR_STATE;
constexpr uint32_t kEnSqdAsyncNotify = IBV_QP_EN_SQD_ASYNC_NOTIFY;
constexpr uint32_t kAccessFlags = IBV_QP_ACCESS_FLAGS;
constexpr uint32_t kPkeyIndex = IBV_QP_PKEY_INDEX;
constexpr uint32_t kPort = IBV_QP_PORT;
constexpr uint32_t kQkey = IBV_QP_QKEY;
constexpr uint32_t kAv = IBV_QP_AV;
constexpr uint32_t kPathMtu = IBV_QP_PATH_MTU;
constexpr uint32_t kTimeout = IBV_QP_TIMEOUT;
constexpr uint32_t kRetryCnt = IBV_QP_RETRY_CNT;
constexpr uint32_t kRnrRetry = IBV_QP_RNR_RETRY;
constexpr uint32_t kRqPsn = IBV_QP_RQ_PSN;
constexpr uint32_t kMaxQpRdAtomic = IBV_QP_MAX_QP_RD_ATOMIC;
constexpr uint32_t kAltPath = IBV_QP_ALT_PATH;
constexpr uint32_t kMinRnrTimer = IBV_QP_MIN_RNR_TIMER;
constexpr uint32_t kSqPsn = IBV_QP_SQ_PSN;
constexpr uint32_t kMaxDestRdAtomic = IBV_QP_MAX_DEST_RD_ATOMIC;
constexpr uint32_t kPathMigState = IBV_QP_PATH_MIG_STATE;
constexpr uint32_t kCap = IBV_QP_CAP;
constexpr uint32_t kDestQpn = IBV_QP_DEST_QPN;
constexpr uint32_t kRateLimit = IBV_QP_RATE_LIMIT;
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
