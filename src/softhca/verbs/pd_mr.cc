// SPDX-License-Identifier: BSD-3-Clause
// Protection domains and memory regions.
#include <unistd.h>

#include "softhca/fabric/raw_memory.h"
#include "softhca/transport/region.h"
#include "softhca/verbs/operations.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca {

SOFTHCA_EXPORT ibv_pd* ibv_alloc_pd(ibv_context* context) try {
    if (inherited(context)) return fail(ENODEV);
    auto pd = std::make_unique<PdObject>();
    pd->quota_use = take(Context::of(context)->device->domains);
    if (pd->quota_use == nullptr) return fail(personality_of(context).errors.limit);
    pd->ibv.context = context;
    pd->context_use = use(context);
    pd->id = adapter_of(context).next_pd();
    pd->ibv.handle = pd->id;
    return &pd.release()->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT int ibv_dealloc_pd(ibv_pd* ibv) {
    auto* pd = object_of<PdObject>(ibv);
    if (pd->users.load(std::memory_order_relaxed) != 0) return error_of(EBUSY);
    delete pd;
    return 0;
}

MrObject* make_region(ibv_pd* pd, const RegionAttributes& attributes, uint32_t key,
                      const BackingFile& file) {
    auto* mr = new MrObject;
    mr->index = KeyNumber::index(key);
    mr->access = attributes.access;
    mr->backing_file = file;
    mr->ibv.context = pd->context;
    mr->ibv.pd = pd;
    mr->ibv.length = attributes.length;
    mr->ibv.handle = mr->index;
    mr->ibv.lkey = mr->ibv.rkey = publish_region(adapter_of(pd->context), key, attributes, file);
    mr->pd = use(object_of<PdObject>(pd));
    return mr;
}

namespace {

bool valid_range(uint64_t address, uint64_t length) {
    // ~0 is all memory, which this device does not register on demand.
    return length != 0 && length != ~uint64_t{0} && address + length > address;
}

int check_access(ibv_context* context, uint32_t access) {
    if ((access & access_flag::kOnDemand) != 0 && personality_of(context).has.odp == 0)
        return EOPNOTSUPP;
    return access_flags_valid(access) ? 0 : EINVAL;
}

BackingFile backing_file_of(const RegionAttributes& attributes) {
    // With on-demand paging, what the process maps there at the time of an access counts.
    return copies_shared_memory() && (attributes.access & access_flag::kOnDemand) == 0
               ? find_backing_file(attributes.address, attributes.length)
               : BackingFile{};
}

uint64_t pinned_bytes(const RegionAttributes& attributes) {
    return (attributes.access & access_flag::kOnDemand) != 0 ? 0 : attributes.length;
}

ibv_mr* register_memory(ibv_pd* ibv, void* address, size_t length, uint64_t iova,
                        unsigned int access) try {
    if (inherited(ibv->context)) return fail(ENODEV);
    Adapter& adapter = adapter_of(ibv->context);
    const uint64_t begun = now_ns();
    const RegionAttributes attributes{reinterpret_cast<uint64_t>(address), length, iova,
                                      object_of<PdObject>(ibv)->base().id, access};
    int error = check_access(ibv->context, access);
    if (error == 0 && !valid_range(attributes.address, length)) error = EINVAL;
    if (error == 0) error = check_registration(adapter, attributes);
    if (error != 0) return fail(error);
    const uint32_t index = allocate_key(adapter);
    if (index == 0) return fail(ENOMEM);
    const BackingFile file = backing_file_of(attributes);
    MrObject* mr = make_region(ibv, attributes, region_key(adapter, index), file);
    mr->ibv.addr = address;
    delay_registration(adapter, begun, pinned_bytes(attributes));
    return &mr->ibv;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

// A region with bound windows cannot be deregistered.
bool windows_bound(Adapter& adapter, const MrObject& mr) {
    PdObject& pd = mr.pd->base();
    const std::lock_guard lock(pd.mutex);
    for (const WindowObject* window : pd.windows) {
        const KeyEntry& entry = adapter.host().tables().keys[window->index];
        if (entry.key.load(std::memory_order_acquire) != 0 && entry.region_key == mr.ibv.lkey)
            return true;
    }
    return false;
}

// Makes the region's key invalid. False, and the key stays valid, if a window is bound to the
// region.
bool withdraw_unless_bound(Adapter& adapter, const MrObject& mr) {
    return withdraw_region(adapter, mr.index, [&] { return windows_bound(adapter, mr); });
}

}  // namespace

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
    return register_memory(pd, address, length, reinterpret_cast<uint64_t>(address),
                           static_cast<unsigned int>(access));
}

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                       int access) {
    return register_memory(pd, address, length, iova, static_cast<unsigned int>(access));
}

