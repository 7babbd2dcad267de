// SPDX-License-Identifier: BSD-3-Clause
// Identifiers with their queue pairs in one call, from the result of rdma_getaddrinfo().

#include <cerrno>
#include <memory>

#include "softhca/cm/objects.h"

namespace softhca::cm {

namespace {

constexpr int kTimeout = 2000;  // ms

int make_passive(rdma_cm_id* id, const rdma_addrinfo& info, ibv_pd* pd,
                 const ibv_qp_init_attr* attributes) {
    if (rdma_bind_addr(id, info.ai_src_addr) != 0) return -1;
    if (pd != nullptr) id->pd = pd;
    if (attributes == nullptr) return 0;
    Id::of(id)->make = std::make_unique<ibv_qp_init_attr>(*attributes);
    Id::of(id)->make->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
    return 0;
}

int make_active(rdma_cm_id* id, const rdma_addrinfo& info, ibv_pd* pd,
                ibv_qp_init_attr* attributes) {
    if (rdma_resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, kTimeout) != 0 ||
        rdma_resolve_route(id, kTimeout) != 0)
        return -1;
    if (attributes == nullptr) return 0;
    attributes->qp_type = static_cast<ibv_qp_type>(info.ai_qp_type);
    return rdma_create_qp(id, pd, attributes);
}

// What is wrong with an event that should be a request; 0 if it is one.
int wrong(const rdma_cm_event& event) {
    if (event.event == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
    if (event.status != 0) return -event.status;
    return event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

}  // namespace

SOFTHCA_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* info, ibv_pd* pd,
                                  ibv_qp_init_attr* attributes) try {
    rdma_cm_id* made = make_id(nullptr, nullptr, static_cast<rdma_port_space>(info->ai_port_space),
                               static_cast<ibv_qp_type>(info->ai_qp_type));
    if (made == nullptr) return -1;
    const bool passive = (info->ai_flags & RAI_PASSIVE) != 0;
    const int status = passive ? make_passive(made, *info, pd, attributes)
                               : make_active(made, *info, pd, attributes);
    if (status == 0) {
        *id = made;
        return 0;
    }
    const int error = errno;
    rdma_destroy_ep(made);
    return fail_call(error);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    if (id->srq != nullptr) rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

SOFTHCA_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
    Id& object = *Id::of(listener);
    if (!object.sync) return fail_call(EINVAL);
    if (listener->event != nullptr) {
        rdma_ack_cm_event(listener->event);
        listener->event = nullptr;
    }
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(listener->channel, &event) != 0) return -1;
    int error = wrong(*event);
    if (error == 0 && object.make != nullptr) {
        ibv_qp_init_attr attributes = *object.make;
        if (rdma_create_qp(event->id, listener->pd, &attributes) != 0) error = errno;
    }
    if (error != 0) {
        listener->event = event;
        return fail_call(error);
    }
    *id = event->id;
    (*id)->event = event;
    return 0;
}

}  // namespace softhca::cm
