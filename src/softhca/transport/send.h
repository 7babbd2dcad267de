// SPDX-License-Identifier: BSD-3-Clause
// Delivery of a message that takes a receive: a send, or an RDMA write with immediate.
#pragma once

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"

namespace softhca {

// Claims the receive for the message. nullptr if there is none; then *outcome is for
// the requester: kAgain before the message's arrival, then kRnr for reliable transports, a
// dropped message for others. Under the responder's lock.
const RecvWqe* find_receive(Qp& qp, const Wqe& wqe, Target& target, Outcome* outcome);

// Completes the claimed receive of the message. Under the responder's lock.
Outcome complete_receive(Qp& qp, const Wqe& wqe, Target& target, const RecvWqe& receive,
                         uint64_t now);

// Refuses the request: a NAK with `status` and the error state for reliable transports, a dropped
// message for others. Under the responder's lock.
Outcome refuse_request(Qp& qp, const Wqe& wqe, Target& target, WcStatus status);

// Counts a message that an unreliable transport drops; its sender sees success.
Outcome drop_message(Qp& qp);

// For a peer that does not respond: no response for reliable transports, a dropped message for
// others.
Outcome peer_unreachable(Qp& qp);

}  // namespace softhca
