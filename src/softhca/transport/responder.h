// SPDX-License-Identifier: BSD-3-Clause
// The responder half of a queue pair: taking receives, filling them, and failing. Run by whoever
// delivers, in the segment, under the queue pair's lock.
#pragma once

#include <cstdint>

#include "fabric/process_memory.h"

namespace softhca {

class Adapter;

void lock_qp(Host& host, QpShared& qp);
void lock_srq(Host& host, SrqShared& srq);

/// The receive that the next message to `qp` goes into: the one already claimed, or the next of
/// `srq` (nullptr: of the queue pair's own queue). nullptr if nothing is posted. Under the queue
/// pair's lock.
RecvWqe* claim_receive(Adapter& adapter, QpShared& qp, SrqShared* srq);
/// Claims the next receive of the queue pair's own queue; false if none is posted.
bool claim_own_receive(Host& host, QpShared& qp);
/// The claimed receive, or nullptr.
RecvWqe* claimed_receive(Host& host, QpShared& qp);

/// The queue the claimed receive completes in; nullptr if it is gone.
CqShared* cq_of_claim(Host& host, const QpShared& qp);

/// The process whose receive is claimed.
uint32_t claim_owner(const QpShared& qp);
/// Ends the claimed receive, if there is one, with the flush status. Under the queue pair's lock.
void flush_claim(Adapter& adapter, QpShared& qp, uint32_t qp_number);

/// Checks a receive's elements against the keys of process `slot` and protection domain `pd`, and
/// lists the memory. False: an element is not what the device may write.
bool build_scatter_list(Host& host, const RecvWqe& receive, uint32_t slot, uint32_t pd, uint32_t qp,
                        IovList* list);

/// A completion for the claimed receive, seen not before `visible_at` nor before earlier ones of
/// the queue pair; it releases the claim when pushed. Under the queue pair's lock.
Completion receive_completion(QpShared& qp, uint32_t qp_number, const RecvWqe& receive,
                              uint64_t visible_at);

/// Puts a queue pair into the error state and tells its owner why. Under its lock.
void fail_responder(Adapter& adapter, QpShared& qp, uint32_t qp_number, uint32_t why);

/// Notes the first message on a connection.
void report_established(Adapter& adapter, QpShared& qp, uint32_t qp_number);

}  // namespace softhca
