// SPDX-License-Identifier: BSD-3-Clause
// Extended completion queues: polling entry by entry.
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

CqObject* object_of_cq(ibv_cq_ex* cq) {
    return object_of<CqObject>(cq);
}

// Takes the next completion as the queue's current one. ENOENT if there is none, EIO if it is
// stale. The caller holds the poll mutex.
int take_next(CqObject& object) {
    const int taken =
        object.cq->poll_locked(1, [&object](const Completion& wc) { object.current = wc; });
    if (taken <= 0) return taken == 0 ? ENOENT : EIO;
    charge(&softhca_virtual_time::completion);
    object.ibv.wr_id = object.current.wr_id;
    object.ibv.status = static_cast<ibv_wc_status>(object.current.status);
    return 0;
}

int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) {
    if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
    if (inherited(cq->context)) return ENOENT;
    CqObject& object = *object_of_cq(cq);
    charge_poll();
    object.cq->poll_mutex.lock();
    const int status = take_next(object);
    if (status == 0) return 0;
    object.cq->poll_mutex.unlock();  // programs do not call end_poll after this
    return status == EIO || object.cq->poll_empty() < 0 ? EIO : ENOENT;
}

int next_poll(ibv_cq_ex* cq) {
    return take_next(*object_of_cq(cq));
}
void end_poll(ibv_cq_ex* cq) {
    object_of_cq(cq)->cq->poll_mutex.unlock();
}

const Completion& current(ibv_cq_ex* cq) {
    return object_of_cq(cq)->current;
}

ibv_wc_opcode read_opcode(ibv_cq_ex* cq) {
    return static_cast<ibv_wc_opcode>(current(cq).opcode);
}
uint32_t read_vendor_err(ibv_cq_ex*) {
    return 0;
}
uint32_t read_byte_len(ibv_cq_ex* cq) {
    return current(cq).byte_len;
}
__be32 read_imm_data(ibv_cq_ex* cq) {
    return current(cq).imm;
}
uint32_t read_qp_num(ibv_cq_ex* cq) {
    return current(cq).qp_num;
}
uint32_t read_src_qp(ibv_cq_ex* cq) {
    return current(cq).src_qp;
}
unsigned int read_wc_flags(ibv_cq_ex* cq) {
    return current(cq).flags;
}
uint32_t read_slid(ibv_cq_ex* cq) {
    return current(cq).slid;
}
uint8_t read_sl(ibv_cq_ex*) {
    return 0;
}
uint8_t read_dlid_path_bits(ibv_cq_ex*) {
    return 0;
}

// Time stamp in ns: of the timing model if completions are delayed, else of the poll.
uint64_t read_completion_ts(ibv_cq_ex* cq) {
    const uint64_t visible_at = current(cq).visible_at;
    return visible_at != 0 ? visible_at : now_ns();
}

uint64_t read_completion_wallclock_ns(ibv_cq_ex* cq) {
    timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    const uint64_t now =
        static_cast<uint64_t>(wall.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(wall.tv_nsec);
    return now - (now_ns() - std::min(now_ns(), read_completion_ts(cq)));
}

uint64_t known_fields(const Personality& personality) {
    constexpr uint64_t kTimestamps =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    return uint64_t{IBV_WC_STANDARD_FLAGS} | (personality.has.timestamps != 0 ? kTimestamps : 0);
}

constexpr uint32_t kKnownFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;

}  // namespace

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) try {
    const bool has_flags = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
    const bool has_pd = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
    if ((attributes->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0 ||
        (has_pd && (attributes->parent_domain == nullptr ||
                    object_of<PdObject>(attributes->parent_domain)->parent == nullptr))) {
        set_error(EINVAL);
        return nullptr;
    }
    if ((attributes->wc_flags & ~known_fields(personality_of(context))) != 0 ||
        (has_flags && (attributes->flags & ~kKnownFlags) != 0)) {
        set_error(EOPNOTSUPP);
        return nullptr;
    }
    CqObject* object = make_cq(context, attributes->cqe, attributes->cq_context,
                               attributes->channel, attributes->comp_vector);
    if (object == nullptr) return nullptr;
    if (has_pd) {
        object->parent_domain = object_of<PdObject>(attributes->parent_domain);
        object->parent_domain->users.fetch_add(1, std::memory_order_relaxed);
    }
    ibv_cq_ex& cq = object->ibv;
    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    cq.end_poll = end_poll;
    cq.read_opcode = read_opcode;
    cq.read_vendor_err = read_vendor_err;
    cq.read_byte_len = read_byte_len;
    cq.read_imm_data = read_imm_data;
    cq.read_qp_num = read_qp_num;
    cq.read_src_qp = read_src_qp;
    cq.read_wc_flags = read_wc_flags;
    cq.read_slid = read_slid;
    cq.read_sl = read_sl;
    cq.read_dlid_path_bits = read_dlid_path_bits;
    if ((attributes->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
        cq.read_completion_ts = read_completion_ts;
    if ((attributes->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
        cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
    return &cq;
} catch (const std::bad_alloc&) {
    set_error(ENOMEM);
    return nullptr;
}

}  // namespace softhca
