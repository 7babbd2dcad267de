// SPDX-License-Identifier: BSD-3-Clause

// Puts of many pieces, and reads with a notification.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

constexpr Notify kNobody{};

Notify in_slot(uint32_t slot, uint64_t value) {
    return {NotificationKind::kSlot, slot, value};
}

// One piece needs no list.
int put_one(rwapi_context* context, const rwapi_element& only, const Notify& notify, rwapi_id* id) {
    return notify.kind == NotificationKind::kNone
               ? rwapi_put(context, only.net, only.offset, only.local, only.length, id)
               : rwapi_put_notify(context, only.net, only.offset, only.local, only.length,
                                  static_cast<uint32_t>(notify.place), notify.value, id);
}

int put_list(rwapi_context* context, const rwapi_element* elements, size_t n, const Notify& notify,
             rwapi_id* id) {
    if (elements == nullptr && n > 0) return RWAPI_ERR_INVALID;
    if (n == 1) return put_one(context, *elements, notify, id);
    return with(context, [&](Engine& engine) {
        return store_id(n > 0 ? engine.put_list({elements, n}, notify, id != nullptr) : 0, id);
    });
}

// The extent of several blocks. False: it is longer than any memory.
bool extent_of(const rwapi_blocks& blocks, uint64_t stride, uint64_t& extent) {
    return !__builtin_mul_overflow(blocks.count - 1, stride, &extent) &&
           !__builtin_add_overflow(extent, blocks.length, &extent);
}

int put_strided(rwapi_context* context, const rwapi_net& net, uint64_t offset, const void* local,
                const rwapi_blocks* blocks, const Notify& notify, rwapi_id* id) {
    if (blocks == nullptr) return RWAPI_ERR_INVALID;
    const size_t length = blocks->length;
    if (blocks->count < 2 || length == 0)
        return put_one(context, {net, offset, local, blocks->count == 0 ? 0 : length}, notify, id);
    if (local == nullptr || blocks->stride < length) return RWAPI_ERR_INVALID;
    uint64_t extent, local_extent;
    if (!extent_of(*blocks, blocks->stride, extent) ||
        !extent_of(*blocks, blocks->local_stride, local_extent))
        return RWAPI_ERR_RANGE;
    if (blocks->stride == length && blocks->local_stride == length)
        return put_one(context, {net, offset, local, extent}, notify, id);
    return with(context, [&](Engine& engine) {
        const Transfer first = Transfer::of(net, offset, local, length);
        return store_id(engine.put_blocks(net, first, *blocks, notify, id != nullptr), id);
    });
}

}  // namespace

extern "C" {

int rwapi_put_list(rwapi_context* context, const rwapi_element* elements, size_t n, rwapi_id* id) {
    return put_list(context, elements, n, kNobody, id);
}

int rwapi_put_list_notify(rwapi_context* context, const rwapi_element* elements, size_t n,
                          uint32_t slot, uint64_t value, rwapi_id* id) {
    if (value == 0 || n == 0) return RWAPI_ERR_INVALID;
    return put_list(context, elements, n, in_slot(slot, value), id);
}

int rwapi_put_strided(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                      const rwapi_blocks* blocks, rwapi_id* id) {
    return put_strided(context, net, offset, local, blocks, kNobody, id);
}

int rwapi_put_strided_notify(rwapi_context* context, rwapi_net net, uint64_t offset,
                             const void* local, const rwapi_blocks* blocks, uint32_t slot,
                             uint64_t value, rwapi_id* id) {
    if (value == 0) return RWAPI_ERR_INVALID;
    return put_strided(context, net, offset, local, blocks, in_slot(slot, value), id);
}

int rwapi_get_notify(rwapi_context* context, rwapi_net net, uint64_t offset, void* local,
                     size_t length, uint32_t slot, uint64_t value, rwapi_id* id) {
    if ((local == nullptr && length > 0) || value == 0) return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        if (!engine.slots().has(slot)) return static_cast<int>(RWAPI_ERR_RANGE);
        Transfer what = Transfer::of(net, offset, local, length);
        what.place = slot;
        what.value = value;
        return store_id(engine.transfer(Task::kGetNotify, net, what, id != nullptr), id);
    });
}

}  // extern "C"
