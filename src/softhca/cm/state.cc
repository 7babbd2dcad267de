// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/state.h"

#include <cerrno>

namespace softhca::cm {

namespace {

constexpr auto kSilent = std::optional<rdma_cm_event_type>{};
constexpr auto kTellsNobody = std::optional<MessageKind>{};

struct Row {
    State state;
    Input input;
    Step step;
};

using enum State;
using enum Input;

// The reasons of a rejection and the errors are those that Linux reports over InfiniBand.
constexpr Row kRows[] = {
    {kIdle, kBind, {kBound, kSilent, 0, kTellsNobody}},
    {kIdle, kListen, {kListening, kSilent, 0, kTellsNobody}},
    {kIdle, kResolveAddress, {kAddress, RDMA_CM_EVENT_ADDR_RESOLVED, 0, kTellsNobody}},
    {kBound, kListen, {kListening, kSilent, 0, kTellsNobody}},
    {kBound, kResolveAddress, {kAddress, RDMA_CM_EVENT_ADDR_RESOLVED, 0, kTellsNobody}},
    {kAddress, kResolveRoute, {kRoute, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, kTellsNobody}},
    {kRoute, kConnect, {kConnecting, kSilent, 0, MessageKind::kRequest}},

    {kConnecting, kReply, {kReplied, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, kTellsNobody}},
    {kConnecting, kReplyDatagram, {kResolved, RDMA_CM_EVENT_ESTABLISHED, 0, kTellsNobody}},
    {kConnecting, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer, kTellsNobody}},
    {kConnecting,
     kRejectedDatagram,
     {kFailed, RDMA_CM_EVENT_UNREACHABLE, reason::kDatagramRejected, kTellsNobody}},
    {kConnecting, kRefused, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kNoService, kTellsNobody}},
    {kConnecting,
     kRefusedDatagram,
     {kFailed, RDMA_CM_EVENT_UNREACHABLE, reason::kDatagramUnsupported, kTellsNobody}},
    {kConnecting, kHangUp, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, kTellsNobody}},
    {kConnecting, kTimeout, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, kTellsNobody}},

    {kReplied, kEstablish, {kConnected, kSilent, 0, MessageKind::kReady}},
    {kReplied, kAccept, {kConnected, kSilent, 0, MessageKind::kReady}},
    {kReplied, kReject, {kFailed, kSilent, 0, MessageKind::kReject}},
    {kReplied, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer, kTellsNobody}},
    {kReplied, kHangUp, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kTimeout, kTellsNobody}},

    {kArriving, kRequest, {kRequested, RDMA_CM_EVENT_CONNECT_REQUEST, 0, kTellsNobody}},
    {kRequested, kAccept, {kAccepted, kSilent, 0, MessageKind::kReply}},
    {kRequested, kReject, {kFailed, kSilent, 0, MessageKind::kReject}},
    // Linux tells a program nothing of a request that it has not accepted: accepting it fails.
    {kRequested, kHangUp, {kFailed, kSilent, 0, kTellsNobody}},
    {kAccepted, kReady, {kConnected, RDMA_CM_EVENT_ESTABLISHED, 0, kTellsNobody}},
    {kAccepted, kNotify, {kConnected, RDMA_CM_EVENT_ESTABLISHED, 0, kTellsNobody}},
    {kAccepted, kRejected, {kFailed, RDMA_CM_EVENT_REJECTED, reason::kByConsumer, kTellsNobody}},
    {kAccepted, kHangUp, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, kTellsNobody}},
    {kAccepted, kTimeout, {kFailed, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, kTellsNobody}},

    {kConnected, kReady, {kConnected, kSilent, 0, kTellsNobody}},   // behind a notification
    {kConnected, kNotify, {kConnected, kSilent, 0, kTellsNobody}},  // behind "ready"
    {kConnected, kDisconnect, {kDisconnecting, kSilent, 0, MessageKind::kDisconnect}},
    {kConnected,
     kDisconnectRequest,
     {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, MessageKind::kDisconnectReply}},
    {kConnected, kHangUp, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, kTellsNobody}},

    {kDisconnecting, kDisconnect, {kDisconnecting, kSilent, 0, kTellsNobody}},
    {kDisconnecting,
     kDisconnectRequest,
     {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, kTellsNobody}},
    {kDisconnecting,
     kDisconnectReply,
     {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, kTellsNobody}},
    {kDisconnecting, kHangUp, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, kTellsNobody}},
    {kDisconnecting, Input::kTimeout, {kDisconnected, RDMA_CM_EVENT_DISCONNECTED, 0, kTellsNobody}},
    {kDisconnected, kDisconnect, {kDisconnected, kSilent, 0, kTellsNobody}},
    {kDisconnected, kTimeout, {kDisconnected, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, kTellsNobody}},
};

// As Linux, which then has nobody to tell, and says that all is well.
bool has_no_connection(State state) {
    return state == kConnecting || state == kReplied || state == kRequested || state == kAccepted ||
           state == kResolved || state == kFailed;
}

}  // namespace

std::optional<Step> step(State state, Input input, bool datagram) {
    if (input == Input::kDisconnect && has_no_connection(state))
        return Step{state, kSilent, 0, kTellsNobody};
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
