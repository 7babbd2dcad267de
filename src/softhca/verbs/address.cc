// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/address.h"

#include <arpa/inet.h>
#include <endian.h>
#include <time.h>

#include <cerrno>
#include <cstring>

#include "softhca/fabric/layout.h"

namespace softhca {

namespace {

// Locally administered: 02:73:66 ff:fe 00:00:LL.
constexpr uint64_t kGuidBase = 0x027366fffe000000;
constexpr uint64_t kLinkLocalPrefix = 0xfe80000000000000;
constexpr uint32_t kIpv4Base = 0x0a480001;  // 10.72.0.1 and up
constexpr uint32_t kIpv4Mapped = 0x0000ffff;

// Each fabric is a subnet of its own. On Ethernet, all networks have the same link-local prefix.
uint64_t subnet_prefix(const FabricConfig& config, uint32_t place) {
    const uint64_t fabric = config.link_layer == LinkLayer::kEthernet ? 0 : config.subnet;
    return kLinkLocalPrefix + (fabric << 16) + (config.subnets != 0 ? place % kMaxPorts : 0);
}

// Whether a GID that a port may have is IPv4-mapped: the others are link-local.
bool is_ipv4(const union ibv_gid& gid) {
    return gid.global.subnet_prefix == 0;
}

}  // namespace

bool grh_required(const FabricConfig& config) {
    return config.link_layer == LinkLayer::kEthernet ||
           config.personality.ports.grh_required == rule::kGrhAlways;
}

int resolve_neighbor(Host& host, const ibv_ah_attr& address) {
    const FabricHeader& header = host.header();
    const FabricConfig& config = header.config;
    const auto timeout = static_cast<uint32_t>(config.personality.times.neighbor_timeout);
    if (config.link_layer != LinkLayer::kEthernet || timeout == 0) return 0;
    if (is_multicast(address.grh.dgid)) return 0;
    const union ibv_gid source = port_gid(config, 0, address.grh.sgid_index);
    if (is_ipv4(source) != is_ipv4(address.grh.dgid)) return EINVAL;
    const uint32_t place = place_of_gid(config, address.grh.dgid);
    const uint32_t link = link_of_place(place);
    const uint32_t device = link / kMaxPorts;
    const uint32_t port = link % kMaxPorts + 1;
    const uint32_t process = process_of_place(config, place);
    if (link < kMaxLinks && device < config.devices && port <= config.ports &&
        !port_down(header.faults, device, port) && (process == kAnyProcess || host.alive(process)))
        return 0;
    const timespec wait{timeout / 1000, static_cast<long>(timeout % 1000) * 1'000'000};
    nanosleep(&wait, nullptr);
    return ETIMEDOUT;
}

uint64_t port_guid(uint32_t place) {
    return htobe64(kGuidBase + place + 1);
}

union ibv_gid port_gid(const FabricConfig& config, uint32_t place, int index) {
    union ibv_gid gid = {};
    const bool twice = config.personality.ports.gid_table == rule::kVersions1And2;
    if (index / (twice ? 2 : 1) == 0) {
        gid.global.subnet_prefix = htobe64(subnet_prefix(config, place));
        gid.global.interface_id = port_guid(place);
        return gid;
    }
    const uint32_t mapped = htonl(kIpv4Mapped);
    const uint32_t address = htonl(ipv4_of_place(place));
    std::memcpy(gid.raw + 8, &mapped, sizeof mapped);
    std::memcpy(gid.raw + 12, &address, sizeof address);
    return gid;
}

uint32_t place_of_gid(const FabricConfig& config, const union ibv_gid& gid) {
    // Each kind of GID ends with the number of the place; the other bytes are compared.
    uint32_t address;
    std::memcpy(&address, gid.raw + 12, sizeof address);
    for (int index = 0; index < gids_of(config); ++index) {
        const bool local = gid.global.subnet_prefix != 0;
        const uint64_t base = local ? (kGuidBase & 0xffffffff) + 1 : kIpv4Base;
        const uint32_t place = ntohl(address) - static_cast<uint32_t>(base);
        if (place >= kMaxProcesses * kMaxLinks) continue;
        const union ibv_gid candidate = port_gid(config, place, index);
        if (std::memcmp(gid.raw, candidate.raw, sizeof gid.raw) == 0) return place;
    }
    return kNoPlace;
}

bool is_multicast(const union ibv_gid& gid) {
    constexpr uint8_t kGroups = 0xff;
    constexpr uint8_t kIpv4Groups = 0xe0;  // the first four bits
    uint32_t mapped;
    std::memcpy(&mapped, gid.raw + 8, sizeof mapped);
    return gid.raw[0] == kGroups ||
           (is_ipv4(gid) && ntohl(mapped) == kIpv4Mapped && (gid.raw[12] & 0xf0) == kIpv4Groups);
}

bool is_multicast(uint16_t lid) {
    constexpr uint16_t kFirst = 0xc000;
    constexpr uint16_t kPermissive = 0xffff;
    return lid >= kFirst && lid != kPermissive;
}

uint32_t ipv4_of_place(uint32_t place) {
    return kIpv4Base + place;
}

uint32_t place_of_ipv4(uint32_t address) {
    const uint32_t place = address - kIpv4Base;
    return place < kMaxProcesses * kMaxLinks ? place : kNoPlace;
}

uint32_t place_of_address(const FabricConfig& config, const ibv_ah_attr& address) {
    const bool ethernet = config.link_layer == LinkLayer::kEthernet;
    if (address.dlid != 0 && !ethernet) {
        const uint32_t places = config.own_addresses != 0 ? kMaxProcesses * kMaxLinks : kMaxLinks;
        const uint32_t number = address.dlid >> config.personality.ports.lmc;
        return number != 0 && number <= places ? number - 1 : kNoPlace;
    }
    return address.is_global != 0 ? place_of_gid(config, address.grh.dgid) : kNoPlace;
}

uint32_t link_of_place(uint32_t place) {
    return place == kNoPlace ? Destination::kNoLink : place % kMaxLinks;
}

bool valid_path_bits(const FabricConfig& config, const ibv_ah_attr& address) {
    return config.link_layer == LinkLayer::kEthernet ||
           path_bits_of_lid(config, address.src_path_bits) == address.src_path_bits;
}

Destination make_destination(const FabricConfig& config, const ibv_ah_attr& address,
                             uint32_t from) {
    Destination to;
    const uint32_t place = place_of_address(config, address);
    to.link = link_of_place(place);
    to.process = process_of_place(config, place);
    if (config.link_layer != LinkLayer::kEthernet) {
        to.slid = lid_of_place(config, from) | address.src_path_bits;
        to.path_bits = static_cast<uint8_t>(path_bits_of_lid(config, address.dlid));
    }
    to.global = address.is_global != 0;
    if (to.global) {
        const union ibv_gid source = port_gid(config, from, address.grh.sgid_index);
        std::memcpy(to.source_gid, source.raw, sizeof to.source_gid);
        std::memcpy(to.target_gid, address.grh.dgid.raw, sizeof to.target_gid);
        to.traffic_class = address.grh.traffic_class;
        to.hop_limit = address.grh.hop_limit;
        to.flow_label = address.grh.flow_label & 0xfffff;
        to.multicast = is_multicast(address.grh.dgid);
        if (to.multicast) {
            to.link = link_of_place(from);
            to.process = kAnyProcess;
        }
    }
    return to;
}

}  // namespace softhca
