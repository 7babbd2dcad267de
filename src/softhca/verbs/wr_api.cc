// SPDX-License-Identifier: BSD-3-Clause
// ibv_wr_*: work requests are built in entries of the send queue, and posted together.
#include "softhca/verbs/wr_api.h"

#include "softhca/core/qp_state.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

// An operation's bit is that of its opcode.
static_assert(IBV_QP_EX_WITH_RDMA_WRITE == 1 << IBV_WR_RDMA_WRITE &&
              IBV_QP_EX_WITH_SEND_WITH_IMM == 1 << IBV_WR_SEND_WITH_IMM &&
              IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD == 1 << IBV_WR_ATOMIC_FETCH_AND_ADD &&
              IBV_QP_EX_WITH_SEND_WITH_INV == 1 << IBV_WR_SEND_WITH_INV);

QpObject& object_of_qp(ibv_qp_ex* qp) {
    return *object_of<QpObject>(qp);
}

// The request being built; nullptr after an error: calls are ignored until wr_complete.
Wqe* last(QpObject& object) {
    return object.build_error != 0 || object.building.empty() ? nullptr : object.building.back();
}

Wqe* begin(ibv_qp_ex* qp, WrOpcode opcode) {
    QpObject& object = object_of_qp(qp);
    if (object.build_error != 0) return nullptr;
    Wqe* wqe = object.qp->requester.queue().reserve(object.building.size());
    if (wqe == nullptr) {
        object.build_error = errors_of(*object.qp).full;
        return nullptr;
    }
    wqe->wr_id = qp->wr_id;
    wqe->flags = static_cast<uint8_t>(qp->wr_flags);
    wqe->opcode = opcode;
    object.building.push_back(wqe);
    return wqe;
}

void begin_rdma(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t address) {
    if (Wqe* wqe = begin(qp, opcode)) wqe->remote = {address, rkey};
}

void begin_with_imm(ibv_qp_ex* qp, WrOpcode opcode, uint32_t imm) {
    if (Wqe* wqe = begin(qp, opcode)) wqe->imm = imm;
}

void rdma_write_imm(ibv_qp_ex* qp, uint32_t rkey, uint64_t address, __be32 imm) {
    begin_rdma(qp, WrOpcode::kRdmaWriteImm, rkey, address);
    if (Wqe* wqe = last(object_of_qp(qp))) wqe->imm = imm;
}

void begin_atomic(ibv_qp_ex* qp, WrOpcode opcode, uint32_t rkey, uint64_t address,
                  const AtomicOperands& operands) {
    begin_rdma(qp, opcode, rkey, address);
    if (Wqe* wqe = last(object_of_qp(qp))) {
        wqe->atomic = operands;
        wqe->length = sizeof(uint64_t);
    }
}

void bind_window(ibv_qp_ex* qp, ibv_mw* mw, uint32_t rkey, const ibv_mw_bind_info* info) {
    Wqe* wqe = begin(qp, WrOpcode::kBindMw);
    if (wqe != nullptr) object_of_qp(qp).build_error = fill_bind(*wqe, mw, rkey, *info);
}

void set_inline_data_list(ibv_qp_ex* qp, size_t count, const ibv_data_buf* list) {
    QpObject& object = object_of_qp(qp);
    if (Wqe* wqe = last(object)) object.build_error = set_inline(*object.qp, *wqe, list, count);
}

void set_sge_list(ibv_qp_ex* qp, size_t count, const ibv_sge* list) {
    QpObject& object = object_of_qp(qp);
    if (Wqe* wqe = last(object)) object.build_error = set_elements(*object.qp, *wqe, list, count);
}

bool after_fork(ibv_qp_ex* qp) {
    return inherited(qp->qp_base.context);
}

void start(ibv_qp_ex* qp) {
    QpObject& object = object_of_qp(qp);
    if (after_fork(qp)) {
        object.build_error = EINVAL;
        return;
    }
    object.qp->requester.post_mutex.lock();
    object.building.clear();
    object.build_error = admit_send(*object.qp).error;
}

