// SPDX-License-Identifier: BSD-3-Clause
// Identifiers before there is a connection: their creation, addresses, routes and options.
#include <rdma/rsocket.h>

#include <cstring>

#include "softhca/cm/address.h"
#include "softhca/cm/objects.h"
#include "softhca/cm/port.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

bool is_known(rdma_port_space space) {
    return space == RDMA_PS_TCP || space == RDMA_PS_UDP || space == RDMA_PS_IPOIB ||
           space == RDMA_PS_IB;
}

// Takes the port of an address, or a free one. 0 or an errno. With the lock held.
int bind_to(Id& id, SocketAddress address) {
    const Location location = locate(address);
    if (location.whose != Whose::kAny && location.whose != Whose::kHost &&
        location.whose != Whose::kOwn)
        return EADDRNOTAVAIL;
    if (location.whose != Whose::kAny && !use_device(id, location.port)) return errno;
    PortName name{fabric_name(), static_cast<uint32_t>(id.rdma.ps), port_number(address)};
    id.fd = bind_port(name);
    if (id.fd < 0) return errno;
    set_port_number(address, name.port);
    id.source() = address;
    return 0;
}

int bind_source(Id& id, const sockaddr* source, const SocketAddress& destination) {
    SocketAddress address{};
    if (is_ip(source))
        address = copy_address(source);
    else
        address.any.sa_family = destination.any.sa_family;
    return bind_to(id, address);
}

// The route to a destination: 0 or an errno. With the lock held.
int resolve(Id& id, const SocketAddress& destination) {
    const Location location = locate(destination);
    if (location.whose == Whose::kNobody) return EHOSTUNREACH;
    id.destination() = destination;
    if (locate(id.source()).whose == Whose::kAny) {
        const uint16_t port = port_number(id.source());
        id.source() = source_for(destination, location);
        set_port_number(id.source(), port);
    }
    if (id.rdma.verbs == nullptr && !use_device(id, location.port)) return errno;
    return 0;
}

}  // namespace

rdma_cm_id* make_id(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                    ibv_qp_type type) {
    if (!is_known(port_space)) return fail(EINVAL);
    if (adapter() == nullptr) return fail(ENODEV);
    const bool sync = channel == nullptr;
    if (sync) channel = rdma_create_event_channel();
    if (channel == nullptr) return nullptr;
    const std::lock_guard lock(Registry::instance());
    Id* id = Registry::instance().create(channel, context, port_space, type);
    id->sync = sync;
    return &id->rdma;
}

SOFTHCA_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                                  rdma_port_space port_space) try {
    const bool datagram = port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB;
    rdma_cm_id* made = make_id(channel, context, port_space, datagram ? IBV_QPT_UD : IBV_QPT_RC);
    if (made == nullptr) return -1;
    *id = made;
    return 0;
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

// Waits until the program has acknowledged the identifier's events.
SOFTHCA_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
    Id& object = *Id::of(id);
    {
        const std::lock_guard lock(Registry::instance());
        Registry::instance().remove(object);
    }
    if (id->event != nullptr) rdma_ack_cm_event(id->event);
    object.unacknowledged.wait();
    if (object.sync) rdma_destroy_event_channel(id->channel);
    delete &object;
    return 0;
}

SOFTHCA_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
    if (!is_ip(address)) return fail_call(address == nullptr ? EINVAL : EAFNOSUPPORT);
    Id& object = *Id::of(id);
    const std::lock_guard lock(Registry::instance());
    if (!step(object.state, Input::kBind)) return fail_call(EINVAL);
    if (const int error = bind_to(object, copy_address(address))) return fail_call(error);
    apply(object, Input::kBind);
    return 0;
}

SOFTHCA_EXPORT int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                                     int) try {
    if (!is_ip(destination)) return fail_call(destination == nullptr ? EINVAL : EAFNOSUPPORT);
    Id& object = *Id::of(id);
    {
        const std::lock_guard lock(Registry::instance());
        if (!step(object.state, Input::kResolveAddress)) return fail_call(EINVAL);
        const SocketAddress to = copy_address(destination);
        if (object.state == State::kIdle) {
            if (const int error = bind_source(object, source, to)) return fail_call(error);
            apply(object, Input::kBind);
        }
        if (const int error = resolve(object, to))
            put_event(object, RDMA_CM_EVENT_ADDR_ERROR, -error, nullptr);
        else
            apply(object, Input::kResolveAddress);
    }
    return complete(object);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT int rdma_resolve_route(rdma_cm_id* id, int) try {
    Id& object = *Id::of(id);
    {
        const std::lock_guard lock(Registry::instance());
        // Until the peer has told its address, that of the own port, which reaches the same subnet.
        if (step(object.state, Input::kResolveRoute)) describe_path(object, port_address(object));
        if (!apply(object, Input::kResolveRoute)) return -1;
    }
    return complete(object);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) {
    return Id::of(id)->source().v4.sin_port;
}

SOFTHCA_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) {
    return Id::of(id)->destination().v4.sin_port;
}

SOFTHCA_EXPORT int rdma_set_option(rdma_cm_id* id, int level, int option, void* value,
                                   size_t size) {
    constexpr uint8_t kMaxTimeout = 31;
    if (level != RDMA_OPTION_ID) return fail_call(ENOSYS);
    switch (option) {
        case RDMA_OPTION_ID_TOS:  // has no effect, as within a machine
            return size == sizeof(uint8_t) ? 0 : fail_call(EINVAL);
        case RDMA_OPTION_ID_REUSEADDR:  // a port is free at once
        case RDMA_OPTION_ID_AFONLY:     // a port is one for both families
            return size == sizeof(int) ? 0 : fail_call(EINVAL);
        case RDMA_OPTION_ID_ACK_TIMEOUT: {
            uint8_t timeout;
            if (size != sizeof timeout) return fail_call(EINVAL);
            std::memcpy(&timeout, value, sizeof timeout);
            if (timeout > kMaxTimeout) return fail_call(EINVAL);
            Id::of(id)->timeout = timeout;
            return 0;
        }
        default:
            return fail_call(ENOSYS);
    }
}

// Their implementation in librdmacm uses its own identifiers, not these.
SOFTHCA_EXPORT int rsocket(int, int, int) {
    return fail_call(EOPNOTSUPP);
}

}  // namespace softhca::cm
