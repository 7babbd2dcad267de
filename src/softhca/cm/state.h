// SPDX-License-Identifier: BSD-3-Clause
// The life of a connection identifier of rdma_cm, as a table: what the program or its peer does in
// a state, which state follows, which event the program gets, and which message the peer gets.
//
// Datagrams have no connection: a reply with the queue pair's number resolves the service.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>

#include "softhca/cm/message.h"

namespace softhca::cm {

enum class State : uint8_t {
    kIdle,
    kBound,
    kAddress,
    kRoute,
    kListening,
    kArriving,  // of a listener's new connection, from which no request has come yet
    kConnecting,
    kReplied,
    kRequested,
    kAccepted,
    kConnected,
    kDisconnecting,
    kDisconnected,
    kResolved,  // a datagram service: nothing is left to do
    kFailed,
};
constexpr int kStates = static_cast<int>(State::kFailed) + 1;

enum class Input : uint8_t {
    // of the program
    kBind,
    kResolveAddress,
    kResolveRoute,
    kListen,
    kConnect,
    kAccept,
    kEstablish,
    kReject,
    kDisconnect,
    kNotify,  // that its queue pair has received
    // of the peer
    kRequest,
    kReply,
    kReplyDatagram,
    kRejected,
    kRejectedDatagram,
    kReady,
    kDisconnectRequest,
    kDisconnectReply,
    // of the connection to the peer
    kRefused,  // nobody listens
    kRefusedDatagram,
    kHangUp,   // the peer has gone, or has destroyed its identifier
    kTimeout,  // the peer does not answer
};
constexpr int kInputs = static_cast<int>(Input::kTimeout) + 1;

struct Step {
    State next;
    std::optional<rdma_cm_event_type> event = {};
    int status = 0;  // of the event
    std::optional<MessageKind> message = {};
};

// What follows; nothing if the input does not fit the state: then the program's call fails with
// EINVAL, and what comes from the peer has no effect.
std::optional<Step> step(State state, Input input, bool datagram = false);

// What a peer is told when the program destroys an identifier in this state; nothing where the end
// of the connection says enough.
std::optional<MessageKind> farewell(State state);

}  // namespace softhca::cm