int complete(ibv_qp_ex* qp) {
    QpObject& object = object_of_qp(qp);
    const int status = object.build_error;
    const bool alone = object.building.size() == 1 && object.building.front()->is_inline;
    const auto blocks_of = [&](const Wqe& wqe) {
        return further_blocks(*object.qp, wqe.opcode, wqe.length);
    };
    charge_post(object.building.size(), alone ? blocks_of(*object.building.front()) : 0);
    const uint64_t post_time = object.qp->requester.post_time();
    if (after_fork(qp)) return EINVAL;
    if (status == 0)
        for (Wqe* wqe : object.building) object.qp->requester.commit(*wqe, post_time);
    object.building.clear();
    object.qp->requester.post_mutex.unlock();
    if (status == 0) object.qp->requester.start();
    return status;
}

void abort_requests(ibv_qp_ex* qp) {
    if (!after_fork(qp)) {
        object_of_qp(qp).building.clear();
        object_of_qp(qp).qp->requester.post_mutex.unlock();
    }
}

}  // namespace

bool send_ops_supported(const Personality& personality, ibv_qp_type type, uint64_t operations) {
    if (personality.has.wr_api == 0) return false;
    return (operations & ~uint64_t{operations_of(personality, static_cast<QpType>(type))}) == 0;
}

void add_send_ops(QpObject& object, uint64_t operations) {
    ibv_qp_ex& qp = object.ibv;
    object.extended = true;
    object.building.reserve(object.qp->requester.queue().capacity());
    const auto offer = [operations](auto& member, uint64_t bit, auto function) {
        member = (operations & bit) != 0 ? +function : nullptr;
    };
    offer(qp.wr_rdma_write, IBV_QP_EX_WITH_RDMA_WRITE,
          [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
              begin_rdma(ex, WrOpcode::kRdmaWrite, rkey, address);
          });
    offer(qp.wr_rdma_write_imm, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rdma_write_imm);
    offer(qp.wr_rdma_read, IBV_QP_EX_WITH_RDMA_READ,
          [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address) {
              begin_rdma(ex, WrOpcode::kRdmaRead, rkey, address);
          });
    offer(qp.wr_send, IBV_QP_EX_WITH_SEND, [](ibv_qp_ex* ex) { begin(ex, WrOpcode::kSend); });
    offer(qp.wr_send_imm, IBV_QP_EX_WITH_SEND_WITH_IMM,
          [](ibv_qp_ex* ex, __be32 imm) { begin_with_imm(ex, WrOpcode::kSendImm, imm); });
    offer(qp.wr_send_inv, IBV_QP_EX_WITH_SEND_WITH_INV, [](ibv_qp_ex* ex, uint32_t rkey) {
        begin_with_imm(ex, WrOpcode::kSendInvalidate, rkey);
    });
    offer(qp.wr_local_inv, IBV_QP_EX_WITH_LOCAL_INV, [](ibv_qp_ex* ex, uint32_t rkey) {
        begin_with_imm(ex, WrOpcode::kLocalInvalidate, rkey);
    });
    offer(qp.wr_bind_mw, IBV_QP_EX_WITH_BIND_MW, bind_window);
    offer(qp.wr_atomic_cmp_swp, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
          [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t compare, uint64_t swap) {
              begin_atomic(ex, WrOpcode::kCompareSwap, rkey, address, {compare, swap});
          });
    offer(qp.wr_atomic_fetch_add, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
          [](ibv_qp_ex* ex, uint32_t rkey, uint64_t address, uint64_t add) {
              begin_atomic(ex, WrOpcode::kFetchAdd, rkey, address, {add, 0});
          });
    qp.wr_set_ud_addr = [](ibv_qp_ex* ex, ibv_ah* ah, uint32_t number, uint32_t qkey) {
        if (Wqe* wqe = last(object_of_qp(ex)))
            wqe->datagram = {object_of<AhObject>(ah)->destination, number, qkey};
    };
    qp.wr_set_xrc_srqn = [](ibv_qp_ex* ex, uint32_t number) {
        if (Wqe* wqe = last(object_of_qp(ex))) wqe->srq = number;
    };
    qp.wr_set_inline_data = [](ibv_qp_ex* ex, void* address, size_t length) {
        const ibv_data_buf buffer{address, length};
        set_inline_data_list(ex, 1, &buffer);
    };
    qp.wr_set_inline_data_list = set_inline_data_list;
    qp.wr_set_sge = [](ibv_qp_ex* ex, uint32_t lkey, uint64_t address, uint32_t length) {
        const ibv_sge sge{address, length, lkey};
        set_sge_list(ex, 1, &sge);
    };
    qp.wr_set_sge_list = set_sge_list;
    qp.wr_start = start;
    qp.wr_complete = complete;
    qp.wr_abort = abort_requests;
}

}  // namespace softhca
