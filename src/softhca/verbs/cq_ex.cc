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
    if (object.current.status != WcStatus::kSuccess) [[unlikely]]
        object.current = shown_error(personality_of(object.ibv.context), object.current);
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

const Completion& current(ibv_cq_ex* cq) {
    return object_of_cq(cq)->current;
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

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes) {
    const bool has_flags = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0;
    const bool has_pd = (attributes->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0;
    if ((attributes->comp_mask & ~(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0 ||
        (has_pd && (attributes->parent_domain == nullptr ||
                    object_of<PdObject>(attributes->parent_domain)->parent == nullptr)))
        return fail(EINVAL);
    if ((attributes->wc_flags & ~known_fields(personality_of(context))) != 0 ||
        (has_flags && (attributes->flags & ~kKnownFlags) != 0))
        return fail(EOPNOTSUPP);
    CqObject* object = make_cq(context, attributes->cqe, attributes->cq_context,
                               attributes->channel, attributes->comp_vector);
    if (object == nullptr) return nullptr;
    if (has_pd) object->parent_domain = use(object_of<PdObject>(attributes->parent_domain));
    ibv_cq_ex& cq = object->ibv;
    cq.start_poll = start_poll;
    cq.next_poll = [](ibv_cq_ex* ex) { return take_next(*object_of_cq(ex)); };
    cq.end_poll = [](ibv_cq_ex* ex) { object_of_cq(ex)->cq->poll_mutex.unlock(); };
    cq.read_opcode = [](ibv_cq_ex* ex) { return static_cast<ibv_wc_opcode>(current(ex).opcode); };
    cq.read_vendor_err = [](ibv_cq_ex*) { return uint32_t{0}; };
    cq.read_byte_len = [](ibv_cq_ex* ex) { return current(ex).byte_len; };
    cq.read_imm_data = [](ibv_cq_ex* ex) { return current(ex).imm; };
    cq.read_qp_num = [](ibv_cq_ex* ex) { return current(ex).qp_num; };
    cq.read_src_qp = [](ibv_cq_ex* ex) { return current(ex).src_qp; };
    cq.read_wc_flags = [](ibv_cq_ex* ex) { return unsigned{current(ex).flags}; };
    cq.read_slid = [](ibv_cq_ex* ex) { return uint32_t{current(ex).slid}; };
    cq.read_sl = [](ibv_cq_ex*) { return uint8_t{0}; };
    cq.read_dlid_path_bits = [](ibv_cq_ex* ex) { return current(ex).path_bits; };
    if ((attributes->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) != 0)
        cq.read_completion_ts = read_completion_ts;
    if ((attributes->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) != 0)
        cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
    return &cq;
}

}  // namespace softhca
