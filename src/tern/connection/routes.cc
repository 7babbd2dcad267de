// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/routes.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <bit>
#include <cerrno>
#include <cstring>

namespace tern {
namespace {

constexpr size_t kIpv6Subnet = 8;  // bytes; the kernel makes addresses from prefixes of this length

// In host order.
uint32_t ipv4_of(const std::array<uint8_t, 16>& gid) {
    uint32_t address = 0;
    memcpy(&address, &gid[12], sizeof(address));
    return ntohl(address);
}

uint32_t address_of(const sockaddr* address) {
    sockaddr_in ipv4{};
    memcpy(&ipv4, address, sizeof(ipv4));
    return ntohl(ipv4.sin_addr.s_addr);
}

}  // namespace

unsigned Routes::subnet_bits(uint32_t address) {
    constexpr unsigned kUsual = 24;
    unsigned bits = kUsual;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return bits;
    for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_netmask == nullptr ||
            each->ifa_addr->sa_family != AF_INET || address_of(each->ifa_addr) != address)
            continue;
        bits = static_cast<unsigned>(std::countl_one(address_of(each->ifa_netmask)));
        break;
    }
    freeifaddrs(all);
    return bits != 0 ? bits : kUsual;
}

bool Routes::reach(ibv_pd* pd, const verbs::Port& port, const PortAddress& to) {
    if (!port.ethernet) return true;
    const auto family = common_family(port.roce.set, to.roce);
    if (!family) return true;
    const verbs::GidKind kind = kind_of(*family);
    if (kind == verbs::GidKind::kIpv6 && port.local_subnet)
        return memcmp(&port.roce.set.of(kind), &to.roce.of(kind), kIpv6Subnet) == 0;
    if (kind != verbs::GidKind::kIpv4) return true;
    const uint32_t own = ipv4_of(port.roce.set.of(verbs::GidKind::kIpv4));
    if (bits_ == 0) bits_ = subnet_bits(own);
    const uint32_t subnet = ipv4_of(to.roce.of(verbs::GidKind::kIpv4)) >> (32 - bits_);
    if (subnet == own >> (32 - bits_)) return true;
    if (port.local_subnet) return false;
    if (reached_.contains(subnet)) return true;
    ibv_ah_attr address = address_vector(port, to);
    errno = 0;
    const verbs::AddressHandle handle(ibv_create_ah(pd, &address));
    // Any other error is not about the way.
    const bool none = !handle && (errno == ENETUNREACH || errno == EHOSTUNREACH ||
                                  errno == ENODEV || errno == EADDRNOTAVAIL);
    if (handle) reached_.insert(subnet);
    return !none;
}

}  // namespace tern
