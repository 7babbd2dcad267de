// SPDX-License-Identifier: BSD-3-Clause

// Regions, writes and reads.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// Begins a put or get, and stores its id unless id is null.
int begin(rwapi_context* context, rwapi_id* id, const Transfer& transfer, bool is_get = false) {
    if (transfer.local == nullptr && transfer.length > 0) return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) -> int {
        const rwapi_id begun =
            is_get ? engine.get(transfer, id != nullptr) : engine.put(transfer, id != nullptr);
        if (begun < 0) return static_cast<int>(begun);
        if (id != nullptr) *id = begun;
        return RWAPI_OK;
    });
}

std::byte* bytes_of(const void* memory) {
    return static_cast<std::byte*>(const_cast<void*>(memory));
}

// A property of a region of either kind, or the error of the handle.
template <class OfRemote, class OfOwn>
auto query(Engine& engine, rwapi_region region, OfRemote of_remote, OfOwn of_own)
    -> decltype(of_own(std::declval<const OwnRegion&>())) {
    int error;
    if (const RemoteRegion* const remote = engine.regions().find_valid_remote(region, error))
        return of_remote(*remote);
    if (error == RWAPI_ERR_STALE) return error;
    const OwnRegion* const own = engine.regions().find_own(region, error);
    return own != nullptr ? of_own(*own) : error;
}

}  // namespace

extern "C" {

int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                   rwapi_region* region) {
    if (memory == nullptr || length == 0 || region == nullptr || (rights & ~RWAPI_ALL) != 0)
        return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.regions().add(bytes_of(memory), length, rights, false, *region);
    });
}

int rwapi_deregister(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        int error;
        const OwnRegion* const own = engine.regions().find_own(region, error);
        // rwapi_free is for memory of rwapi_alloc.
        if (own != nullptr && own->allocated) return static_cast<int>(RWAPI_ERR_INVALID);
        return engine.regions().remove(region);
    });
}

int rwapi_region_pack(rwapi_context* context, rwapi_region region, void* key, size_t* length) {
    if (key == nullptr || length == nullptr) return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.regions().pack(region, {static_cast<std::byte*>(key), *length}, *length);
    });
}

int rwapi_region_unpack(rwapi_context* context, const void* key, size_t length,
                        rwapi_region* region) {
    if (key == nullptr || region == nullptr) return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.unpack_region({static_cast<const std::byte*>(key), length}, *region);
    });
}

int rwapi_region_node(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        return query(
            engine, region,
            [](const RemoteRegion& remote) { return static_cast<int>(remote.key.node); },
            [&](const OwnRegion&) { return static_cast<int>(engine.rank()); });
    });
}

int64_t rwapi_region_length(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        return query(
            engine, region,
            [](const RemoteRegion& remote) { return static_cast<int64_t>(remote.key.length); },
            [](const OwnRegion& own) { return static_cast<int64_t>(own.length); });
    });
}

int rwapi_region_rights(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        return query(
            engine, region,
            [](const RemoteRegion& remote) { return static_cast<int>(remote.key.rights); },
            [](const OwnRegion& own) { return own.rights; });
    });
}

int rwapi_put(rwapi_context* context, rwapi_region region, uint64_t offset, const void* local,
              size_t length, rwapi_id* id) {
    return begin(context, id, {region, offset, bytes_of(local), length});
}

int rwapi_get(rwapi_context* context, rwapi_region region, uint64_t offset, void* local,
              size_t length, rwapi_id* id) {
    return begin(context, id, {region, offset, bytes_of(local), length}, true);
}

int rwapi_put_signal(rwapi_context* context, rwapi_region region, uint64_t offset,
                     const void* local, size_t length, uint64_t signal_offset, uint64_t value,
                     int operation, rwapi_id* id) {
    if (operation != RWAPI_SIGNAL_SET && operation != RWAPI_SIGNAL_ADD) return RWAPI_ERR_INVALID;
    const NotificationKind kind =
        operation == RWAPI_SIGNAL_SET ? NotificationKind::kSet : NotificationKind::kAdd;
    return begin(context, id,
                 {region, offset, bytes_of(local), length, kind, signal_offset, value});
}

int rwapi_put_notify(rwapi_context* context, rwapi_region region, uint64_t offset,
                     const void* local, size_t length, uint32_t slot, uint64_t value,
                     rwapi_id* id) {
    if (value == 0) return RWAPI_ERR_INVALID;
    return begin(context, id,
                 {region, offset, bytes_of(local), length, NotificationKind::kSlot, slot, value});
}

int rwapi_put_count(rwapi_context* context, rwapi_region region, uint64_t offset, const void* local,
                    size_t length, rwapi_id* id) {
    return begin(context, id,
                 {region, offset, bytes_of(local), length, NotificationKind::kCount, 0, 0});
}

}  // extern "C"
