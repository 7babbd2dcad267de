// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/cm/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>

#include <cstring>

#include "softhca/verbs/address.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

// The IPv4 address, in host byte order, also of an IPv6 address that maps one.
std::optional<uint32_t> ipv4(const SocketAddress& address) {
    if (address.any.sa_family == AF_INET) return ntohl(address.v4.sin_addr.s_addr);
    if (!IN6_IS_ADDR_V4MAPPED(&address.v6.sin6_addr)) return std::nullopt;
    uint32_t last;
    std::memcpy(&last, address.v6.sin6_addr.s6_addr + 12, sizeof last);
    return ntohl(last);
}

bool is_any(const SocketAddress& address) {
    const auto v4 = ipv4(address);
    return v4 ? *v4 == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&address.v6.sin6_addr) != 0;
}

bool is_loopback(const SocketAddress& address) {
    const auto v4 = ipv4(address);
    return v4 ? *v4 >> 24 == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(&address.v6.sin6_addr) != 0;
}

bool is_group(const SocketAddress& address) {
    const auto v4 = ipv4(address);
    return v4 ? IN_MULTICAST(*v4) : IN6_IS_ADDR_MULTICAST(&address.v6.sin6_addr) != 0;
}

bool same_ip(const SocketAddress& one, const SocketAddress& other) {
    const auto v4 = ipv4(one);
    const auto other_v4 = ipv4(other);
    if (v4 || other_v4) return v4 == other_v4;
    return std::memcmp(&one.v6.sin6_addr, &other.v6.sin6_addr, sizeof one.v6.sin6_addr) == 0;
}

bool is_of_interface(const SocketAddress& address) {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return false;
    bool found = false;
    for (const ifaddrs* entry = list; entry != nullptr && !found; entry = entry->ifa_next)
        found = is_ip(entry->ifa_addr) && same_ip(copy_address(entry->ifa_addr), address);
    freeifaddrs(list);
    return found;
}

uint32_t link_of(const DevicePort& port) {
    return port.device * kMaxPorts + port.port - 1u;
}

std::optional<Location> locate_member(uint32_t address) {
    Host& host = adapter()->host();
    const FabricConfig& config = host.header().config;
    const uint32_t place = place_of_ipv4(address);
    if (place == kNoPlace) return std::nullopt;
    const uint32_t link = link_of_place(place);
    const DevicePort port{link / kMaxPorts, static_cast<uint8_t>(link % kMaxPorts + 1)};
    const uint32_t process = config.own_addresses != 0 ? place / kMaxLinks : 0;
    if (port.device >= config.devices || port.port > config.ports ||
        (config.own_addresses == 0 && place >= kMaxLinks))
        return std::nullopt;
    const bool own = config.own_addresses == 0 || process == host.slot();
    return Location{own ? Whose::kOwn : Whose::kMember, port};
}

uint32_t own_place(const DevicePort& port) {
    Host& host = adapter()->host();
    return place_of(host.header().config, host.slot(), link_of(port));
}

DevicePort port_of(const Id& id) {
    return {Context::of(id.rdma.verbs)->device->index, id.rdma.port_num};
}

// The index of the GID with which Ethernet ports of rdma_cm are connected: IPv4, of the newest
// version. InfiniBand has one GID.
int gid_index(const FabricConfig& config) {
    return gids_of(config) - 1;
}

union ibv_gid as_gid(const PortAddress& address) {
    union ibv_gid gid;
    std::memcpy(gid.raw, address.gid, sizeof gid.raw);
    return gid;
}

}  // namespace

std::string fabric_name() {
    return adapter()->host().segment().name();
}

