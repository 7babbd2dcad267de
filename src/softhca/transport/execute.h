// SPDX-License-Identifier: BSD-3-Clause
// One step of one work request: what the wire and the responder would do. Each returns what the
// requester learns.
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/process_memory.h"
#include "transport/wqe.h"

namespace softhca {

class Adapter;
class Qp;

struct Outcome {
    enum class Kind : uint8_t {
        complete,  ///< with `status`
        again,  ///< call again at `time`, by the model's clock or after a fault's pause; 0: at once
        rnr,    ///< the responder has no receive; `time` is its timer
        no_response,  ///< no answer
    };
    Kind kind;
    WcStatus status = WcStatus::success;
    uint64_t time = 0;

    static Outcome complete(WcStatus status = WcStatus::success) {
        return {Kind::complete, status, 0};
    }
    static Outcome again(uint64_t at) { return {Kind::again, WcStatus::success, at}; }
    static Outcome rnr(uint64_t timer) { return {Kind::rnr, WcStatus::success, timer}; }
    static Outcome no_response() { return {Kind::no_response, WcStatus::success, 0}; }
};

/// Runs the work request as far as it gets at `now`. The caller holds the queue pair's execute
/// lock.
Outcome execute(Qp& qp, Wqe& wqe, uint64_t now);

// The operations behind it.
Outcome execute_send(Qp& qp, Wqe& wqe, uint64_t now);      ///< sends of connected transports
Outcome execute_datagram(Qp& qp, Wqe& wqe, uint64_t now);  ///< UD
Outcome execute_write(Qp& qp, Wqe& wqe, uint64_t now);  ///< RDMA write, with and without immediate
Outcome execute_read(Qp& qp, Wqe& wqe, uint64_t now);
Outcome execute_atomic(Qp& qp, Wqe& wqe, uint64_t now);
Outcome execute_bind(Qp& qp, Wqe& wqe);
Outcome execute_invalidate(Qp& qp, Wqe& wqe);

/// The other end of a connection. While it lives, neither that process nor this one frees what an
/// operation may touch.
class Target {
  public:
    explicit Target(Qp& sender);
    /// Looks the peer up. False: nobody answers there.
    bool find(Qp& sender, const Wqe& wqe);

    QpShared* qp = nullptr;
    uint32_t qp_number;
    SrqShared* srq =
        nullptr;    ///< where a message's receive comes from; nullptr: the queue pair's own queue
    uint32_t slot;  ///< whose memory the operation is on
    uint32_t pd = 0;
    uint32_t cq = 0;
    bool bad_srq = false;  ///< XRC: the addressed queue isn't there, or is of another domain

  private:
    AccessGuard guard_;
    std::optional<AccessGuard> srq_guard_;
};

/// Lists the local memory of a work request; the caller holds an AccessGuard, whoever it names.
/// False: a key does not allow it.
bool build_gather_list(Qp& qp, Wqe& wqe, uint32_t need, IovList* list);

/// How the timing model acts on the bytes of a message.
enum class Placement : uint8_t {
    by_packet,  ///< each packet is placed when it has arrived: RDMA
    at_once,    ///< the whole message is placed early, and only its completions are delayed: sends
};

/// Moves the rest of the message, as far as the model and the faults let it. `complete` with
/// success when all is done. On a move that failed: *failed says how, and the outcome has no
/// meaning.
Outcome place_message(Qp& qp, Wqe& wqe, const Target& target, const KeyEntry* key,
                      const IovList& local, const IovList& remote, Placement placement,
                      uint64_t now, CopyResult* failed);

/// When a completion at the receiver may be seen; 0 if nothing is modeled.
uint64_t receive_visible_at(Qp& qp, const Wqe& wqe, uint64_t now);

}  // namespace softhca
