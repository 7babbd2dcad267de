// SPDX-License-Identifier: BSD-3-Clause

#include "softhca/cm/address.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

int modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
    const int error = ibv_modify_qp(qp, &attributes, mask);
    return error == 0 ? 0 : fail_call(error);
}

int modify_by_state(Id& id, ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attributes{};
    attributes.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(&id.rdma, &attributes, &mask) != 0) return -1;
    return modify(qp, attributes, mask);
}

int describe_init(const Id& id, ibv_qp_attr& attributes) {
    attributes.pkey_index = 0;
    attributes.port_num = id.rdma.port_num;
    constexpr int kMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (id.datagram()) {
        attributes.qkey = RDMA_UDP_QKEY;
        return kMask | IBV_QP_QKEY;
    }
    // As Linux: the peer may read if it says that it will.
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id.own.responder_resources != 0)
        attributes.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    return kMask | IBV_QP_ACCESS_FLAGS;
}

int describe_rtr(const Id& id, ibv_qp_attr& attributes) {
    if (id.datagram()) return IBV_QP_STATE;
    attributes.ah_attr = address_vector(id, id.peer.address);
    attributes.path_mtu = IBV_MTU_4096;
    attributes.dest_qp_num = id.peer.qp_number;
    attributes.rq_psn = id.peer.psn;
    attributes.max_dest_rd_atomic = id.own.responder_resources;
    attributes.min_rnr_timer = 0;
    return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

int describe_rts(const Id& id, ibv_qp_attr& attributes) {
    attributes.sq_psn = id.datagram() ? 0 : id.own.psn;
    if (id.datagram()) return IBV_QP_STATE | IBV_QP_SQ_PSN;
    attributes.timeout = id.timeout;
    attributes.retry_cnt = std::min<uint8_t>(id.own.retry_count, 7);
    attributes.rnr_retry = id.peer.rnr_retry_count;
    attributes.max_rd_atomic = id.own.initiator_depth;
    return IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
           IBV_QP_MAX_QP_RD_ATOMIC;
}

void destroy_queues(rdma_cm_id& id) {
    if (id.qp_type == IBV_QPT_XRC_RECV && id.srq != nullptr) return;
    if (id.recv_cq != nullptr) ibv_destroy_cq(id.recv_cq);
    if (id.send_cq != nullptr && id.send_cq != id.recv_cq) ibv_destroy_cq(id.send_cq);
    id.recv_cq = id.send_cq = nullptr;
    if (id.recv_cq_channel != nullptr) ibv_destroy_comp_channel(id.recv_cq_channel);
    if (id.send_cq_channel != nullptr && id.send_cq_channel != id.recv_cq_channel)
        ibv_destroy_comp_channel(id.send_cq_channel);
    id.recv_cq_channel = id.send_cq_channel = nullptr;
}

bool make_queue(rdma_cm_id& id, uint32_t entries, ibv_comp_channel*& channel, ibv_cq*& queue) {
    if (entries == 0) return true;
    channel = ibv_create_comp_channel(id.verbs);
    if (channel == nullptr) return false;
    queue = ibv_create_cq(id.verbs, static_cast<int>(entries), &id, channel, 0);
    return queue != nullptr;
}

// Completion queues of the identifier, where neither it nor the program has any.
bool make_queues(rdma_cm_id& id, uint32_t sends, uint32_t receives) {
    if (make_queue(id, receives, id.recv_cq_channel, id.recv_cq) &&
        make_queue(id, sends, id.send_cq_channel, id.send_cq))
        return true;
    const int error = errno;
    destroy_queues(id);
    set_error(error);
    return false;
}

// From RESET: connected queue pairs become able to receive, those of datagrams also to send.
int start(Id& id, ibv_qp* qp) {
    if (modify_by_state(id, qp, IBV_QPS_INIT) != 0) return -1;
    if (!id.datagram()) return 0;
    if (modify_by_state(id, qp, IBV_QPS_RTR) != 0) return -1;
    return modify_by_state(id, qp, IBV_QPS_RTS);
}

bool fits(const rdma_cm_id& id, const ibv_qp_init_attr_ex& attributes) {
    const auto differs = [](const ibv_cq* own, const ibv_cq* given) {
        return own != nullptr && given != nullptr && own != given;
    };
    return id.qp == nullptr && id.verbs != nullptr && attributes.pd->context == id.verbs &&
           !differs(id.send_cq, attributes.send_cq) && !differs(id.recv_cq, attributes.recv_cq);
}

}  // namespace

int modify_to_rtr(Id& id) {
    if (id.rdma.qp == nullptr) return 0;
    // Again, because the rights depend on what the peers have agreed on.
    if (modify_by_state(id, id.rdma.qp, IBV_QPS_INIT) != 0) return -1;
    return modify_by_state(id, id.rdma.qp, IBV_QPS_RTR);
}

