// SPDX-License-Identifier: BSD-3-Clause
// The paths between two ports: several connections of one pair of interfaces take different ones.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <filesystem>

#include "tern/verbs/port.h"

namespace tern::verbs {

// An endpoint of UCP has no more lanes, so it could not use more paths.
constexpr unsigned kMostPaths = 16;

// The flow label of a path of RoCE, from which the kernel and the device derive the UDP source port
// of its packets. Bonds and switches choose a link by that port. `pair`: a random number for each
// pair of interfaces, so that pairs with one path each are on different links, too.
//
// The ports of the paths of a pair follow one another, as those of UCX's own transports: what
// chooses links by the remainder of the port puts them on different ones. The label is not 0, which
// would leave the choice of the port to the kernel.
constexpr uint32_t flow_label(uint64_t pair, unsigned path) {
    constexpr uint32_t kNotZero = 1u << 14;
    constexpr uint32_t kPortBits = kNotZero - 1;
    static_assert(kMostPaths <= 16);
    return kNotZero | (static_cast<uint32_t>(pair) * kMostPaths & kPortBits) | path;
}

// The UDP source port of RoCE v2 for a flow label, as Linux and rdma-core derive it.
constexpr uint16_t udp_source_port(uint32_t label) {
    return static_cast<uint16_t>(0xc000 | ((label & 0x3fff) ^ (label >> 14 & 0x3f)));
}

// Has the packets to this address take a path. A path of InfiniBand is one of the 2^lmc LIDs of
// each port: `lmc` is the peer's, and both sides must take the same. A connection that is the only
// one of its pair gets no flow label: then the kernel derives the port from its queue pairs.
void take_path(ibv_ah_attr& address, const Port& port, unsigned path, uint8_t lmc, uint64_t pair);

// How many links an Ethernet port sends over: those of a bond in mode 802.3ad that carries its
// network interface. 1 if there is no bond, or sysfs does not tell. `device`: the device's folder
// in sysfs; `net`: that of all network interfaces.
uint8_t bonded_ports(const std::filesystem::path& device, uint8_t port, unsigned gid_index,
                     const std::filesystem::path& net = "/sys/class/net");

}  // namespace tern::verbs
