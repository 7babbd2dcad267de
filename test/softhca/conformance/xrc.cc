// SPDX-License-Identifier: BSD-3-Clause
#include "xrc.h"

#include <cerrno>

namespace conformance {

Xrcd open_xrcd(const Hca& hca, int fd, int flags) {
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = fd;
    init.oflags = flags;
    errno = 0;
    return Xrcd(ibv_open_xrcd(hca.get(), &init));
}

Srq make_xrc_srq(const Hca& hca, ibv_pd* pd, ibv_xrcd* xrcd, ibv_cq* cq, uint32_t max_wr) {
    ibv_srq_init_attr_ex init{};
    init.attr.max_wr = max_wr;
    init.attr.max_sge = 2;
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = pd;
    init.xrcd = xrcd;
    init.cq = cq;
    Srq srq(ibv_create_srq_ex(hca.get(), &init));
    if (!srq) fail_errno("ibv_create_srq_ex");
    return srq;
}

uint32_t srq_number(const Srq& srq) {
    uint32_t number = 0;
    if (int rc = ibv_get_srq_num(srq.get(), &number))
        fail("ibv_get_srq_num: " + std::to_string(rc));
    return number;
}

Qp make_xrc_sender(const Hca& hca, ibv_pd* pd, ibv_cq* cq, const QpSpec& spec) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.send_cq = cq;
    init.cap.max_send_wr = spec.send_wr;
    init.cap.max_send_sge = spec.send_sge;
    init.cap.max_inline_data = spec.inline_data;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    Qp qp(ibv_create_qp_ex(hca.get(), &init));
    if (!qp) fail_errno("ibv_create_qp_ex of an XRC sender");
    return qp;
}

Qp make_xrc_receiver(const Hca& hca, ibv_xrcd* xrcd) {
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    Qp qp(ibv_create_qp_ex(hca.get(), &init));
    if (!qp) fail_errno("ibv_create_qp_ex of an XRC receiver");
    return qp;
}

QpSpec xrc_send_spec(QpSpec spec) {
    spec.type = IBV_QPT_XRC_SEND;
    return spec;
}

QpSpec xrc_recv_spec(QpSpec spec) {
    spec.type = IBV_QPT_XRC_RECV;
    return spec;
}

void connect_xrc(const Hca& hca, const Qp& sender, const Qp& receiver, const QpSpec& spec) {
    const QpSpec out = xrc_send_spec(spec);
    const QpSpec in = xrc_recv_spec(spec);
    bring_up(hca, receiver.get(), in, as_peer(hca, sender.get(), out));
    bring_up(hca, sender.get(), out, as_peer(hca, receiver.get(), in));
}

void XrcTest::SetUp() {
    if (!hca_.has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
}

}  // namespace conformance
