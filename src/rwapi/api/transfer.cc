// SPDX-License-Identifier: BSD-3-Clause

// Regions, writes and reads.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// Begins a put or get, and gives its id to who wants it.
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

}  // namespace

extern "C" {

int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                   rwapi_region* region) {
    if (memory == nullptr || length == 0 || region == nullptr || (rights & ~RWAPI_ALL) != 0)
        return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.add_region(bytes_of(memory), length, rights, false, *region);
    });
}

int rwapi_deregister(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        int error;
        const Mine* const mine = engine.find_mine(region, error);
        // Memory of rwapi_alloc is given back by rwapi_free.
        if (mine != nullptr && mine->allocated) return static_cast<int>(RWAPI_ERR_INVALID);
        return engine.remove_region(region);
    });
}

int rwapi_region_pack(rwapi_context* context, rwapi_region region, void* key, size_t* length) {
    if (key == nullptr || length == nullptr) return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.pack_region(region, {static_cast<std::byte*>(key), *length}, *length);
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
        int error;
        if (const Remote* const remote = engine.find_remote(region, error))
            return static_cast<int>(remote->key.node);
        if (error == RWAPI_ERR_STALE) return error;
        return engine.find_mine(region, error) != nullptr ? static_cast<int>(engine.rank()) : error;
    });
}

int64_t rwapi_region_length(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) -> int64_t {
        int error;
        if (const Remote* const remote = engine.find_remote(region, error))
            return static_cast<int64_t>(remote->key.length);
        if (error == RWAPI_ERR_STALE) return error;
        const Mine* const mine = engine.find_mine(region, error);
        return mine != nullptr ? static_cast<int64_t>(mine->length) : error;
    });
}

int rwapi_region_rights(rwapi_context* context, rwapi_region region) {
    return with(context, [&](Engine& engine) {
        int error;
        if (const Remote* const remote = engine.find_remote(region, error))
            return static_cast<int>(remote->key.rights);
        if (error == RWAPI_ERR_STALE) return error;
        const Mine* const mine = engine.find_mine(region, error);
        return mine != nullptr ? mine->rights : error;
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
    const NoticeKind kind = operation == RWAPI_SIGNAL_SET ? NoticeKind::kSet : NoticeKind::kAdd;
    return begin(context, id,
                 {region, offset, bytes_of(local), length, kind, signal_offset, value});
}

int rwapi_put_notify(rwapi_context* context, rwapi_region region, uint64_t offset,
                     const void* local, size_t length, uint32_t slot, uint64_t value,
                     rwapi_id* id) {
    if (value == 0) return RWAPI_ERR_INVALID;
    return begin(context, id,
                 {region, offset, bytes_of(local), length, NoticeKind::kSlot, slot, value});
}

int rwapi_put_count(rwapi_context* context, rwapi_region region, uint64_t offset, const void* local,
                    size_t length, rwapi_id* id) {
    return begin(context, id, {region, offset, bytes_of(local), length, NoticeKind::kCount, 0, 0});
}

}  // extern "C"
