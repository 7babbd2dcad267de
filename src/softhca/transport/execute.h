// SPDX-License-Identifier: BSD-3-Clause
// Executes work requests: what the wire and the responder would do. Each function makes one step of
// one request, and returns the outcome for the requester.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/fabric/process_memory.h"
#include "softhca/transport/wqe.h"

namespace softhca {

class Adapter;
class Qp;

struct Outcome {
    enum class Kind : uint8_t {
        kComplete,  // the work request is complete, with `status`
        kAgain,  // call again at `time` (ns): a packet's arrival or the end of a pause; 0: at once
        kRnr,    // the responder has no receive; `time` is its RNR timer in ns
        kNoResponse,  // the peer does not respond
    };
    Kind kind;
    WcStatus status = WcStatus::kSuccess;
    uint64_t time = 0;

    static Outcome complete(WcStatus status = WcStatus::kSuccess) {
        return {Kind::kComplete, status, 0};
    }
    static Outcome again(uint64_t at) { return {Kind::kAgain, WcStatus::kSuccess, at}; }
    static Outcome rnr(uint64_t timer) { return {Kind::kRnr, WcStatus::kSuccess, timer}; }
    static Outcome no_response() { return {Kind::kNoResponse, WcStatus::kSuccess, 0}; }
};

// Executes the work request as far as possible at `now` (ns). The caller holds the queue pair's
// execute_mutex_.
Outcome execute(Qp& qp, Wqe& wqe, uint64_t now);

// The operations, called by execute().
Outcome execute_send(Qp& qp, Wqe& wqe, uint64_t now);      // send on a connected transport
Outcome execute_datagram(Qp& qp, Wqe& wqe, uint64_t now);  // send on UD
Outcome execute_write(Qp& qp, Wqe& wqe, uint64_t now);     // with and without immediate
Outcome execute_answered(Qp& qp, Wqe& wqe, uint64_t now);  // read or atomic
Outcome execute_bind(Qp& qp, Wqe& wqe);
Outcome execute_invalidate(Qp& qp, Wqe& wqe);

// The responder of a connection. While a Target exists, neither that process nor this one frees
// what an operation may touch.
class Target {
  public:
    explicit Target(Qp& sender);
    // Looks up the responder. False if it does not respond.
    bool find(Qp& sender, const Wqe& wqe);

    QpShared* qp = nullptr;
    uint32_t qp_number;
    uint32_t srq = 0;  // number of the shared queue for receives; 0: the queue pair has its own
    uint32_t slot;     // the process whose memory the operation accesses
    uint32_t pd = 0;
    uint32_t cq = 0;
    // The responder refuses the request: XRC, there is no such SRQ, or its domain is another one;
    // or the attributes of the two sides do not fit the request.
    bool bad_request = false;

  private:
    AccessGuard guard_;
    std::optional<AccessGuard> srq_guard_;
};

// Lists the local memory of a work request, checked for the access rights `need`. False if a key
// does not permit the access. The caller holds an AccessGuard (on any process).
bool build_gather_list(Qp& qp, Wqe& wqe, uint32_t need, IovList* list);

// Places the rest of the message, as far as the timing model and the faults permit at `now` (ns): a
// packet is placed when it has arrived. kComplete when all is placed. If a copy fails, *failed is
// the reason, and the outcome has no meaning.
Outcome place_message(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry* key,
                      const IovList& local, const IovList& remote, uint64_t now,
                      CopyResult* failed);

// With the timing model: whether the message has not arrived yet, and when its next packet has.
bool under_way(Qp& qp, const Wqe& wqe);
// Whether the bytes need not wait for their arrival: in real time a send is complete when it is
// posted, but its completion is visible later, and so it does not depend on the sender's processor
// any more.
bool shows_at_completion(const Wqe& wqe);
uint64_t next_arrival(Qp& qp, const Wqe& wqe);

// With the timing model, a read or atomic has two steps: the responder acts, when the request has
// arrived there, and the answer arrives. The first step may be made while others of the queue pair
// are still to be answered; it sets wqe.state.acted.
bool acts_early(Qp& qp, const Wqe& wqe);
Outcome act_at_responder(Qp& qp, Wqe& wqe, uint64_t now);

// The `visible_at` of the receiver's completion in ns; 0 if completions are not delayed.
uint64_t receive_visible_at(Qp& qp, const Wqe& wqe, uint64_t now);

}  // namespace softhca
