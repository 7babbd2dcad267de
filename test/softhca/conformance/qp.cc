// SPDX-License-Identifier: BSD-3-Clause
#include "qp.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>

namespace conformance {
namespace {

bool is_connected_type(ibv_qp_type type) {
    return type != IBV_QPT_UD;
}

// Whether the responder of this type sends answers; it then needs responder resources and an RNR
// timer.
bool answers(ibv_qp_type type) {
    return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
}

// Whether the requester of this type gets answers, and so retries.
bool retries(ibv_qp_type type) {
    return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

}  // namespace

QpSpec quick(QpSpec spec) {
    spec.timeout = 10;
    spec.retries = 2;
    spec.rnr_retry = 1;
    return spec;
}

int Step::apply(ibv_qp* qp) const {
    ibv_qp_attr copy = attr;
    return ibv_modify_qp(qp, &copy, mask);
}

Step to_state(ibv_qp_state state) {
    Step step;
    step.attr.qp_state = state;
    step.mask = IBV_QP_STATE;
    return step;
}

Step to_init(const Hca& hca, const QpSpec& spec) {
    Step step = to_state(IBV_QPS_INIT);
    step.attr.pkey_index = 0;
    step.attr.port_num = hca.port();
    step.mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (spec.type == IBV_QPT_UD) {
        step.attr.qkey = kQkey;
        step.mask |= IBV_QP_QKEY;
    } else {
        step.attr.qp_access_flags = spec.access;
        step.mask |= IBV_QP_ACCESS_FLAGS;
    }
    return step;
}

Step to_rtr(const Hca& hca, const QpSpec& spec, const Peer& peer) {
    Step step = to_state(IBV_QPS_RTR);
    if (!is_connected_type(spec.type)) return step;
    step.attr.ah_attr = hca.path_to(peer.address);
    step.attr.path_mtu = hca.port_attr().active_mtu;
    step.attr.dest_qp_num = peer.qpn;
    step.attr.rq_psn = peer.psn;
    step.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (answers(spec.type)) {
        step.attr.max_dest_rd_atomic = spec.reads;
        step.attr.min_rnr_timer = spec.rnr_timer;
        step.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    return step;
}

Step to_rts(const QpSpec& spec) {
    Step step = to_state(IBV_QPS_RTS);
    step.attr.sq_psn = spec.psn;
    step.mask |= IBV_QP_SQ_PSN;
    if (answers(spec.type) || retries(spec.type)) {
        step.attr.timeout = spec.timeout;
        step.mask |= IBV_QP_TIMEOUT;
    }
    if (retries(spec.type)) {
        step.attr.retry_cnt = spec.retries;
        step.attr.rnr_retry = spec.rnr_retry;
        step.attr.max_rd_atomic = spec.reads;
        step.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return step;
}

void apply_all(ibv_qp* qp, std::initializer_list<Step> steps) {
    for (const Step& step : steps) {
        errno = step.apply(qp);
        if (errno) fail_errno("ibv_modify_qp to state " + std::to_string(step.attr.qp_state));
    }
}

ibv_qp_init_attr init_attr(const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq) {
    ibv_qp_init_attr init{};
    init.send_cq = send_cq;
    init.recv_cq = recv_cq;
    init.srq = spec.srq;
    init.cap.max_send_wr = spec.send_wr;
    init.cap.max_send_sge = spec.send_sge;
    if (!spec.srq) {
        init.cap.max_recv_wr = spec.recv_wr;
        init.cap.max_recv_sge = spec.recv_sge;
    }
    init.cap.max_inline_data = spec.inline_data;
    init.qp_type = spec.type;
    init.sq_sig_all = spec.signal_all;
    return init;
}

Qp make_qp(ibv_pd* pd, const QpSpec& spec, ibv_cq* send_cq, ibv_cq* recv_cq) {
    ibv_qp_init_attr init = init_attr(spec, send_cq, recv_cq);
    Qp qp(ibv_create_qp(pd, &init));
    if (!qp) fail_errno("ibv_create_qp");
    return qp;
}

ibv_qp_state state_of(ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    errno = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
    if (errno) fail_errno("ibv_query_qp");
    return attr.qp_state;
}

testing::AssertionResult reaches(ibv_qp* qp, ibv_qp_state state) {
    const auto end = Clock::now() + deadline();
    ibv_qp_state now;
    while ((now = state_of(qp)) != state) {
        if (Clock::now() > end) {
            return testing::AssertionFailure() << "queue pair is in state " << now << " instead of "
                                               << state << " after " << deadline().count() << " ms";
        }
        sched_yield();
    }
    return testing::AssertionSuccess();
}

Endpoint::Endpoint(const Hca& hca, ibv_pd* pd, const QpSpec& wanted)
    : spec(wanted),
      send_cq(hca.make_cq()),
      recv_cq(hca.make_cq()),
      qp(make_qp(pd, spec, send_cq.get(), recv_cq.get())) {}

Peer as_peer(const Hca& hca, ibv_qp* qp, const QpSpec& spec) {
    return {hca.address(), qp->qp_num, spec.psn};
}

void bring_up(const Hca& hca, ibv_qp* qp, const QpSpec& spec, const Peer& peer) {
    apply_all(qp, {to_init(hca, spec), to_rtr(hca, spec, peer), to_rts(spec)});
}

void connect(const Hca& hca, const Qp& a, const Qp& b, const QpSpec& spec) {
    bring_up(hca, b.get(), spec, as_peer(hca, a.get(), spec));
    bring_up(hca, a.get(), spec, as_peer(hca, b.get(), spec));
}

Pair::Pair(const Hca& hca, ibv_pd* pd, const QpSpec& of_a, const QpSpec& of_b, std::size_t bytes)
    : a_mem(pd, bytes), b_mem(pd, bytes), a(hca, pd, of_a), b(hca, pd, of_b) {
    bring_up(hca, b.qp.get(), of_b, as_peer(hca, a.qp.get(), of_a));
    bring_up(hca, a.qp.get(), of_a, as_peer(hca, b.qp.get(), of_b));
}

bool has_transport(const Hca& hca, ibv_pd* pd, ibv_qp_type type) {
    const Cq cq = hca.make_cq();
    QpSpec spec;
    spec.type = type;
    ibv_qp_init_attr init = init_attr(spec, cq.get(), cq.get());
    return Qp(ibv_create_qp(pd, &init)) != nullptr;
}

void TransportTest::SetUp() {
    if (!has_transport(hca_, pd_.get(), GetParam()))
        GTEST_SKIP() << "no " << transport_name(GetParam());
}

const char* transport_name(ibv_qp_type type) {
    switch (type) {
        case IBV_QPT_RC:
            return "RC";
        case IBV_QPT_UC:
            return "UC";
        case IBV_QPT_UD:
            return "UD";
        case IBV_QPT_XRC_SEND:
            return "XRC_SEND";
        case IBV_QPT_XRC_RECV:
            return "XRC_RECV";
        default:
            return "other";
    }
}

}  // namespace conformance
