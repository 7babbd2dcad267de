// SPDX-License-Identifier: BSD-3-Clause
// One connection between two processes of a team.
#pragma once

#include <cstddef>
#include <cstdint>

#include "process.h"
#include "qp.h"

namespace conformance {

// Where a process may be written to and read from. Plain bytes.
struct Window {
    uint64_t addr;
    uint32_t rkey;
    uint32_t size;
};

// One process's share of a connection: device, memory, endpoint, connected through the link.
struct Side {
    Side(Link& link, const QpSpec& spec, std::size_t bytes)
        : mem(pd.get(), bytes), end(hca, pd.get(), spec) {
        link.send(as_peer(hca, end.qp.get(), spec));
        peer = link.receive<Peer>();
        bring_up(hca, end.qp.get(), spec, peer);
        // Nobody sends before both are ready.
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

// The test's part in connecting two sides.
inline void introduce(Team& team, int one, int other) {
    exchange<Peer>(team[one], team[other]);
    exchange<Window>(team[one], team[other]);
}

}  // namespace conformance
