// SPDX-License-Identifier: BSD-3-Clause
// Completion channels and completion queues.
#include <algorithm>

#include "softhca/core/queue_memory.h"
#include "softhca/verbs/limits.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

SOFTHCA_EXPORT ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) try {
    auto* channel = new ChannelObject;
    if (channel->events.fd() < 0) {
        delete channel;
        set_error(EMFILE);
        return nullptr;
    }
    channel->ibv.context = context;
    channel->context_use = use(context);
    channel->ibv.fd = channel->events.fd();
    return &channel->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT int ibv_destroy_comp_channel(ibv_comp_channel* ibv) {
    auto* channel = object_of<ChannelObject>(ibv);
    if (channel->users.load(std::memory_order_relaxed) != 0 && !inherited(ibv->context))
        return error_of(EBUSY);
    delete channel;
    return 0;
}

namespace {

uint32_t rounded_cq(const Personality& personality, uint32_t entries) {
    return rounded_entries(entries, personality.rounding.cq, personality.rounding.least_cq,
                           personality.limits.cqe);
}

}  // namespace

CqObject* make_cq(ibv_context* context, uint32_t entries, void* cq_context,
                  ibv_comp_channel* channel, uint32_t vector) try {
    const Personality& personality = personality_of(context);
    if (inherited(context) || entries == 0 ||
        entries > static_cast<uint32_t>(personality.limits.cqe) ||
        vector >= limits::kCompletionVectors)
        return fail(EINVAL);
    if (take_failure(faults_of(context).create_fail)) return fail(ENOMEM);
    Cq* cq = Cq::create(adapter_of(context), rounded_cq(personality, entries),
                        completion_queue_memory(entries));
    if (cq == nullptr) return fail(ENOMEM);
    auto* object = new CqObject;
    object->cq = cq;
    object->ibv.context = context;
    object->context_use = use(context);
    object->ibv.channel = channel;
    object->ibv.cq_context = cq_context;
    object->ibv.handle = cq->number();
    object->ibv.cqe = static_cast<int>(cq->capacity());
    pthread_mutex_init(&object->ibv.mutex, nullptr);
    pthread_cond_init(&object->ibv.cond, nullptr);
    object->channel = use(object_of<ChannelObject>(channel));
    cq->cookie = object;
    return object;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context,
                                     ibv_comp_channel* channel, int vector) {
    if (entries <= 0 || vector < 0) return fail(EINVAL);
    CqObject* object = make_cq(context, static_cast<uint32_t>(entries), cq_context, channel,
                               static_cast<uint32_t>(vector));
    return object == nullptr ? nullptr : reinterpret_cast<ibv_cq*>(&object->ibv);
}

SOFTHCA_EXPORT int ibv_resize_cq(ibv_cq* ibv, int entries) {
    const Personality& personality = personality_of(ibv->context);
    if (personality.has.cq_resize == 0) return EOPNOTSUPP;
    if (entries <= 0 || entries > personality.limits.cqe || inherited(ibv->context)) return EINVAL;
    auto* object = object_of<CqObject>(ibv);
    const auto asked = static_cast<uint32_t>(entries);
    const int status =
        object->cq->resize(asked, rounded_cq(personality, asked), completion_queue_memory(asked));
    if (status == 0) ibv->cqe = static_cast<int>(object->cq->capacity());
    return status;
}

SOFTHCA_EXPORT int ibv_destroy_cq(ibv_cq* ibv) {
    auto* object = object_of<CqObject>(ibv);
    if (inherited(ibv->context)) return 0;
    if (object->cq->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    {
        // The engine and writers of completions deliver events; after the deletion they deliver
        // none.
        const std::lock_guard lock(adapter_of(ibv->context).engine().run_mutex());
        delete object->cq;
    }
    if (object->channel != nullptr) {
        object->channel->events.remove_if([object](const CqObject* cq) { return cq == object; });
        object->channel.reset();
    }
    object->completion_events.wait();
    end_events(ibv->context, object->async_events);
    delete object;
    return 0;
}

SOFTHCA_EXPORT int ibv_get_cq_event(ibv_comp_channel* ibv, ibv_cq** cq, void** cq_context) {
    CqObject* object;
    if (inherited(ibv->context)) return fail_call(EINVAL);
    if (!object_of<ChannelObject>(ibv)->events.take(
            &object, [](CqObject* taken) { taken->completion_events.add(); }))
        return -1;
    *cq = reinterpret_cast<ibv_cq*>(&object->ibv);
    *cq_context = object->ibv.cq_context;
    return 0;
}

SOFTHCA_EXPORT void ibv_ack_cq_events(ibv_cq* cq, unsigned int events) {
    object_of<CqObject>(cq)->completion_events.acknowledge(events, cq->comp_events_completed);
}

Completion shown_error(const Personality& personality, Completion wc) {
    if (personality.ordering.poisoned_errors == 0) return wc;
    wc.opcode = static_cast<WcOpcode>(0x5a);  // no opcode
    wc.byte_len = wc.imm = 0x5a5a5a5a;
    wc.flags = wc_flag::kWithImm | wc_flag::kWithInv;
    return wc;
}

int poll_cq(ibv_cq* ibv, int count, ibv_wc* wc) try {
    if (inherited(ibv->context)) return 0;
    const Faults& faults = faults_of(ibv->context);
    if (faults.device_fatal.load(std::memory_order_relaxed) != 0) [[unlikely]]
        return -1;
    charge_poll();
    const auto show = [&wc](const Completion& from) {
        wc->wr_id = from.wr_id;
        wc->status = static_cast<ibv_wc_status>(from.status);
        wc->opcode = static_cast<ibv_wc_opcode>(from.opcode);
        wc->vendor_err = 0;
        wc->byte_len = from.byte_len;
        wc->imm_data = from.imm;
        wc->qp_num = from.qp_num;
        wc->src_qp = from.src_qp;
        wc->wc_flags = from.flags;
        wc->pkey_index = 0;
        wc->slid = from.slid;
        wc->sl = 0;
        wc->dlid_path_bits = from.path_bits;
        ++wc;
    };
    const int taken = object_of<CqObject>(ibv)->cq->poll(count, [&](const Completion& from) {
        if (from.status == WcStatus::kSuccess) [[likely]]
            show(from);
        else
            show(shown_error(personality_of(ibv->context), from));
    });
    charge(&softhca_virtual_time::completion, static_cast<uint64_t>(std::max(taken, 0)));
    return taken;
} catch (const std::bad_alloc&) {
    return -1;
}

int req_notify_cq(ibv_cq* ibv, int solicited_only) {
    if (!inherited(ibv->context)) object_of<CqObject>(ibv)->cq->arm(solicited_only != 0);
    return 0;
}

int modify_cq(ibv_cq*, ibv_modify_cq_attr* attributes) {
    // Moderation may delay events to save interrupts. It need not: accept it, and deliver at once.
    return (attributes->attr_mask & ~static_cast<uint32_t>(IBV_CQ_ATTR_MODERATE)) == 0 ? 0 : EINVAL;
}

}  // namespace softhca
