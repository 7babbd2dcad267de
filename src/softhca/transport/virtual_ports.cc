// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/virtual_ports.h"

#include "softhca/fabric/clock.h"
#include "softhca/transport/requester.h"

namespace softhca {

namespace {

// Of the requests of a queue pair, or of the answers to it.
uint64_t flow_of(const Requester& requester, bool answers) {
    return reinterpret_cast<uint64_t>(&requester) | (answers ? 1 : 0);
}

Requester& requester_of(uint64_t flow) {
    return *reinterpret_cast<Requester*>(flow & ~uint64_t{1});
}

}  // namespace

std::optional<Part> VirtualPorts::add(uint32_t member, const LinkPair& link,
                                      const NicParameters& nic, Requester& requester,
                                      const PortTurns::Waiting& waiting, uint64_t now) {
    const auto [found, is_new] = ports_.try_emplace(&link);
    Port& port = found->second;
    if (is_new) {
        port.member = member;
        ports_of_[member].push_back(&port);
    }
    const bool leaves = waiting.ready <= now && port.turns.is_idle(waiting.ready);
    port.turns.add(flow_of(requester, waiting.request.reads()), waiting);
    const std::optional<Part> left =
        leaves ? std::optional(port.turns.take(nic).part) : std::nullopt;
    note_event(port);
    return left;
}

void VirtualPorts::act(uint32_t member, const NicParameters& nic, uint64_t now) {
    // A request that has left may let another one wait at a port that is new.
    for (size_t i = 0; i < ports_of_[member].size(); ++i) {
        Port& port = *ports_of_[member][i];
        port.event = PortTurns::kNever;
        while (port.turns.next() <= now) {
            const PortTurns::Packet packet = port.turns.take(nic);
            requester_of(packet.flow).take_turn(packet);
        }
        note_event(port);
    }
}

void VirtualPorts::drop(const Requester& requester) {
    for (auto& [link, port] : ports_)
        for (const bool answers : {false, true}) port.turns.drop(flow_of(requester, answers));
}

void VirtualPorts::note_event(Port& port) {
    const uint64_t next = port.turns.next();
    if (next == port.event) return;
    port.event = next;
    note_acts(port.member, next);
}

}  // namespace softhca
