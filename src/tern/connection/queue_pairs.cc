// SPDX-License-Identifier: BSD-3-Clause
#include "tern/connection/queue_pairs.h"

#include <cerrno>

namespace tern {

verbs::QueuePair QueuePairs::create(uint32_t sends, const char*& what) const {
    ibv_qp_cap capacity{};
    verbs::QueueSizes wanted = sizes;
    wanted.sends = sends;
    auto qp = verbs::create_queue_pair(pd, IBV_QPT_RC, cq, srq, wanted, capacity);
    if (!qp) {
        what = "cannot create a queue pair";
        return qp;
    }
    const int error = verbs::init_reliable(qp.get(), port);
    if (error == 0) return qp;
    what = "cannot initialise a queue pair";
    qp.reset();
    errno = error;
    return qp;
}

QpParameters QueuePairs::parameters(const ibv_qp& qp) const {
    return {.qp_num = qp.qp_num,
            .mtu = static_cast<uint8_t>(port.mtu),
            .version = QpParameters::kVersion,
            .reads = port.reads,
            .lmc = port.attributes.lmc};
}

int QueuePairs::connect(ibv_qp* qp, const PeerAddress& peer, const Handshake& handshake) const {
    const QpParameters& there = handshake.peer();
    const uint32_t own_token = handshake.token();
    const uint32_t peer_token = handshake.peer_token();
    return verbs::connect_reliable(qp, port, retry, address_vector(port, own, peer, there.lmc),
                                   there.qp_num, first_psn(peer_token, own_token),
                                   first_psn(own_token, peer_token),
                                   static_cast<ibv_mtu>(there.mtu), there.reads);
}

}  // namespace tern