bool is_ip(const sockaddr* address) {
    return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

SocketAddress copy_address(const sockaddr* address) {
    SocketAddress copy{};
    if (address->sa_family == AF_INET)
        std::memcpy(&copy.v4, address, sizeof copy.v4);
    else
        std::memcpy(&copy.v6, address, sizeof copy.v6);
    return copy;
}

Location locate(const SocketAddress& address) {
    if (is_any(address)) return {Whose::kAny, {}};
    if (is_group(address)) return {Whose::kGroup, {}};
    if (is_loopback(address)) return {Whose::kHost, {}};
    if (const auto v4 = ipv4(address))
        if (const auto member = locate_member(*v4)) return *member;
    return {is_of_interface(address) ? Whose::kHost : Whose::kNobody, {}};
}

uint16_t port_number(const SocketAddress& address) {
    // At the same place for both families.
    return ntohs(address.v4.sin_port);
}

void set_port_number(SocketAddress& address, uint16_t port) {
    address.v4.sin_port = htons(port);
}

SocketAddress source_for(const SocketAddress& destination, const Location& location) {
    SocketAddress source = destination;
    set_port_number(source, 0);
    const bool v4 = source.any.sa_family == AF_INET;
    if (location.whose == Whose::kAny || location.whose == Whose::kGroup) {
        if (v4)
            source.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        else
            source.v6.sin6_addr = in6addr_loopback;
    } else if (location.whose != Whose::kHost) {
        const uint32_t address = htonl(ipv4_of_place(own_place(location.port)));
        std::memcpy(v4 ? static_cast<void*>(&source.v4.sin_addr)
                       : static_cast<void*>(source.v6.sin6_addr.s6_addr + 12),
                    &address, sizeof address);
    }
    return source;
}

PortAddress port_address(const Id& id) {
    const FabricConfig& config = config_of(id.rdma.verbs);
    const uint32_t place = own_place(port_of(id));
    const union ibv_gid gid = port_gid(config, place, gid_index(config));
    PortAddress address{};
    std::memcpy(address.gid, gid.raw, sizeof address.gid);
    address.lid =
        config.link_layer == LinkLayer::kEthernet ? uint16_t{0} : lid_of_place(config, place);
    return address;
}

ibv_ah_attr address_vector(const Id& id, const PortAddress& peer) {
    const FabricConfig& config = config_of(id.rdma.verbs);
    ibv_ah_attr vector{};
    vector.dlid = peer.lid;
    vector.port_num = id.rdma.port_num;
    vector.is_global = grh_required(config) ? 1 : 0;
    vector.grh.dgid = as_gid(peer);
    vector.grh.sgid_index = static_cast<uint8_t>(gid_index(config));
    vector.grh.hop_limit = 64;
    return vector;
}

void describe_path(Id& id, const PortAddress& peer) {
    const PortAddress own = port_address(id);
    rdma_ib_addr& address = id.rdma.route.addr.addr.ibaddr;
    address.sgid = as_gid(own);
    address.dgid = as_gid(peer);
    id.path.sgid = address.sgid;
    id.path.dgid = address.dgid;
    id.path.slid = htons(own.lid);
    id.path.dlid = htons(peer.lid);
    id.path.hop_limit = 64;
    id.path.reversible = 1;
    id.path.numb_path = 1;
    id.path.pkey = 0xffff;
    id.path.mtu = IBV_MTU_4096;
    id.path.mtu_selector = 2;  // exactly
    id.path.packet_life_time = static_cast<uint8_t>(id.timeout - 1);
    id.path.packet_life_time_selector = 2;
    id.rdma.route.path_rec = &id.path;
    id.rdma.route.num_paths = 1;
}

bool use_device(Id& id, const DevicePort& port) {
    ibv_context* context = open_device(port.device);
    ibv_pd* pd = context == nullptr ? nullptr : default_pd(port.device);
    if (pd == nullptr) return false;
    id.rdma.verbs = context;
    id.rdma.port_num = port.port;
    id.rdma.pd = pd;
    rdma_ib_addr& address = id.rdma.route.addr.addr.ibaddr;
    address.sgid = as_gid(port_address(id));
    address.pkey = 0xffff;
    return true;
}

}  // namespace softhca::cm
