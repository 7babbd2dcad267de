// SPDX-License-Identifier: BSD-3-Clause
// Posts lists of work requests.
#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/verbs/limits.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"
#include "softhca/verbs/wr_api.h"

namespace softhca {

bool transport_has(QpType type, WrOpcode opcode) {
    switch (type) {
        case QpType::kRc:
            return true;
        case QpType::kXrcSend:
            return opcode != WrOpcode::kBindMw && opcode != WrOpcode::kLocalInvalidate;
        case QpType::kUc:
            return opcode != WrOpcode::kRdmaRead && opcode != WrOpcode::kCompareSwap &&
                   opcode != WrOpcode::kFetchAdd;
        case QpType::kUd:
            return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendImm;
        case QpType::kXrcRecv:
            return false;
    }
    return false;
}

namespace {

// Copies the data of an inline request, or its list of elements. 0 or an error.
int set_data(Qp& qp, const ibv_send_wr& wr, Wqe& wqe) {
    const Qp::Attributes& attributes = qp.attributes();
    if (wr.num_sge < 0 || static_cast<uint32_t>(wr.num_sge) > attributes.max_send_sge)
        return EINVAL;
    uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) length += wr.sg_list[i].length;
    wqe.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    if (length > limits::kMessage ||
        (wqe.is_inline && (length > attributes.max_inline || !wqe.gathers())))
        return EINVAL;
    wqe.length = static_cast<uint32_t>(length);
    wqe.num_sge = static_cast<uint8_t>(wr.num_sge);
    if (!wqe.is_inline) {
        std::copy(wr.sg_list, wr.sg_list + wr.num_sge, reinterpret_cast<ibv_sge*>(wqe.sges()));
        return 0;
    }
    char* to = wqe.inline_data();
    for (int i = 0; i < wr.num_sge; ++i) {
        to = std::copy_n(reinterpret_cast<const char*>(wr.sg_list[i].addr), wr.sg_list[i].length,
                         to);
    }
    return 0;
}

int set_operation(const ibv_send_wr& wr, Wqe& wqe) {
    switch (wqe.opcode) {
        case WrOpcode::kRdmaWrite:
        case WrOpcode::kRdmaWriteImm:
        case WrOpcode::kRdmaRead:
            wqe.remote_address = wr.wr.rdma.remote_addr;
            wqe.rkey = wr.wr.rdma.rkey;
            return 0;
        case WrOpcode::kCompareSwap:
        case WrOpcode::kFetchAdd:
            wqe.remote_address = wr.wr.atomic.remote_addr;
            wqe.rkey = wr.wr.atomic.rkey;
            wqe.compare_add = wr.wr.atomic.compare_add;
            wqe.swap = wr.wr.atomic.swap;
            wqe.length = sizeof(uint64_t);
            return 0;
        case WrOpcode::kBindMw:
            return fill_bind(wqe, wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
        default:
            return 0;
    }
}

// Fills the device's entry from the program's. 0, or EINVAL for an immediate error of the
// specification.
int build(Qp& qp, const ibv_send_wr& wr, Wqe& wqe) {
    if (static_cast<uint32_t>(wr.opcode) > static_cast<uint32_t>(WrOpcode::kSendInvalidate))
        return EINVAL;
    wqe.wr_id = wr.wr_id;
    wqe.opcode = static_cast<WrOpcode>(wr.opcode);
    wqe.flags = static_cast<uint8_t>(wr.send_flags);
    wqe.imm = wr.imm_data;
    const QpType type = qp.attributes().type;
    if (!transport_has(type, wqe.opcode)) return EINVAL;
    int status = wqe.is_local() ? 0 : set_data(qp, wr, wqe);
    if (status == 0) status = set_operation(wr, wqe);
    if (type == QpType::kUd) {
        if (wr.wr.ud.ah == nullptr) return EINVAL;
        wqe.destination = object_of<AhObject>(wr.wr.ud.ah)->destination;
        wqe.remote_qp = wr.wr.ud.remote_qpn;
        wqe.qkey = wr.wr.ud.remote_qkey;
    } else if (type == QpType::kXrcSend) {
        wqe.srq = wr.qp_type.xrc.remote_srqn;
    }
    return status;
}

}  // namespace

int fill_bind(Wqe& wqe, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info) {
    constexpr uint32_t kAllowed = access_flag::kLocalWrite | access_flag::kRemoteWrite |
                                  access_flag::kRemoteRead | access_flag::kRemoteAtomic |
                                  access_flag::kZeroBased;
    if (mw == nullptr || (info.mw_access_flags & ~kAllowed) != 0 ||
        (info.length != 0 && info.mr == nullptr))
        return EINVAL;
    wqe.bind.window_key =
        KeyNumber::make(KeyNumber::process(mw->rkey), KeyNumber::index(mw->rkey), 0);
    wqe.bind.new_key = rkey;
    wqe.bind.region_key = info.mr == nullptr ? 0 : info.mr->lkey;
    wqe.bind.address = info.addr;
    wqe.bind.length = info.length;
    wqe.bind.access = info.mw_access_flags;
    return 0;
}

int post_send(ibv_qp* ibv, ibv_send_wr* wr, ibv_send_wr** bad_wr) try {
    auto* object = object_of<QpObject>(ibv);
    *bad_wr = wr;
    if (inherited(ibv->context) || object->qp == nullptr || ibv->qp_type == IBV_QPT_XRC_RECV)
        return EINVAL;
    Qp& qp = *object->qp;
    if (!can_post_send(qp.state())) return EINVAL;
    const uint64_t post_time = qp.post_time();
    int status = 0;
    {
        const std::lock_guard lock(qp.post_mutex);
        for (; wr != nullptr; wr = wr->next) {
            Wqe* wqe = qp.reserve_send();
            status = wqe == nullptr ? ENOMEM : build(qp, *wr, *wqe);
            if (status != 0) {
                *bad_wr = wr;
                break;
            }
            qp.commit_send(*wqe, post_time);
        }
    }
    qp.start_sends();
    return status;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

int post_recv(ibv_qp* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) try {
    auto* object = object_of<QpObject>(ibv);
    *bad_wr = wr;
    if (inherited(ibv->context) || object->qp == nullptr || ibv->srq != nullptr ||
        ibv->recv_cq == nullptr)
        return EINVAL;
    Qp& qp = *object->qp;
    if (!can_post_recv(qp.state())) return EINVAL;
    int status = 0;
    for (; wr != nullptr && status == 0; wr = wr->next) {
        status = wr->num_sge < 0
                     ? EINVAL
                     : qp.post_receive(wr->wr_id, reinterpret_cast<const Sge*>(wr->sg_list),
                                       static_cast<uint32_t>(wr->num_sge));
        if (status != 0) *bad_wr = wr;
    }
    if (qp.state() == QpState::kErr) qp.flush();
    return status;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

}  // namespace softhca
