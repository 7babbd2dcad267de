// SPDX-License-Identifier: BSD-3-Clause
// How a message that takes a receive is delivered; for sends and for RDMA write with immediate.
#pragma once

#include "transport/cq.h"
#include "transport/execute.h"
#include "transport/qp.h"
#include "transport/responder.h"

namespace softhca {

class ResponderLock {
  public:
    ResponderLock(Host& host, QpShared& qp) : qp_(qp) { lock_qp(host, qp); }
    ~ResponderLock() { qp_.lock.unlock(); }
    ResponderLock(const ResponderLock&) = delete;
    ResponderLock& operator=(const ResponderLock&) = delete;

  private:
    QpShared& qp_;
};

/// Claims the receive the message goes into. Without one, nullptr and in *outcome what the
/// requester learns: not ready for reliable transports, a dropped message for the others. Under the
/// responder's lock.
const RecvWqe* find_receive(Qp& qp, const Wqe& wqe, Target& target, Outcome* outcome);

/// Completes the claimed receive with what the message carries. Under the responder's lock.
Outcome complete_receive(Qp& qp, const Wqe& wqe, Target& target, const RecvWqe& receive,
                         uint64_t now);

/// The responder refuses the request: a negative acknowledgement and a failed responder, or a
/// dropped message. Under the responder's lock.
Outcome refuse_request(Qp& qp, Target& target, WcStatus status);

/// A message of an unreliable transport that finds no taker: counted, and a success to its sender.
Outcome drop_message(Qp& qp);

/// Nobody is there: no response for reliable transports, success for the others.
Outcome peer_unreachable(Qp& qp);

}  // namespace softhca
