// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/port_turns.h"

#include <algorithm>

namespace softhca {

void PortTurns::add(uint64_t flow, const Waiting& waiting) {
    Flow& to = flows_[flow];
    to.waiting.push_back(waiting);
    if (to.waiting.size() == 1) line_up(flow, to, waiting.ready);
}

void PortTurns::drop(uint64_t flow) {
    const auto found = flows_.find(flow);
    if (found == flows_.end()) return;
    turns_.erase(found->second.turn);
    flows_.erase(found);
}

uint64_t PortTurns::next() const {
    return turns_.empty() ? kNever : std::max(turns_.begin()->since, free_at_);
}

PortTurns::Packet PortTurns::take(const NicParameters& nic) {
    const uint64_t start = next();
    const uint64_t id = turns_.begin()->flow;
    turns_.erase(turns_.begin());
    Flow& flow = flows_[id];
    const Waiting& first = flow.waiting.front();
    const uint64_t bytes = first.request.bytes;
    // What takes no time needs no turns.
    const bool whole = transmit_ns(nic, bytes) == 0;
    const Part part{flow.left, whole ? bytes : std::min(flow.left + kPacketBytes, bytes), start};
    const Packet packet{id, first.position, part};
    free_at_ = start + part_ns(nic, first.request, part);
    flow.left = part.end;
    if (part.end == bytes) {
        flow.left = 0;
        flow.waiting.pop_front();
    }
    if (!flow.waiting.empty()) line_up(id, flow, std::max(flow.waiting.front().ready, free_at_));
    return packet;
}

void PortTurns::line_up(uint64_t id, Flow& flow, uint64_t since) {
    flow.turn = {since, ++numbers_, id};
    turns_.insert(flow.turn);
}

}  // namespace softhca
