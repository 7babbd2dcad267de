// SPDX-License-Identifier: BSD-3-Clause
// Shared receive queues, basic and XRC.

#include "softhca/core/queue_memory.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

bool valid_entries(const Personality& personality, uint32_t entries) {
    return entries != 0 && entries <= static_cast<uint32_t>(personality.limits.srq_entries);
}

uint32_t rounded(const Personality& personality, uint32_t entries) {
    return rounded_entries(entries, personality.rounding.queue, personality.rounding.least_queue,
                           personality.limits.srq_entries);
}

ibv_srq* make_srq(ibv_context* context, void* srq_context, ibv_pd* pd, ibv_srq_attr* limits_asked,
                  XrcdObject* xrcd, CqObject* cq) try {
    const Personality& personality = personality_of(context);
    if (personality.has.srq == 0) return fail(EOPNOTSUPP);
    if (inherited(context) || !valid_entries(personality, limits_asked->max_wr) ||
        limits_asked->max_sge > static_cast<uint32_t>(personality.limits.srq_sge))
        return fail(EINVAL);
    Srq::Attributes attributes;
    attributes.pd = object_of<PdObject>(pd)->base().id;
    attributes.max_wr = rounded(personality, limits_asked->max_wr);
    attributes.max_sge = std::max<uint32_t>(limits_asked->max_sge, 1);
    attributes.memory = shared_queue_memory({limits_asked->max_wr, limits_asked->max_sge});
    if (xrcd != nullptr) {
        attributes.xrc_domain = xrcd->domain;
        attributes.cq = cq->cq;
    }
    if (take_failure(faults_of(context).create_fail)) return fail(ENOMEM);
    Srq* srq = Srq::create(adapter_of(context), attributes);
    if (srq == nullptr) return fail(ENOMEM);
    limits_asked->max_wr = srq->shared().ring.capacity;
    limits_asked->max_sge = srq->shared().ring.max_sge;
    auto* object = new SrqObject;
    object->srq = srq;
    object->xrcd = use(xrcd);
    object->ibv.context = context;
    object->ibv.srq_context = srq_context;
    object->ibv.pd = pd;
    object->ibv.handle = srq->number();
    pthread_mutex_init(&object->ibv.mutex, nullptr);
    pthread_cond_init(&object->ibv.cond, nullptr);
    object->pd = use(object_of<PdObject>(pd));
    srq->cookie = object;
    return &object->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

}  // namespace

SOFTHCA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
    return make_srq(pd->context, attributes->srq_context, pd, &attributes->attr, nullptr, nullptr);
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes) {
    const uint32_t mask = attributes->comp_mask;
    constexpr uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const bool typed = (mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
    const bool xrc = typed && attributes->srq_type == IBV_SRQT_XRC;
    if ((mask & ~kKnown) != 0 || (typed && attributes->srq_type == IBV_SRQT_TM) ||
        (xrc && personality_of(context).has.xrc == 0))
        return fail(EOPNOTSUPP);
    if ((mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attributes->pd == nullptr ||
        (xrc && ((mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || (mask & IBV_SRQ_INIT_ATTR_CQ) == 0 ||
                 attributes->xrcd == nullptr || attributes->cq == nullptr)))
        return fail(EINVAL);
    return make_srq(context, attributes->srq_context, attributes->pd, &attributes->attr,
                    xrc ? object_of<XrcdObject>(attributes->xrcd) : nullptr,
                    xrc ? object_of<CqObject>(attributes->cq) : nullptr);
}

int get_srq_num(ibv_srq* ibv, uint32_t* number) {
    auto* object = object_of<SrqObject>(ibv);
    if (object->xrcd == nullptr) return EINVAL;
    *number = object->srq->number();
    return 0;
}

SOFTHCA_EXPORT int ibv_modify_srq(ibv_srq* ibv, ibv_srq_attr* attributes, int mask) {
    constexpr int kKnown = IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT;
    if ((mask & ~kKnown) != 0 || inherited(ibv->context)) return EINVAL;
    Srq& srq = *object_of<SrqObject>(ibv)->srq;
    if ((mask & IBV_SRQ_MAX_WR) != 0) {
        const Personality& personality = personality_of(ibv->context);
        if (personality.has.srq_resize == 0 || !valid_entries(personality, attributes->max_wr))
            return EINVAL;
        const int status =
            srq.resize(attributes->max_wr,
                       shared_queue_memory({attributes->max_wr, srq.shared().ring.max_sge}));
        if (status != 0) return status;
    }
    return (mask & IBV_SRQ_LIMIT) != 0 ? srq.set_limit(attributes->srq_limit) : 0;
}

SOFTHCA_EXPORT int ibv_query_srq(ibv_srq* ibv, ibv_srq_attr* attributes) {
    if (inherited(ibv->context)) return EINVAL;
    Srq& srq = *object_of<SrqObject>(ibv)->srq;
    attributes->max_wr = srq.shared().ring.capacity;
    attributes->max_sge = srq.shared().ring.max_sge;
    attributes->srq_limit = srq.limit();
    return 0;
}

SOFTHCA_EXPORT int ibv_destroy_srq(ibv_srq* ibv) {
    auto* object = object_of<SrqObject>(ibv);
    if (inherited(ibv->context)) return 0;
    if (object->srq->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    {
        const std::lock_guard lock(adapter_of(ibv->context).engine().run_mutex());
        delete object->srq;
    }
    end_events(ibv->context, object->async_events);
    delete object;
    return 0;
}

}  // namespace softhca
