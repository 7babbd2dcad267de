// SPDX-License-Identifier: BSD-3-Clause
#include "bench/measure/services.h"

#include <cerrno>

#include "bench/measure/clock.h"
#include "tern/verbs/queue_pair.h"

namespace bench {
namespace {

void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
    errno = ibv_modify_qp(qp, &attributes, mask);
    if (errno != 0) throw call_failed("ibv_modify_qp of an unreliable connection");
}

}  // namespace

void connect_unreliable(ibv_qp* qp, const tern::verbs::Port& port, const ibv_ah_attr& to,
                        uint32_t peer_qp_number) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.pkey_index = port.pkey_index;
    attributes.port_num = port.number;
    attributes.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    modify(qp, attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attributes.qp_state = IBV_QPS_RTR;
    attributes.ah_attr = to;
    attributes.path_mtu = port.mtu;
    attributes.dest_qp_num = peer_qp_number;
    modify(qp, attributes,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN);
    attributes.qp_state = IBV_QPS_RTS;
    modify(qp, attributes, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

tern::verbs::AddressHandle start_datagrams(ibv_qp* qp, ibv_pd* pd, const tern::verbs::Port& port,
                                           ibv_ah_attr to) {
    errno = tern::verbs::start_datagrams(qp, port, kDatagramKey, 0);
    if (errno != 0) throw call_failed("ibv_modify_qp of a datagram queue pair");
    tern::verbs::AddressHandle handle(ibv_create_ah(pd, &to));
    if (!handle) throw call_failed("ibv_create_ah");
    return handle;
}

}  // namespace bench
