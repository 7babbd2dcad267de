// SPDX-License-Identifier: BSD-3-Clause
// Creates, opens, queries and destroys queue pairs.
#include <cstring>

#include "softhca/core/qp_state.h"
#include "softhca/core/queue_memory.h"
#include "softhca/transport/multicast.h"
#include "softhca/transport/xrc_domain.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"
#include "softhca/verbs/wr_api.h"

namespace softhca {

namespace {

bool supported(const Personality& personality, ibv_qp_type type) {
    switch (type) {
        case IBV_QPT_RC:
        case IBV_QPT_UD:
            return true;
        case IBV_QPT_UC:
            return personality.has.uc != 0;
        case IBV_QPT_XRC_SEND:
        case IBV_QPT_XRC_RECV:
            return personality.has.xrc != 0;
        default:
            return false;
    }
}

bool within(uint32_t value, int32_t limit) {
    return value <= static_cast<uint32_t>(limit);
}

bool within_limits(const Personality& personality, const ibv_qp_init_attr_ex& init) {
    const ibv_qp_cap& cap = init.cap;
    if (init.qp_type != IBV_QPT_XRC_RECV && cap.max_send_wr == 0 &&
        personality.send_queue.may_be_empty == 0)
        return false;
    return within(cap.max_send_wr, personality.limits.queue_entries) &&
           within(cap.max_recv_wr, personality.limits.queue_entries) &&
           within(cap.max_send_sge, personality.limits.send_sge) &&
           within(cap.max_recv_sge, personality.limits.recv_sge) &&
           (within(cap.max_inline_data, personality.limits.inline_data) ||
            personality.send_queue.inline_at_create == rule::kInlineClamped);
}

// Checks the attributes that each type requires. 0, EINVAL, or EOPNOTSUPP for types that the
// device does not have.
int check_required_attributes(const Personality& personality, const ibv_qp_init_attr_ex& init) {
    if (!supported(personality, init.qp_type)) return EOPNOTSUPP;
    if (!within_limits(personality, init)) return EINVAL;
    if (init.qp_type == IBV_QPT_XRC_RECV)
        return (init.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && init.xrcd != nullptr ? 0 : EINVAL;
    const bool has_pd = (init.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && init.pd != nullptr;
    if (!has_pd || init.send_cq == nullptr) return EINVAL;
    if (init.qp_type == IBV_QPT_XRC_SEND) return init.srq == nullptr ? 0 : EINVAL;
    if (init.srq != nullptr && object_of<SrqObject>(init.srq)->xrcd != nullptr)
        return EINVAL;  // messages address XRC SRQs; queue pairs do not
    return init.recv_cq != nullptr ? 0 : EINVAL;
}

uint32_t rounded_queue(const Personality& personality, uint32_t entries) {
    return rounded_entries(entries, personality.rounding.queue, personality.rounding.least_queue,
                           personality.limits.queue_entries);
}

// Whether the queue pair may bind memory windows: all may, unless the program names what they send.
bool may_bind(const ibv_qp_init_attr_ex& init) {
    constexpr uint64_t kBinds = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    return (init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0 ||
           (init.send_ops_flags & kBinds) != 0;
}

// Sets the size of the send queue, and what may be posted to it.
void set_send_queue(const Personality& personality, const ibv_qp_init_attr_ex& init,
                    Qp::Attributes* attributes) {
    const auto most_inline = static_cast<uint32_t>(personality.limits.inline_data);
    const SendSizes sizes = rounded_send(
        personality, {std::max<uint32_t>(init.cap.max_send_sge, 1),
                      std::min(init.cap.max_inline_data, most_inline), may_bind(init)});
    attributes->operations = operations_of(personality, attributes->type);
    attributes->max_message = static_cast<uint32_t>(personality.limits.message);
    attributes->max_send_wr = rounded_queue(personality, init.cap.max_send_wr);
    attributes->max_send_sge = sizes.sge;
    attributes->max_read_sge =
        std::min(sizes.sge, static_cast<uint32_t>(personality.limits.read_sge));
    attributes->max_inline = sizes.inline_bytes;
}

uint64_t memory_of(const ibv_qp_init_attr_ex& init, bool receives) {
    ReceiveQueueShape own;
    if (receives) own = {init.cap.max_recv_wr, init.cap.max_recv_sge};
    return queue_pair_memory(
        static_cast<QpType>(init.qp_type),
        {init.cap.max_send_wr, init.cap.max_send_sge, init.cap.max_inline_data, may_bind(init)},
        own);
}

Qp::Attributes device_attributes(ibv_context* context, const ibv_qp_init_attr_ex& init) {
    Qp::Attributes attributes;
    const bool receives =
        init.qp_type != IBV_QPT_XRC_SEND && init.qp_type != IBV_QPT_XRC_RECV && init.srq == nullptr;
    const bool sends = init.qp_type != IBV_QPT_XRC_RECV;
    attributes.type = static_cast<QpType>(init.qp_type);
    attributes.device = Context::of(context)->device->index;
    attributes.signal_all = init.sq_sig_all != 0;
    if (sends) {
        attributes.pd = object_of<PdObject>(init.pd)->base().id;
        attributes.allocator = queue_allocator(*object_of<PdObject>(init.pd));
        attributes.send_cq = object_of<CqObject>(init.send_cq)->cq;
        set_send_queue(personality_of(context), init, &attributes);
    } else {
        attributes.xrc_domain = object_of<XrcdObject>(init.xrcd)->domain;
    }
    if (sends && init.qp_type != IBV_QPT_XRC_SEND) {
        attributes.recv_cq = object_of<CqObject>(init.recv_cq)->cq;
        attributes.srq = init.srq == nullptr ? nullptr : object_of<SrqObject>(init.srq)->srq;
    }
    attributes.memory = memory_of(init, receives);
    if (receives) {
        attributes.max_recv_wr = rounded_queue(personality_of(context), init.cap.max_recv_wr);
        attributes.max_recv_sge = std::max<uint32_t>(init.cap.max_recv_sge, 1);
    }
    return attributes;
}

// Sets the capabilities that the queue pair has.
ibv_qp_cap actual_caps(Qp& qp) {
    const Qp::Attributes& attributes = qp.attributes();
    ibv_qp_cap cap{};
    if (attributes.send_cq != nullptr) {
        cap.max_send_wr = attributes.max_send_wr == 0 ? 0 : qp.requester.queue().capacity();
        cap.max_send_sge = attributes.max_send_sge;
        cap.max_inline_data = attributes.max_inline;
    }
    if (attributes.recv_cq != nullptr && attributes.srq == nullptr) {
        cap.max_recv_wr = qp.shared().ring.capacity;
        cap.max_recv_sge = attributes.max_recv_sge;
    }
    return cap;
}

void fill_public_part(ibv_context* context, const ibv_qp_init_attr_ex& init, QpObject* object) {
    ibv_qp& ibv = object->ibv.qp_base;
    ibv.context = context;
    ibv.qp_context = init.qp_context;
    ibv.pd = init.qp_type == IBV_QPT_XRC_RECV ? nullptr : init.pd;
    ibv.send_cq = init.qp_type == IBV_QPT_XRC_RECV ? nullptr : init.send_cq;
    ibv.recv_cq = init.qp_type == IBV_QPT_XRC_RECV || init.qp_type == IBV_QPT_XRC_SEND
                      ? nullptr
                      : init.recv_cq;
    ibv.srq = init.qp_type == IBV_QPT_XRC_RECV ? nullptr : init.srq;
    ibv.handle = object->qp->number();
    ibv.qp_num = object->qp->number();
    ibv.state = IBV_QPS_RESET;
    ibv.qp_type = init.qp_type;
    pthread_mutex_init(&ibv.mutex, nullptr);
    pthread_cond_init(&ibv.cond, nullptr);
    object->attr.qp_state = IBV_QPS_RESET;
    object->attr.cap = actual_caps(*object->qp);
}

ibv_qp* make_qp(ibv_context* context, ibv_qp_init_attr_ex* init) {
    if (inherited(context)) return fail(ENODEV);
    const int status = check_required_attributes(personality_of(context), *init);
    if (status == EINVAL) return fail(personality_of(context).errors.create);
    if (status != 0) return fail(status);
    if (take_failure(faults_of(context).create_fail)) return fail(ENOMEM);
    Qp* qp = Qp::create(adapter_of(context), device_attributes(context, *init));
    if (qp == nullptr) {
        const bool full =
            has_all_queue_pairs(adapter_of(context).host(), Context::of(context)->device->index);
        return fail(full ? personality_of(context).errors.limit : ENOMEM);
    }
    auto* object = new QpObject;
    object->qp = qp;
    fill_public_part(context, *init, object);
    if (init->qp_type == IBV_QPT_XRC_RECV) {
        object->xrcd = use(object_of<XrcdObject>(init->xrcd));
        open_xrc_receiver(adapter_of(context).host(), qp->shared(), qp->number());
    } else {
        object->pd = use(object_of<PdObject>(init->pd));
    }
    init->cap = object->attr.cap;
    qp->cookie = object;
    return &object->ibv.qp_base;
}

}  // namespace

ibv_qp_init_attr_ex extended(const ibv_qp_init_attr& attributes, ibv_pd* pd) {
    ibv_qp_init_attr_ex init{};
    init.qp_context = attributes.qp_context;
    init.send_cq = attributes.send_cq;
    init.recv_cq = attributes.recv_cq;
    init.srq = attributes.srq;
    init.cap = attributes.cap;
    init.qp_type = attributes.qp_type;
    init.sq_sig_all = attributes.sq_sig_all;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    return init;
}

SOFTHCA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) try {
    ibv_qp_init_attr_ex init = extended(*attributes, pd);
    ibv_qp* qp = make_qp(pd->context, &init);
    if (qp != nullptr) attributes->cap = init.cap;
    return qp;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes) try {
    constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    const bool sends_by_call = (attributes->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    const bool flagged = (attributes->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 &&
                         attributes->create_flags != 0;
    if ((attributes->comp_mask & ~kKnown) != 0 || flagged ||
        (sends_by_call && !send_ops_supported(personality_of(context), attributes->qp_type,
                                              attributes->send_ops_flags)))
        return fail(EOPNOTSUPP);
    ibv_qp* qp = make_qp(context, attributes);
    if (qp != nullptr && sends_by_call)
        add_send_ops(*object_of<QpObject>(qp), attributes->send_ops_flags);
    return qp;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
    auto* object = object_of<QpObject>(qp);
    return object->extended ? &object->ibv : nullptr;
}

SOFTHCA_EXPORT int ibv_query_qp(ibv_qp* ibv, ibv_qp_attr* attributes, int mask,
                                ibv_qp_init_attr* init) {
    auto* object = object_of<QpObject>(ibv);
    if (inherited(ibv->context)) return EINVAL;
    const std::lock_guard lock(object->modify_mutex);
    const QpShared* shared = shared_part(*object);
    if (shared == nullptr) return EINVAL;
    *attributes = object->attr;
    attributes->qp_state = static_cast<ibv_qp_state>(shared->state.load(std::memory_order_acquire));
    attributes->cur_qp_state = attributes->qp_state;
    // All attributes are returned, but the public member `state` changes only if `mask` asks for
    // the state.
    if ((mask & IBV_QP_STATE) != 0) ibv->state = attributes->qp_state;
    const bool signals_all = object->qp != nullptr && object->qp->attributes().signal_all;
    *init = {ibv->qp_context,  ibv->send_cq, ibv->recv_cq,       ibv->srq,
             object->attr.cap, ibv->qp_type, signals_all ? 1 : 0};
    return 0;
}

SOFTHCA_EXPORT int ibv_query_qp_data_in_order(ibv_qp* ibv, ibv_wr_opcode opcode, uint32_t flags) {
    if (flags != 0 || inherited(ibv->context)) return 0;
    const bool writes = opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
                        opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
                        opcode == IBV_WR_RDMA_READ;
    const bool ordered = adapter_of(ibv->context)
                             .host()
                             .header()
                             .faults.out_of_order.load(std::memory_order_relaxed) == 0;
    const int32_t promise = personality_of(ibv->context).ordering.in_order;
    const bool promised =
        promise == rule::kAlways || (promise == rule::kReadyToSend && ibv->state == IBV_QPS_RTS);
    return writes && ordered && promised ? 1 : 0;
}

namespace {

// Gives up this handle of an XRC receiver. Whether another handle exists.
bool other_handles_remain(QpObject& object) {
    Host& host = adapter_of(object.ibv.qp_base.context).host();
    const uint32_t number = object.ibv.qp_base.qp_num;
    const AccessGuard guard(host, ObjectNumber::process(number));
    QpShared* shared = shared_part(object);
    return shared != nullptr && !close_xrc_receiver(host, *shared, number);
}

// Releases the queue pair of an object. An XRC receiver that others have open remains.
void release(QpObject& object) {
    ibv_qp& ibv = object.ibv.qp_base;
    if (ibv.qp_type != IBV_QPT_XRC_RECV || !other_handles_remain(object)) {
        delete object.qp;
        return;
    }
    const std::lock_guard lock(adapter_of(ibv.context).engine().run_mutex());
    if (object.qp != nullptr && object.qp->cookie == &object) object.qp->cookie = nullptr;
}

}  // namespace

SOFTHCA_EXPORT int ibv_destroy_qp(ibv_qp* ibv) {
    auto* object = object_of<QpObject>(ibv);
    if (inherited(ibv->context)) return 0;
    if (object->qp != nullptr && is_attached(object->qp->adapter(), ibv->qp_num))
        return error_of(EBUSY);
    release(*object);
    end_events(ibv->context, object->async_events);
    delete object;
    return 0;
}

ibv_qp* open_qp(ibv_context* context, ibv_qp_open_attr* attributes) try {
    constexpr uint32_t kNeeded =
        IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    if (inherited(context) || (attributes->comp_mask & kNeeded) != kNeeded ||
        attributes->xrcd == nullptr || attributes->qp_type != IBV_QPT_XRC_RECV)
        return fail(EINVAL);
    auto* xrcd = object_of<XrcdObject>(attributes->xrcd);
    Host& host = adapter_of(context).host();
    const uint32_t slot = ObjectNumber::process(attributes->qp_num);
    const AccessGuard guard(host, slot);
    QpShared* shared = host.alive(slot) ? host.qp(attributes->qp_num) : nullptr;
    if (shared == nullptr || shared->type != QpType::kXrcRecv || shared->xrc_domain != xrcd->domain)
        return fail(EINVAL);
    auto* object = new QpObject;
    ibv_qp& ibv = object->ibv.qp_base;
    ibv.context = context;
    ibv.qp_num = attributes->qp_num;
    ibv.handle = attributes->qp_num;
    ibv.qp_type = IBV_QPT_XRC_RECV;
    if ((attributes->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0)
        ibv.qp_context = attributes->qp_context;
    object->qp = adapter_of(context).qps.get(attributes->qp_num);
    open_xrc_receiver(host, *shared, attributes->qp_num);
    object->xrcd = use(xrcd);
    return &ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

QpShared* shared_part(QpObject& object) {
    if (object.qp != nullptr) return &object.qp->shared();
    Host& host = adapter_of(object.ibv.qp_base.context).host();
    const uint32_t number = object.ibv.qp_base.qp_num;
    return host.alive(ObjectNumber::process(number)) ? host.qp(number) : nullptr;
}

// Enhanced connection establishment negotiates vendor options; the device has none.
SOFTHCA_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece* ece) {
    return ece->comp_mask == 0 && ece->options == 0 ? 0 : EOPNOTSUPP;
}

SOFTHCA_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece* ece) {
    std::memset(ece, 0, sizeof *ece);
    return 0;
}

}  // namespace softhca
