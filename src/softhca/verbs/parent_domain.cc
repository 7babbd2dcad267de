// SPDX-License-Identifier: BSD-3-Clause
// Thread domains, and parent domains: protection domains with a thread domain or with allocators
// for memory of queues.
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes) try {
    if (attributes->comp_mask != 0) return fail(EINVAL);
    auto* td = new TdObject;
    td->ibv.context = context;
    td->context_use = use(context);
    return &td->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

int dealloc_td(ibv_td* ibv) {
    auto* td = object_of<TdObject>(ibv);
    if (td->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    delete td;
    return 0;
}

ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes) try {
    constexpr uint32_t kKnown =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    const bool allocates = (attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;
    if (inherited(context) || attributes->pd == nullptr || (attributes->comp_mask & ~kKnown) != 0 ||
        (allocates && (attributes->alloc == nullptr || attributes->free == nullptr)))
        return fail(EINVAL);
    PdObject& base = object_of<PdObject>(attributes->pd)->base();
    auto* pd = new PdObject;
    pd->ibv.context = context;
    pd->context_use = use(context);
    pd->id = base.id;
    pd->ibv.handle = base.id;
    pd->parent = use(&base);
    pd->thread = use(object_of<TdObject>(attributes->td));
    if (allocates) {
        pd->allocators.allocate = attributes->alloc;
        pd->allocators.release = attributes->free;
    }
    if ((attributes->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0)
        pd->allocators.context = attributes->pd_context;
    return &pd->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

namespace {

// The resource type that allocators get; a device defines its own values.
constexpr uint64_t kSendQueueResource = 1;

void release(void* user, void* memory) {
    auto* pd = static_cast<PdObject*>(user);
    pd->allocators.release(&pd->ibv, pd->allocators.context, memory, kSendQueueResource);
}

bool allocate(void* user, size_t bytes, size_t alignment, void** memory) {
    auto* pd = static_cast<PdObject*>(user);
    void* given = pd->allocators.allocate(&pd->ibv, pd->allocators.context, bytes, alignment,
                                          kSendQueueResource);
    if (given == IBV_ALLOCATOR_USE_DEFAULT) {
        *memory = nullptr;
        return true;
    }
    if (given != nullptr && reinterpret_cast<uintptr_t>(given) % alignment != 0) {
        release(user, given);
        return false;
    }
    *memory = given;
    return given != nullptr;
}

}  // namespace

QueueAllocator queue_allocator(PdObject& pd) {
    if (pd.allocators.allocate == nullptr) return {};
    return {allocate, release, &pd};
}

}  // namespace softhca
