// SPDX-License-Identifier: BSD-3-Clause
// One connection between two processes of a team.
#pragma once

#include <cstddef>
#include <cstdint>

#include "process.h"
#include "qp.h"

namespace conformance {

// Remote memory that a process may write and read. Plain bytes.
struct Window {
    uint64_t addr;
    uint32_t rkey;
    uint32_t size;
};

// One process's part of a connection: device, memory, and an endpoint that is connected through the
// link.
struct Side {
    Side(Link& link, const QpSpec& spec, std::size_t bytes)
        : mem(pd.get(), bytes), end(hca, pd.get(), spec) {
        link.send(as_peer(hca, end.qp.get(), spec));
        peer = link.receive<Peer>();
        bring_up(hca, end.qp.get(), spec, peer);
        // Both sides pass this exchange only when both are ready: neither sends too early.
        link.send(Window{mem.addr(), mem.rkey(), static_cast<uint32_t>(bytes)});
        window = link.receive<Window>();
    }
    Hca hca;
    Pd pd = hca.make_pd();
    Region mem;
    Endpoint end;
    Peer peer;
    Window window;
};

// The test's part of connecting two sides: passes on their messages.
inline void introduce(Team& team, int one, int other) {
    exchange<Peer>(team[one], team[other]);
    exchange<Window>(team[one], team[other]);
}

}  // namespace conformance
