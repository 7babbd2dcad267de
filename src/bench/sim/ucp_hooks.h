// SPDX-License-Identifier: BSD-3-Clause
// What else is replaced of UCX, beside alone.cc, where UCP or librwapi runs: threads of workers and
// of UCX's registration cache; and messages are counted.
#pragma once

#include <ucp/api/ucp.h>
#include <ucs/async/async_fwd.h>

#include "bench/sim/machine.h"

namespace bench::sim {

// Active messages that UCT has copied so far.
extern uint64_t copied;

// Progresses the worker, and spends the time of that: UCP's and the transport's, also for each
// active message that the transport has handed to UCP. Returns how much was done.
unsigned poll_worker(ucp_worker_h worker, Machine& machine, const TransportCosts& costs);

// Sends `bytes` by `call`, which returns UCP's request or null, and spends the time of the message
// that is not UCP's, nor a work request's: that of one that has gone with others, or of a copy.
template <class Call>
void* send_by(Machine& machine, const TransportCosts& costs, uint64_t bytes, Call&& call) {
    const SendAppended appended(machine);
    const uint64_t before = copied;
    void* const request = call();
    machine.spend(appended && request == nullptr ? costs.append_ns(bytes, bytes <= kUcp.most_short)
                                                 : costs.copied_ns(copied - before));
    return request;
}

// In timers.cc: a handler that UCX's asynchronous thread would call, of which simulations have
// none. False: it is not that of a timer.
bool add_timer(int fd, ucs_async_event_cb_t handler, void* argument);

}  // namespace bench::sim
