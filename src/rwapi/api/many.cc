// SPDX-License-Identifier: BSD-3-Clause

// Puts of many pieces.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// The extent of several blocks. False: it is longer than any memory.
bool extent_of(const rwapi_blocks& blocks, uint64_t stride, uint64_t& extent) {
    return !__builtin_mul_overflow(blocks.count - 1, stride, &extent) &&
           !__builtin_add_overflow(extent, blocks.length, &extent);
}

}  // namespace

extern "C" {

int rwapi_put_list(rwapi_context* context, const rwapi_element* elements, size_t n, rwapi_id* id) {
    if (elements == nullptr && n > 0) return RWAPI_ERR_INVALID;
    if (n == 1)
        return rwapi_put(context, elements->net, elements->offset, elements->local,
                         elements->length, id);
    return with_room(context, [&](Engine& engine) {
        return store_id(n > 0 ? engine.put_list({elements, n}, id != nullptr) : 0, id);
    });
}

int rwapi_put_strided(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                      const rwapi_blocks* blocks, rwapi_id* id) {
    if (blocks == nullptr) return RWAPI_ERR_INVALID;
    const size_t length = blocks->length;
    if (blocks->count < 2 || length == 0)
        return rwapi_put(context, net, offset, local, blocks->count == 0 ? 0 : length, id);
    if (local == nullptr || blocks->stride < length) return RWAPI_ERR_INVALID;
    uint64_t extent, local_extent;
    if (!extent_of(*blocks, blocks->stride, extent) ||
        !extent_of(*blocks, blocks->local_stride, local_extent))
        return RWAPI_ERR_RANGE;
    if (blocks->stride == length && blocks->local_stride == length)
        return rwapi_put(context, net, offset, local, extent, id);
    return with_room(context, [&](Engine& engine) {
        const Transfer first = Transfer::of(net, offset, local, length);
        return store_id(engine.put_blocks(net, first, *blocks, id != nullptr), id);
    });
}

}  // extern "C"
