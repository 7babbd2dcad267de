// SPDX-License-Identifier: BSD-3-Clause
// A rank that is replayed: a context and a worker of UCP of its own, and the buffers of its trace.
#pragma once

#include <ucp/api/ucp.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/replay/trace.h"
#include "bench/sim/machine.h"

namespace bench::replay {

class Rank {
  public:
    // `compute`: by which computations are multiplied.
    Rank(sim::Machine& machine, uint32_t rank, const sim::TransportCosts& costs, const Trace& trace,
         double compute);
    Rank(const Rank&) = delete;
    Rank& operator=(const Rank&) = delete;

    std::string address() const;
    // Makes the endpoint, and begins the exchange of an empty message.
    void connect(uint32_t peer, const std::string& address);
    void expect_connection();
    // Whether all that has been begun has ended.
    bool settled();

    // Executes an event, or polls once for what the program waits for.
    void step();
    void poll();
    // Nothing is left to do but to answer others.
    bool done() const { return next_ == trace_.events.size() && sends_.empty(); }
    // Counts what was done, polls that found nothing apart.
    uint64_t progressed() const { return progressed_; }
    uint64_t computed() const { return computed_; }  // ns
    // What it does next, for errors.
    std::string place() const;
    // Whether the program came there because something had ended or arrived first.
    bool chose() const;

  private:
    // Buffers that overlap in the trace.
    struct Memory {
        char* start;
        uint64_t bytes;
    };

    void lay_out_buffers();
    char* buffer(uint64_t address) const;
    void give_back(uint64_t begin, uint64_t end) const;
    bool execute(const Event& event);
    void began(uint64_t id, void* request);
    bool ended(uint64_t id);

    sim::Machine& machine_;
    const sim::TransportCosts& costs_;
    const Trace& trace_;
    const double compute_;
    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    std::map<uint64_t, ucp_ep_h> endpoints_;  // by rank
    std::map<uint64_t, Memory> buffers_;      // by the first address in the trace
    std::vector<void*> requests_;             // by identifier; null: ended
    std::vector<uint64_t> sends_;             // at the end of the trace, those not waited for
    std::vector<void*> settling_;
    ucp_tag_message_h probed_ = nullptr;
    size_t next_ = 0;  // event
    uint64_t progressed_ = 0;
    uint64_t computed_ = 0;
};

}  // namespace bench::replay