int modify_to_rts(Id& id) {
    return id.rdma.qp == nullptr ? 0 : modify_by_state(id, id.rdma.qp, IBV_QPS_RTS);
}

int modify_to_error(Id& id) {
    if (id.rdma.qp == nullptr) return 0;
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_ERR;
    return modify(id.rdma.qp, attributes, IBV_QP_STATE);
}

SOFTHCA_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attributes, int* mask) {
    const Id& object = *Id::of(id);
    if (id->verbs == nullptr) return fail_call(EINVAL);
    switch (attributes->qp_state) {
        case IBV_QPS_INIT:
            *mask = describe_init(object, *attributes);
            return 0;
        case IBV_QPS_RTR:
        case IBV_QPS_RTS:
            if (!object.answered && !object.datagram()) return fail_call(EINVAL);
            *mask = attributes->qp_state == IBV_QPS_RTR ? describe_rtr(object, *attributes)
                                                        : describe_rts(object, *attributes);
            return 0;
        default:
            return fail_call(EINVAL);
    }
}

SOFTHCA_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* attributes) {
    if ((attributes->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
        attributes->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attributes->pd = id->pd;
    }
    if (attributes->pd == nullptr || !fits(*id, *attributes)) return fail_call(EINVAL);
    if (id->qp_type == IBV_QPT_XRC_RECV &&
        ((attributes->comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attributes->xrcd == nullptr)) {
        attributes->xrcd = default_xrcd(id->verbs);
        if (attributes->xrcd == nullptr) return -1;
        attributes->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    const bool own_sends = attributes->send_cq == nullptr && id->send_cq == nullptr;
    const bool own_receives = attributes->recv_cq == nullptr && id->recv_cq == nullptr;
    if (!make_queues(*id, own_sends ? attributes->cap.max_send_wr : 0,
                     own_receives ? attributes->cap.max_recv_wr : 0))
        return -1;
    if (attributes->send_cq == nullptr) attributes->send_cq = id->send_cq;
    if (attributes->recv_cq == nullptr) attributes->recv_cq = id->recv_cq;
    if (attributes->srq == nullptr) attributes->srq = id->srq;
    ibv_qp* qp = ibv_create_qp_ex(id->verbs, attributes);
    if (qp != nullptr && start(*Id::of(id), qp) == 0) {
        id->pd = attributes->pd;
        id->qp = qp;
        return 0;
    }
    const int error = errno;
    if (qp != nullptr) ibv_destroy_qp(qp);
    destroy_queues(*id);
    return fail_call(error);
}

SOFTHCA_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attributes) {
    ibv_qp_init_attr_ex init = extended(*attributes, pd);
    const int status = rdma_create_qp_ex(id, &init);
    attributes->send_cq = init.send_cq;
    attributes->recv_cq = init.recv_cq;
    attributes->srq = init.srq;
    attributes->cap = init.cap;
    return status;
}

SOFTHCA_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
    ibv_destroy_qp(id->qp);
    id->qp = nullptr;
    destroy_queues(*id);
}

SOFTHCA_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* attributes) {
    if (id->verbs == nullptr || (attributes->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0)
        return fail_call(EINVAL);
    if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr) {
        attributes->pd = id->pd;
        attributes->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    if (attributes->srq_type == IBV_SRQT_XRC) {
        if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attributes->xrcd == nullptr)
            attributes->xrcd = default_xrcd(id->verbs);
        if (attributes->xrcd == nullptr) return -1;
        if ((attributes->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attributes->cq == nullptr) {
            if (!make_queues(*id, 0, attributes->attr.max_wr)) return -1;
            attributes->cq = id->recv_cq;
        }
        attributes->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    }
    id->srq = ibv_create_srq_ex(id->verbs, attributes);
    if (id->srq == nullptr) {
        const int error = errno;
        destroy_queues(*id);
        return fail_call(error);
    }
    if (id->pd == nullptr) id->pd = attributes->pd;
    return 0;
}

SOFTHCA_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attributes) {
    ibv_srq_init_attr_ex extended{};
    extended.srq_context = attributes->srq_context;
    extended.attr = attributes->attr;
    extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    extended.pd = pd;
    const int status = rdma_create_srq_ex(id, &extended);
    attributes->attr = extended.attr;
    return status;
}

SOFTHCA_EXPORT void rdma_destroy_srq(rdma_cm_id* id) {
    ibv_destroy_srq(id->srq);
    id->srq = nullptr;
    destroy_queues(*id);
}

}  // namespace softhca::cm
