// SPDX-License-Identifier: BSD-3-Clause
// The responder: takes receives, fills them, and fails. The process that delivers a message runs it
// in the segment, under the queue pair's lock.
#pragma once

#include <cstdint>
#include <span>

#include "softhca/fabric/process_memory.h"

namespace softhca {

class Adapter;

// Takes the lock of an SRQ; repairs what a dead holder left.
void lock_srq(Host& host, SrqShared& srq);

// Holds the lock of a queue pair while it lives.
class ResponderLock {
  public:
    ResponderLock(Host& host, QpShared& qp);
    ~ResponderLock() { qp_.lock.unlock(); }
    ResponderLock(const ResponderLock&) = delete;
    ResponderLock& operator=(const ResponderLock&) = delete;

  private:
    QpShared& qp_;
};

// The receive for the next message to `qp`: the claimed one, or the next one of the shared queue
// `srq` (0: of the queue pair's own queue), which it claims. nullptr if none is posted, or the
// shared queue is destroyed. Under the queue pair's lock.
RecvWqe* claim_receive(Adapter& adapter, QpShared& qp, uint32_t srq);
// Claims a receive for a message that will not come, if the queue pair has used receives of its
// shared queue and has none now. Under the queue pair's lock.
void claim_ahead(Adapter& adapter, QpShared& qp);
// Claims the next receive of the queue pair's own queue. False if none is posted.
bool claim_own_receive(Host& host, QpShared& qp);
// The claimed receive; nullptr if there is none.
RecvWqe* claimed_receive(Host& host, QpShared& qp);

// The shared queue of the claimed receive; nullptr if it is the queue pair's own, or destroyed.
SrqShared* srq_of_claim(Host& host, const QpShared& qp);
// The completion queue of the claimed receive; nullptr if it is destroyed.
CqShared* cq_of_claim(Host& host, const QpShared& qp);

// The process that posted the claimed receive.
uint32_t claim_owner(const QpShared& qp);
// Completes the claimed receive, if any, with the flush status. Under the queue pair's lock.
void flush_claim(Adapter& adapter, QpShared& qp, uint32_t qp_number);

// Lists the memory of a receive, checked against the keys of process `slot` and protection domain
// `pd`. False if the device may not write an element.
bool build_scatter_list(Host& host, std::span<const Sge> receive, uint32_t slot, uint32_t pd,
                        uint32_t qp, IovList* list);

// A completion of the claimed receive, visible at `visible_at`, but not before the queue pair's
// earlier completions. Writing the completion ends the claim. Under the queue pair's lock.
Completion receive_completion(QpShared& qp, uint32_t qp_number, const RecvWqe& receive,
                              uint64_t visible_at);

// Puts the queue pair into the error state, and notifies its owner of `why` (Notice bits). Under
// its lock.
void fail_responder(Adapter& adapter, QpShared& qp, uint32_t qp_number, uint32_t why);

// Reports the first message on a connection to the owner of `qp`.
void report_established(Adapter& adapter, QpShared& qp, uint32_t qp_number);

}  // namespace softhca
