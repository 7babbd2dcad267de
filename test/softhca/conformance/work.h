// SPDX-License-Identifier: BSD-3-Clause
// Work requests that are built in one expression, and waiting for their completions and events.
#pragma once

#include <infiniband/verbs.h>

#include <initializer_list>
#include <vector>

#include "device.h"

namespace conformance {

// A send work request, signalled by default. Movable only before it is posted.
class SendWr {
  public:
    explicit SendWr(ibv_wr_opcode opcode, uint64_t id = 0);

    SendWr& sge(ibv_sge element);
    SendWr& sges(const std::vector<ibv_sge>& elements);
    SendWr& flags(unsigned send_flags);  // replaces IBV_SEND_SIGNALED
    SendWr& imm(uint32_t host_order);
    SendWr& remote(uint64_t addr, uint32_t rkey);
    SendWr& remote(const Region& region, std::size_t offset = 0);
    SendWr& atomic(uint64_t addr, uint32_t rkey, uint64_t compare_add, uint64_t swap = 0);
    SendWr& to(ibv_ah* ah, uint32_t qpn, uint32_t qkey);
    SendWr& srqn(uint32_t number);

    // The raw work request with its gather list.
    ibv_send_wr& raw();

    // Posts the work request alone. Returns 0 or the error; on error it checks that bad_wr is this
    // request.
    int post(ibv_qp* qp);
    int post(const Qp& qp) { return post(qp.get()); }

  private:
    ibv_send_wr wr_{};
    std::vector<ibv_sge> sges_;
};

// A receive work request for a queue pair or a shared receive queue.
class RecvWr {
  public:
    explicit RecvWr(uint64_t id = 0) { wr_.wr_id = id; }

    RecvWr& sge(ibv_sge element);
    RecvWr& sges(const std::vector<ibv_sge>& elements);
    ibv_recv_wr& raw();
    int post(ibv_qp* qp);
    int post(const Qp& qp) { return post(qp.get()); }
    int post(ibv_srq* srq);
    int post(const Srq& srq) { return post(srq.get()); }

  private:
    ibv_recv_wr wr_{};
    std::vector<ibv_sge> sges_;
};

// Returns exactly `count` completions, in order; throws when the deadline passes first.
std::vector<ibv_wc> poll(ibv_cq* cq, int count);
inline std::vector<ibv_wc> poll(const Cq& cq, int count) {
    return poll(cq.get(), count);
}
ibv_wc poll_one(ibv_cq* cq);
inline ibv_wc poll_one(const Cq& cq) {
    return poll_one(cq.get());
}

// Whether the completion queue stays empty during kQuiet.
testing::AssertionResult quiet(ibv_cq* cq);
inline testing::AssertionResult quiet(const Cq& cq) {
    return quiet(cq.get());
}

// Whether `wc` is the completion of the work request `id` with `status`.
testing::AssertionResult is_done(const ibv_wc& wc, uint64_t id,
                                 ibv_wc_status status = IBV_WC_SUCCESS);

// Whether the next completions are those of `ids`, in order, all with `status`.
testing::AssertionResult next_are(ibv_cq* cq, const std::vector<uint64_t>& ids,
                                  ibv_wc_status status = IBV_WC_SUCCESS);
inline testing::AssertionResult next_are(const Cq& cq, const std::vector<uint64_t>& ids,
                                         ibv_wc_status status = IBV_WC_SUCCESS) {
    return next_are(cq.get(), ids, status);
}

// Whether a descriptor becomes readable within `limit`.
bool readable(int fd, milliseconds limit);

// Waits for the asynchronous event `type`, ignores other events, and acknowledges all of them.
ibv_async_event wait_event(const Hca& hca, ibv_event_type type);

// Whether no event `type` comes during kQuiet; other events are consumed.
testing::AssertionResult no_event(const Hca& hca, ibv_event_type type);

// Waits for a completion event on the channel and acknowledges it; returns its completion queue.
ibv_cq* wait_cq_event(ibv_comp_channel* channel);

}  // namespace conformance
