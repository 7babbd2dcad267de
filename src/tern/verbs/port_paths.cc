// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/port_paths.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>

namespace tern::verbs {

namespace {

namespace fs = std::filesystem;

// The number of ports of a bond, or of the bond below a VLAN and the like. 0: there is no bond.
unsigned ports_of_bond(const fs::path& interface, unsigned depth = 0) {
    constexpr unsigned kMostDepth = 4;
    unsigned ports = 0;
    if (std::ifstream(interface / "bonding" / "ad_num_ports") >> ports) return ports;
    if (depth == kMostDepth) return 0;
    std::error_code error;
    fs::directory_iterator entry(interface, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error))
        if (entry->path().filename().native().starts_with("lower_"))
            ports = std::max(ports, ports_of_bond(entry->path(), depth + 1));
    return ports;
}

}  // namespace

void take_path(ibv_ah_attr& address, const Port& port, unsigned path, uint8_t lmc, uint64_t pair) {
    if (port.ethernet) {
        if (path != 0 || port.paths > 1) address.grh.flow_label = flow_label(pair, path);
    } else if (address.dlid != 0) {
        const unsigned bits = path & ((1u << std::min(port.attributes.lmc, lmc)) - 1);
        address.dlid |= static_cast<uint16_t>(bits);
        address.src_path_bits = static_cast<uint8_t>(bits);
    }
}

uint8_t bonded_ports(const fs::path& device, uint8_t port, unsigned gid_index,
                     const fs::path& net) {
    std::string interface;
    std::ifstream(device / "ports" / std::to_string(port) / "gid_attrs" / "ndevs" /
                  std::to_string(gid_index)) >>
        interface;
    if (interface.empty()) return 1;
    return static_cast<uint8_t>(std::clamp(ports_of_bond(net / interface), 1u, kMostPaths));
}

}  // namespace tern::verbs
