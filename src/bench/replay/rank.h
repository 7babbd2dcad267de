// SPDX-License-Identifier: BSD-3-Clause
// A rank that is replayed, with the buffers of its trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bench/replay/trace.h"
#include "bench/sim/ucp_node.h"

namespace bench::replay {

class Rank : public sim::UcpNode {
  public:
    // `compute`: by which computations are multiplied.
    Rank(sim::Machine& machine, uint32_t rank, const sim::TransportCosts& costs, const Trace& trace,
         double compute);

    // Makes the endpoint to a rank, and begins to send it an empty message.
    void connect(uint32_t number, Rank& rank);
    // Whether all that has been begun has ended.
    bool settled();

    // Executes an event, or polls once for what the program waits for.
    void step();
    // Nothing is left to do but to answer others.
    bool is_over() const { return next_ == trace_.events.size() && sends_.empty(); }
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

    const Trace& trace_;
    const double compute_;
    std::map<uint64_t, ucp_ep_h> endpoints_;  // by rank
    std::map<uint64_t, Memory> buffers_;      // by the first address in the trace
    std::vector<void*> requests_;             // by identifier; null: ended
    std::vector<uint64_t> sends_;             // at the end of the trace, those not waited for
    std::vector<void*> settling_;
    ucp_tag_message_h probed_ = nullptr;
    size_t next_ = 0;  // event
    uint64_t computed_ = 0;
};

}  // namespace bench::replay
