// SPDX-License-Identifier: BSD-3-Clause
// Names to addresses, for rdma_create_ep().
#include <netdb.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "softhca/cm/objects.h"

namespace softhca::cm {

namespace {

bool is_datagram(const rdma_addrinfo& hints) {
    return hints.ai_qp_type == IBV_QPT_UD || hints.ai_port_space == RDMA_PS_UDP ||
           hints.ai_port_space == RDMA_PS_IPOIB;
}

addrinfo socket_hints(const rdma_addrinfo& hints) {
    addrinfo to{};
    if ((hints.ai_flags & RAI_PASSIVE) != 0) to.ai_flags |= AI_PASSIVE;
    if ((hints.ai_flags & RAI_NUMERICHOST) != 0) to.ai_flags |= AI_NUMERICHOST;
    if ((hints.ai_flags & RAI_FAMILY) != 0) to.ai_family = hints.ai_family;
    to.ai_socktype = is_datagram(hints) ? SOCK_DGRAM : SOCK_STREAM;
    return to;
}

// Copies an address into memory that rdma_freeaddrinfo() frees.
bool copy(const sockaddr* from, socklen_t size, sockaddr** to, socklen_t* to_size) {
    *to = static_cast<sockaddr*>(std::malloc(size));
    if (*to == nullptr) return false;
    std::memcpy(*to, from, size);
    *to_size = size;
    return true;
}

void set_kind(const rdma_addrinfo& hints, rdma_addrinfo& result) {
    const bool datagram = is_datagram(hints);
    result.ai_qp_type = hints.ai_qp_type != 0 ? hints.ai_qp_type
                        : datagram            ? IBV_QPT_UD
                                              : IBV_QPT_RC;
    result.ai_port_space = hints.ai_port_space != 0 ? hints.ai_port_space
                           : datagram               ? RDMA_PS_UDP
                                                    : RDMA_PS_TCP;
}

// 0, -1 with errno set, or an error of getaddrinfo().
int look_up(const char* node, const char* service, const rdma_addrinfo& hints,
            rdma_addrinfo& result) {
    const addrinfo wanted = socket_hints(hints);
    addrinfo* found = nullptr;
    if (const int error = getaddrinfo(node, service, &wanted, &found)) return error;
    const bool passive = (hints.ai_flags & RAI_PASSIVE) != 0;
    result.ai_family = found->ai_family;
    result.ai_flags = passive ? RAI_PASSIVE : 0;
    const bool copied =
        copy(found->ai_addr, found->ai_addrlen, passive ? &result.ai_src_addr : &result.ai_dst_addr,
             passive ? &result.ai_src_len : &result.ai_dst_len);
    freeaddrinfo(found);
    return copied ? 0 : fail_call(ENOMEM);
}

int take_hints(const rdma_addrinfo& hints, rdma_addrinfo& result) {
    result.ai_family = hints.ai_family;
    result.ai_flags = hints.ai_flags;
    if (hints.ai_dst_len == 0 ||
        copy(hints.ai_dst_addr, hints.ai_dst_len, &result.ai_dst_addr, &result.ai_dst_len))
        return 0;
    return fail_call(ENOMEM);
}

}  // namespace

SOFTHCA_EXPORT int rdma_getaddrinfo(const char* node, const char* service,
                                    const rdma_addrinfo* hints, rdma_addrinfo** result) {
    if (node == nullptr && service == nullptr && hints == nullptr) return fail_call(EINVAL);
    static const rdma_addrinfo kNoHints{};
    if (hints == nullptr) hints = &kNoHints;
    auto* info = static_cast<rdma_addrinfo*>(std::calloc(1, sizeof(rdma_addrinfo)));
    if (info == nullptr) return fail_call(ENOMEM);
    set_kind(*hints, *info);
    int status = node == nullptr && service == nullptr ? take_hints(*hints, *info)
                                                       : look_up(node, service, *hints, *info);
    if (status == 0 && info->ai_src_len == 0 && hints->ai_src_len != 0 &&
        !copy(hints->ai_src_addr, hints->ai_src_len, &info->ai_src_addr, &info->ai_src_len))
        status = fail_call(ENOMEM);
    if (status == 0)
        *result = info;
    else
        rdma_freeaddrinfo(info);
    return status;
}

SOFTHCA_EXPORT void rdma_freeaddrinfo(rdma_addrinfo* info) {
    while (info != nullptr) {
        rdma_addrinfo* const next = info->ai_next;
        std::free(info->ai_src_addr);
        std::free(info->ai_dst_addr);
        std::free(info->ai_src_canonname);
        std::free(info->ai_dst_canonname);
        std::free(info->ai_route);
        std::free(info->ai_connect);
        std::free(info);
        info = next;
    }
}

SOFTHCA_REFUSES(int, rdma_resolve_addrinfo, fail_call(EOPNOTSUPP))
SOFTHCA_REFUSES(int, rdma_query_addrinfo, fail_call(EOPNOTSUPP))

}  // namespace softhca::cm
