// SPDX-License-Identifier: BSD-3-Clause
// In virtual time: the ports of all members, and whose packets wait for a turn there.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "softhca/core/port_turns.h"

namespace softhca {

class Requester;

class VirtualPorts {
  public:
    // A request of the requester waits at the port that its data leave. If nobody is before it, and
    // it is ready, its first part leaves: that is returned. The device of `member` acts for the
    // port, unless another one's does already.
    std::optional<Part> add(uint32_t member, const LinkPair& port, const NicParameters& nic,
                            Requester& requester, const PortTurns::Waiting& waiting, uint64_t now);
    // What is due at `now` at the ports for which the member's device acts.
    void act(uint32_t member, const NicParameters& nic, uint64_t now);
    // Forgets what is left of all requests of the requester.
    void drop(const Requester& requester);

  private:
    struct Port {
        PortTurns turns;
        uint32_t member = 0;
        uint64_t event = PortTurns::kNever;  // when its next one happens
    };
    static void note_event(Port& port);

    std::unordered_map<const LinkPair*, Port> ports_;
    std::unordered_map<uint32_t, std::vector<Port*>> ports_of_;  // a member
};

inline VirtualPorts virtual_ports;

}  // namespace softhca
