// SPDX-License-Identifier: BSD-3-Clause
// In virtual time: whose packet leaves a port next. Requests and answers wait in flows, each in its
// order; flows with something to send take turns, a packet each. Pure: one thread uses it.
#pragma once

#include <compare>
#include <cstdint>
#include <deque>
#include <set>
#include <unordered_map>

#include "softhca/core/nic_model.h"

namespace softhca {

class PortTurns {
  public:
    static constexpr uint64_t kNever = ~uint64_t{0};

    struct Waiting {
        uint64_t position;  // names it in its flow
        Request request;
        uint64_t ready;  // ns: not before that
    };
    struct Packet {
        uint64_t flow;
        uint64_t position;
        Part part;
    };

    void add(uint64_t flow, const Waiting& waiting);
    // Forgets what is left of a flow.
    void drop(uint64_t flow);
    // Whether a request that is ready at `time` would leave then.
    bool is_idle(uint64_t time) const { return turns_.empty() && free_at_ <= time; }
    // When the next packet leaves if nothing is added before.
    uint64_t next() const;
    // That packet, which there must be; it occupies the port as the model says.
    Packet take(const NicParameters& nic);

  private:
    // The flow that waits for the longest time is the next one. Of several, the one that has come
    // first.
    struct Turn {
        uint64_t since = 0;
        uint64_t number = 0;
        uint64_t flow = 0;
        auto operator<=>(const Turn&) const = default;
    };
    struct Flow {
        std::deque<Waiting> waiting;
        uint64_t left = 0;  // bytes of the first one that have left
        Turn turn;
    };
    void line_up(uint64_t id, Flow& flow, uint64_t since);

    std::unordered_map<uint64_t, Flow> flows_;
    std::set<Turn> turns_;  // of flows that are not empty
    uint64_t numbers_ = 0;
    uint64_t free_at_ = 0;
};

}  // namespace softhca