SOFTHCA_EXPORT ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova,
                                        unsigned int access) {
    return register_memory(pd, address, length, iova, access);
}

SOFTHCA_EXPORT int ibv_rereg_mr(ibv_mr* ibv, int flags, ibv_pd* new_pd, void* address,
                                size_t length, int access) {
    auto* mr = object_of<MrObject>(ibv);
    const auto refuse = [](int error, int result = IBV_REREG_MR_ERR_INPUT) {
        set_error(error);
        return result;
    };
    if (personality_of(ibv->context).has.mr_change == 0) return refuse(EOPNOTSUPP);
    constexpr int kKnown =
        IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    const bool changes_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    const auto new_access =
        (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<uint32_t>(access) : mr->access;
    const bool stray_access = access != 0 && (flags & IBV_REREG_MR_CHANGE_ACCESS) == 0;
    if (!mr->is_program_memory || flags == 0 || (flags & ~kKnown) != 0 || stray_access ||
        inherited(ibv->context) || (changes_pd && new_pd == nullptr) ||
        check_access(ibv->context, new_access) != 0 ||
        (moves &&
         (address == nullptr || !valid_range(reinterpret_cast<uint64_t>(address), length))))
        return refuse(EINVAL);
    Adapter& adapter = adapter_of(ibv->context);
    ibv_pd* pd = changes_pd ? new_pd : ibv->pd;
    RegionAttributes attributes{};
    attributes.address = reinterpret_cast<uint64_t>(moves ? address : ibv->addr);
    attributes.length = moves ? length : ibv->length;
    attributes.iova = moves ? attributes.address : adapter.host().tables().keys[mr->index].start;
    attributes.pd = object_of<PdObject>(pd)->base().id;
    attributes.access = new_access;
    const uint64_t begun = now_ns();
    if (const int error = check_registration(adapter, attributes))
        return refuse(error, IBV_REREG_MR_ERR_CMD);
    if (!withdraw_unless_bound(adapter, *mr)) return refuse(EBUSY);
    release_backing_file(mr->backing_file);
    const BackingFile file = backing_file_of(attributes);
    mr->backing_file = file;
    mr->access = new_access;
    ibv->addr = reinterpret_cast<void*>(attributes.address);
    ibv->length = attributes.length;
    mr->pd = use(object_of<PdObject>(pd));
    ibv->pd = pd;
    ibv->lkey = ibv->rkey =
        publish_region(adapter, moves ? next_key(adapter, mr->index) : ibv->rkey, attributes, file);
    delay_registration(adapter, begun, pinned_bytes(attributes));
    return 0;
}

SOFTHCA_EXPORT int ibv_dereg_mr(ibv_mr* ibv) {
    auto* mr = object_of<MrObject>(ibv);
    if (inherited(ibv->context)) return 0;
    Adapter& adapter = adapter_of(ibv->context);
    if (!withdraw_unless_bound(adapter, *mr)) return error_of(EBUSY);
    release_backing_file(mr->backing_file);
    if (mr->mapping != nullptr) raw_munmap(mr->mapping, mr->mapped);
    release_key(adapter, mr->index);
    delete mr;
    return 0;
}

}  // namespace softhca
