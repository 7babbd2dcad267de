// SPDX-License-Identifier: BSD-3-Clause
// Multicast groups of identifiers. There is no subnet administrator: the group's address follows
// from the IP address, as on Linux, and to join it is to attach the queue pair.
#include <algorithm>
#include <cstring>

#include "softhca/cm/address.h"
#include "softhca/cm/objects.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

constexpr uint32_t kGroupQpn = 0xffffff;

// On Ethernet the IP address itself; on InfiniBand RFC 4391's map of it, with the signature of
// rdma_cm in place of IP's for RDMA_PS_UDP.
PortAddress group_address(const Id& id, const SocketAddress& address) {
    PortAddress group{};
    const bool v4 = address.any.sa_family == AF_INET;
    const uint8_t* const v6 = address.v6.sin6_addr.s6_addr;
    const bool ethernet = config_of(id.rdma.verbs).link_layer == LinkLayer::kEthernet;
    const bool is_gid =
        !v4 &&
        (ethernet || (v6[0] == 0xff && (v6[1] & 0xf0) == 0x10 && v6[2] == 0xa0 && v6[3] == 0x1b));
    if (is_gid) {
        std::memcpy(group.gid, v6, sizeof group.gid);
    } else if (ethernet) {
        std::memset(group.gid + 10, 0xff, 2);
        std::memcpy(group.gid + 12, &address.v4.sin_addr, 4);
    } else {
        const uint8_t last = id.rdma.ps == RDMA_PS_UDP ? 0x01 : 0x1b;
        const uint8_t head[6] = {0xff, 0x12, static_cast<uint8_t>(v4 ? 0x40 : 0x60),
                                 last, 0xff, 0xff};
        std::memcpy(group.gid, head, sizeof head);
        if (v4) {
            std::memcpy(group.gid + 12, &address.v4.sin_addr, 4);
            group.gid[12] &= 0x0f;
        } else {
            std::memcpy(group.gid + 6, v6 + 6, 10);
        }
    }
    if (ethernet) return group;
    // Any LID will do, as long as all have the same one for a group.
    constexpr uint16_t kFirst = 0xc000;
    constexpr uint32_t kCount = 0x3fff;
    uint32_t sum = 0;
    for (const uint8_t byte : group.gid) sum = sum * 31 + byte;
    group.lid = static_cast<uint16_t>(kFirst + sum % kCount);
    return group;
}

int change_group(ibv_qp* qp, const PortAddress& group, bool attaches) {
    union ibv_gid gid;
    std::memcpy(gid.raw, group.gid, sizeof gid.raw);
    return attaches ? ibv_attach_mcast(qp, &gid, group.lid) : ibv_detach_mcast(qp, &gid, group.lid);
}

bool same(const SocketAddress& one, const sockaddr* other) {
    const SocketAddress copy = copy_address(other);
    return std::memcmp(&one, &copy, sizeof one) == 0;
}

void put_joined(Id& id, const PortAddress& group, void* context, int error) {
    auto event = make_event(
        id, error == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR, -error);
    rdma_ud_param& to = event->rdma.param.ud;
    to.private_data = context;
    if (error == 0) {
        to.ah_attr = address_vector(id, group);
        to.ah_attr.is_global = 1;
        to.ah_attr.grh.hop_limit = 1;
        to.qp_num = kGroupQpn;
        to.qkey = RDMA_UDP_QKEY;
    }
    put_event(id, std::move(event));
}

int join(rdma_cm_id* id, const sockaddr* address, void* context, bool receives) try {
    Id& object = *Id::of(id);
    if (!is_ip(address)) return fail_call(address == nullptr ? EINVAL : EAFNOSUPPORT);
    if (id->verbs == nullptr || !object.datagram()) return fail_call(EINVAL);
    if (personality_of(id->verbs).has.multicast == 0) return fail_call(EOPNOTSUPP);
    const SocketAddress copy = copy_address(address);
    if (locate(copy).whose != Whose::kGroup) return fail_call(EINVAL);
    const Joined joined{copy, group_address(object, copy), receives && id->qp != nullptr};
    const int error = joined.attached ? change_group(id->qp, joined.group, true) : 0;
    {
        const std::lock_guard lock(Registry::instance());
        if (error == 0) object.groups.push_back(joined);
        put_joined(object, joined.group, context, error);
    }
    return complete(object);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

}  // namespace

SOFTHCA_EXPORT int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
    return join(id, address, context, true);
}

SOFTHCA_EXPORT int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attributes,
                                          void* context) {
    constexpr uint32_t kNeeded = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    const uint32_t flags = attributes->join_flags;
    const bool receives = flags == RDMA_MC_JOIN_FLAG_FULLMEMBER;
    if (attributes->comp_mask != kNeeded ||
        !(receives || flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER))
        return fail_call(EINVAL);
    return join(id, attributes->addr, context, receives);
}

SOFTHCA_EXPORT int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
    Id& object = *Id::of(id);
    if (!is_ip(address)) return fail_call(EADDRNOTAVAIL);
    Joined joined;
    {
        const std::lock_guard lock(Registry::instance());
        const auto found =
            std::find_if(object.groups.begin(), object.groups.end(),
                         [&](const Joined& each) { return same(each.address, address); });
        if (found == object.groups.end()) return fail_call(EADDRNOTAVAIL);
        joined = *found;
        object.groups.erase(found);
    }
    if (joined.attached && id->qp != nullptr) change_group(id->qp, joined.group, false);
    return 0;
}

}  // namespace softhca::cm
