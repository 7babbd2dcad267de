// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/state.h"

#include <cerrno>

namespace softhca::cm {

namespace {

constexpr auto kSilent = std::optional<rdma_cm_event_type>{};

struct Row {
    State state;
    Input input;
    Step step;
};

using enum State;
using enum Input;

// The reasons of a rejection and the errors are those that Linux reports over InfiniBand.
constexpr Row kRows[] = {
    {kIdle, kBind, {kBound}},
    {kIdle, kListen, {kListening}},
    {kIdle, kResolveAddress, {kAddress, RDMA_CM_EVENT_ADDR_RESOLVED}},
    {kBound, kListen, {kListening}},
    {kBound, kResolveAddress, {kAddress, RDMA_CM_EVENT_ADDR_RESOLVED}},
    {kAddress, kResolveRoute, {kRoute, RDMA_CM_EVENT_ROUTE_RESOLVED}},
    {kRoute, kConnect, {kConnecting, kSilent, 0, MessageKind::kRequest}},

    {kConnecting, kReply, {kReplied, RDMA_CM_EVENT_CONNECT_RESPONSE}},
    {kConnecting, kReplyDatagram, {kResolved, RDMA_CM_EVENT_ESTABLISHED}},
    {kConnecting, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer}},
    {kConnecting,
     kRejectedDatagram,
     {kFailed, RDMA_CM_EVENT_UNREACHABLE, reason::kDatagramRejected}},
    {kConnecting, kRefused, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kNoService}},
    {kConnecting,
     kRefusedDatagram,
     {kFailed, RDMA_CM_EVENT_UNREACHABLE, reason::kDatagramUnsupported}},
    {kConnecting, kHangUp, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}},
    {kConnecting, kTimeout, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}},

    {kReplied, kEstablish, {kConnected, kSilent, 0, MessageKind::kReady}},
    {kReplied, kAccept, {kConnected, kSilent, 0, MessageKind::kReady}},
    {kReplied, kReject, {kFailed, kSilent, 0, MessageKind::kReject}},
    {kReplied, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer}},
    {kReplied, kHangUp, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kTimeout}},

    {kArriving, kRequest, {kRequested, RDMA_CM_EVENT_CONNECT_REQUEST}},
    {kRequested, kAccept, {kAccepted, kSilent, 0, MessageKind::kReply}},
    {kRequested, kReject, {kFailed, kSilent, 0, MessageKind::kReject}},
    // Linux tells a program nothing of a request that it has not accepted: accepting it fails.
    {kRequested, kHangUp, {kFailed}},
    {kAccepted, kReady, {kConnected, RDMA_CM_EVENT_ESTABLISHED}},
    {kAccepted, kNotify, {kConnected, RDMA_CM_EVENT_ESTABLISHED}},
    {kAccepted, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer}},
    {kAccepted, kHangUp, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}},
    {kAccepted, kTimeout, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT}},

    {kConnected, kReady, {kConnected}},   // behind a notification
    {kConnected, kNotify, {kConnected}},  // behind "ready"
    {kConnected, kDisconnect, {kDisconnecting, kSilent, 0, MessageKind::kDisconnect}},
    {kConnected,
     kDisconnectRequest,
     {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, MessageKind::kDisconnectReply}},
    {kConnected, kHangUp, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED}},

    {kDisconnecting, kDisconnect, {kDisconnecting}},
    {kDisconnecting, kDisconnectRequest, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED}},
    {kDisconnecting, kDisconnectReply, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED}},
    {kDisconnecting, kHangUp, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED}},
    {kDisconnecting, Input::kTimeout, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED}},
    {kDisconnected, kDisconnect, {kDisconnected}},
    {kDisconnected, kTimeout, {kDisconnected, RDMA_CM_EVENT_TIMEWAIT_EXIT}},
};

// As Linux, which then has nobody to tell, and says that all is well.
bool has_no_connection(State state) {
    return state == kConnecting || state == kReplied || state == kRequested || state == kAccepted ||
           state == kResolved || state == kFailed;
}

}  // namespace

std::optional<Step> step(State state, Input input, bool datagram) {
    if (input == Input::kDisconnect && has_no_connection(state)) return Step{state};
    if (datagram && state == kRequested && input == Input::kAccept)
        return Step{kResolved, kSilent, 0, MessageKind::kReply};
    for (const Row& row : kRows)
        if (row.state == state && row.input == input) return row.step;
    return std::nullopt;
}

std::optional<MessageKind> farewell(State state) {
    switch (state) {
        case kArriving:
        case kRequested:
        case kReplied:
        case kAccepted:
            return MessageKind::kReject;
        default:
            return std::nullopt;
    }
}

}  // namespace softhca::cm
