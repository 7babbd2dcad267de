// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "tern/connection/handshake.h"
#include "tern/verbs/port.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

// Makes and connects the reliable queue pairs of an interface. Immutable, so for any thread.
struct QueuePairs {
    ibv_pd* pd;
    ibv_cq* cq;  // for every queue pair
    ibv_srq* srq;
    verbs::Port port;
    verbs::QueueSizes sizes;  // `sends`: of a long send queue
    uint32_t later_sends;     // places of a later one
    verbs::RetrySettings retry;
    InterfaceAddress own;

    // Creates a queue pair whose send queue has `sends` places. Null on failure: `what` and errno
    // say why.
    verbs::QueuePair create(uint32_t sends, const char*& what) const;
    // What a connection sends the peer about `qp`.
    QpParameters parameters(const ibv_qp& qp) const;
    // Connects `qp` to the queue pair that the peer has offered. Returns 0 or an errno value.
    int connect(ibv_qp* qp, const PeerAddress& peer, const Handshake& handshake) const;
};

}  // namespace tern
