// SPDX-License-Identifier: BSD-3-Clause
// Posts lists of work requests.
#include <algorithm>

#include "softhca/core/qp_state.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"
#include "softhca/verbs/wr_api.h"

namespace softhca {

namespace {

template <typename... Opcodes>
constexpr uint32_t bits(Opcodes... opcodes) {
    return ((1u << static_cast<unsigned>(opcodes)) | ...);
}

constexpr uint32_t kAtomics = bits(WrOpcode::kCompareSwap, WrOpcode::kFetchAdd);
constexpr uint32_t kWindows =
    bits(WrOpcode::kBindMw, WrOpcode::kLocalInvalidate, WrOpcode::kSendInvalidate);
constexpr uint32_t kAll = bits(WrOpcode::kRdmaWrite, WrOpcode::kRdmaWriteImm, WrOpcode::kSend,
                               WrOpcode::kSendImm, WrOpcode::kRdmaRead) |
                          kAtomics | kWindows;

constexpr uint32_t operations_of_transport(QpType type) {
    switch (type) {
        case QpType::kRc:
            return kAll;
        case QpType::kXrcSend:
            return kAll & ~bits(WrOpcode::kBindMw, WrOpcode::kLocalInvalidate);
        case QpType::kUc:
            return kAll & ~(bits(WrOpcode::kRdmaRead) | kAtomics);
        case QpType::kUd:
            return bits(WrOpcode::kSend, WrOpcode::kSendImm);
        case QpType::kXrcRecv:
            return 0;
    }
    return 0;
}

}  // namespace

uint32_t operations_of(const Personality& personality, QpType type) {
    uint32_t operations = operations_of_transport(type);
    if (personality.has.atomics == 0) operations &= ~kAtomics;
    if (personality.has.write_imm == 0) operations &= ~bits(WrOpcode::kRdmaWriteImm);
    if (personality.has.windows == 0) operations &= ~kWindows;
    return operations;
}

Admission admit_send(Qp& qp) {
    Host& host = qp.adapter().host();
    if (take_failure(host.header().faults.post_fail)) [[unlikely]]
        return {false, host.personality().errors.full};
    if (can_post_send(qp.state())) [[likely]]
        return {true, 0};
    const Personality& personality = host.personality();
    return {personality.send_queue.early != rule::kEarlyRefused,
            personality.send_queue.early == rule::kEarlyQueued ? 0 : personality.errors.early};
}

namespace {

uint32_t most_elements(const Qp& qp, const Wqe& wqe) {
    const Qp::Attributes& attributes = qp.attributes();
    return wqe.opcode == WrOpcode::kRdmaRead ? attributes.max_read_sge : attributes.max_send_sge;
}

}  // namespace

const Personality::Errors& errors_of(Qp& qp) {
    return qp.adapter().host().personality().errors;
}

int set_elements(Qp& qp, Wqe& wqe, const ibv_sge* list, size_t count) {
    if (count > most_elements(qp, wqe)) return errors_of(qp).sge;
    uint64_t length = 0;
    for (size_t i = 0; i < count; ++i) length += list[i].length;
    if (length > qp.attributes().max_message) return EINVAL;
    wqe.num_sge = static_cast<uint8_t>(count);
    if (wqe.opcode != WrOpcode::kCompareSwap && wqe.opcode != WrOpcode::kFetchAdd)
        wqe.length = static_cast<uint32_t>(length);
    Sge* const elements = wqe.sges();
    for (size_t i = 0; i < count; ++i) elements[i] = list[i];
    return 0;
}

int set_inline(Qp& qp, Wqe& wqe, const ibv_data_buf* list, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += list[i].length;
    if (length > qp.attributes().max_inline || !wqe.gathers()) return errors_of(qp).inline_data;
    wqe.is_inline = true;
    wqe.length = static_cast<uint32_t>(length);
    char* to = wqe.inline_data();
    for (size_t i = 0; i < count; ++i)
        to = std::copy_n(static_cast<const char*>(list[i].addr), list[i].length, to);
    return 0;
}

namespace {

// Copies the data of an inline request, or its list of elements. 0 or an error.
int set_data(Qp& qp, const ibv_send_wr& wr, Wqe& wqe) {
    const auto count = static_cast<uint32_t>(wr.num_sge);  // a huge one, if it is negative
    if ((wr.send_flags & IBV_SEND_INLINE) == 0) return set_elements(qp, wqe, wr.sg_list, count);
    ibv_data_buf pieces[kMaxSge];
    if (count > most_elements(qp, wqe)) return errors_of(qp).sge;
    uint64_t length = 0;
    for (uint32_t i = 0; i < count; ++i) {
        pieces[i] = {reinterpret_cast<void*>(wr.sg_list[i].addr), wr.sg_list[i].length};
        length += wr.sg_list[i].length;
    }
    if (length > qp.attributes().max_message) return EINVAL;
    return set_inline(qp, wqe, pieces, count);
}

int set_operation(const ibv_send_wr& wr, Wqe& wqe) {
    switch (wqe.opcode) {
        case WrOpcode::kRdmaWrite:
        case WrOpcode::kRdmaWriteImm:
        case WrOpcode::kRdmaRead:
            wqe.remote = {wr.wr.rdma.remote_addr, wr.wr.rdma.rkey};
            return 0;
        case WrOpcode::kCompareSwap:
        case WrOpcode::kFetchAdd:
            wqe.remote = {wr.wr.atomic.remote_addr, wr.wr.atomic.rkey};
            wqe.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
            wqe.length = sizeof(uint64_t);
            return 0;
        case WrOpcode::kBindMw:
            return fill_bind(wqe, wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
        default:
            return 0;
    }
}

// Fills the device's entry from the program's. 0, or the error of the post.
int build(Qp& qp, const ibv_send_wr& wr, Wqe& wqe) {
    const auto opcode = static_cast<uint32_t>(wr.opcode);
    if (opcode >= 32 || (qp.attributes().operations >> opcode & 1) == 0)
        return errors_of(qp).opcode;
    wqe.wr_id = wr.wr_id;
    wqe.opcode = static_cast<WrOpcode>(wr.opcode);
    wqe.flags = static_cast<uint8_t>(wr.send_flags);
    wqe.imm = wr.imm_data;
    const QpType type = qp.attributes().type;
    int status = wqe.is_local() ? 0 : set_data(qp, wr, wqe);
    if (status == 0) status = set_operation(wr, wqe);
    if (type == QpType::kUd) {
        if (wr.wr.ud.ah == nullptr) return EINVAL;
        wqe.datagram = {object_of<AhObject>(wr.wr.ud.ah)->destination, wr.wr.ud.remote_qpn,
                        wr.wr.ud.remote_qkey};
    } else if (type == QpType::kXrcSend) {
        wqe.srq = wr.qp_type.xrc.remote_srqn;
    }
    return status;
}

void charge_chain(const Qp& qp, const ibv_send_wr& first) {
    uint64_t requests = 0;
    for (const ibv_send_wr* wr = &first; wr != nullptr; wr = wr->next) ++requests;
    uint64_t blocks = 0;
    if (requests == 1 && (first.send_flags & IBV_SEND_INLINE) != 0) {
        uint64_t bytes = 0;
        for (int i = 0; i < first.num_sge; ++i) bytes += first.sg_list[i].length;
        blocks = further_blocks(qp, static_cast<WrOpcode>(first.opcode), bytes);
    }
    charge_post(requests, blocks);
}

}  // namespace

uint64_t further_blocks(const Qp& qp, WrOpcode opcode, uint64_t bytes) {
    constexpr uint64_t kPart = 16, kBlock = 64, kAddressHandle = 48;
    uint64_t request = kPart + (bytes + sizeof(uint32_t) + kPart - 1) / kPart * kPart;
    const QpType type = qp.attributes().type;
    if (type == QpType::kUd) request += kAddressHandle;
    if (type == QpType::kXrcSend) request += kPart;
    if (opcode == WrOpcode::kRdmaWrite || opcode == WrOpcode::kRdmaWriteImm) request += kPart;
    return (request - 1) / kBlock;
}

int fill_bind(Wqe& wqe, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info& info) {
    constexpr uint32_t kAllowed = access_flag::kLocalWrite | access_flag::kRemoteWrite |
                                  access_flag::kRemoteRead | access_flag::kRemoteAtomic |
                                  access_flag::kZeroBased;
    if (mw == nullptr || (info.mw_access_flags & ~kAllowed) != 0 ||
        (info.length != 0 && info.mr == nullptr))
        return EINVAL;
    wqe.bind.window_key =
        KeyNumber::make(KeyNumber::process(mw->rkey), KeyNumber::index(mw->rkey), 0);
    // The program chooses the last 8 bits; the others are the window's, as drivers have it, too.
    constexpr uint32_t kKeyPart = 0xff;
    wqe.bind.new_key = (mw->rkey & ~kKeyPart) | (rkey & kKeyPart);
    mw->rkey = wqe.bind.new_key;
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
    const Admission admission = admit_send(qp);
    if (!admission.queued) return admission.error;
    if (is_virtual_time()) charge_chain(qp, *wr);
    const uint64_t post_time = qp.requester.post_time();
    int status = 0;
    {
        const std::lock_guard lock(qp.requester.post_mutex);
        for (; wr != nullptr; wr = wr->next) {
            Wqe* wqe = qp.requester.queue().reserve();
            status = wqe == nullptr ? errors_of(qp).full : build(qp, *wr, *wqe);
            if (status != 0) {
                *bad_wr = wr;
                break;
            }
            qp.requester.commit(*wqe, post_time);
        }
    }
    qp.requester.start();
    return status != 0 ? status : admission.error;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

namespace {

// Calls post() for each receive of a list, until one fails.
template <typename Post>
int post_receives(ibv_recv_wr* wr, ibv_recv_wr** bad_wr, Post&& post) {
    for (; wr != nullptr; wr = wr->next) {
        *bad_wr = wr;
        charge(&softhca_virtual_time::receive);
        if (wr->num_sge < 0) return EINVAL;
        if (const int status = post(wr->wr_id, wr->sg_list, static_cast<uint32_t>(wr->num_sge)))
            return status;
    }
    return 0;
}

}  // namespace

int post_recv(ibv_qp* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) try {
    auto* object = object_of<QpObject>(ibv);
    *bad_wr = wr;
    if (inherited(ibv->context) || object->qp == nullptr || ibv->srq != nullptr ||
        ibv->recv_cq == nullptr)
        return EINVAL;
    Qp& qp = *object->qp;
    if (!can_post_recv(qp.state())) return EINVAL;
    if (take_failure(faults_of(ibv->context).post_fail)) [[unlikely]]
        return personality_of(ibv->context).errors.recv_full;
    const int status = post_receives(
        wr, bad_wr, [&](auto... receive) { return qp.receive_queue.post(receive...); });
    if (qp.state() == QpState::kErr) qp.flush();
    return status;
} catch (const std::bad_alloc&) {
    return ENOMEM;
}

int post_srq_recv(ibv_srq* ibv, ibv_recv_wr* wr, ibv_recv_wr** bad_wr) {
    *bad_wr = wr;
    if (inherited(ibv->context)) return EINVAL;
    if (take_failure(faults_of(ibv->context).post_fail)) [[unlikely]]
        return personality_of(ibv->context).errors.srq_full;
    Srq::Posts posts(*object_of<SrqObject>(ibv)->srq);
    return post_receives(wr, bad_wr, [&](auto... receive) { return posts.post(receive...); });
}

}  // namespace softhca
