// SPDX-License-Identifier: BSD-3-Clause

// Puts and gets of many pieces.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// The extent of several blocks. False: it is longer than any memory.
bool extent_of(const rwapi_blocks& blocks, uint64_t stride, uint64_t& extent) {
    return !__builtin_mul_overflow(blocks.count - 1, stride, &extent) &&
           !__builtin_add_overflow(extent, blocks.length, &extent);
}

// Begins a put or get of one piece.
int begin_one(rwapi_context* context, Task task, const rwapi_element& one, rwapi_id* id) {
    return task == Task::kPut ? rwapi_put(context, one.net, one.offset, one.local, one.length, id)
                              : rwapi_get(context, one.net, one.offset,
                                          const_cast<void*>(one.local), one.length, id);
}

int begin_list(rwapi_context* context, Task task, const rwapi_element* elements, size_t n,
               rwapi_id* id) {
    if (elements == nullptr && n > 0) return RWAPI_ERR_INVALID;
    if (n == 1) return begin_one(context, task, *elements, id);
    return with_room(context, [&](Engine& engine) {
        return store_id(n > 0 ? engine.transfer_list(task, {elements, n}, id != nullptr) : 0, id);
    });
}

// one: the first block.
int begin_blocks(rwapi_context* context, Task task, rwapi_element one, const rwapi_blocks* blocks,
                 rwapi_id* id) {
    if (blocks == nullptr) return RWAPI_ERR_INVALID;
    const size_t length = one.length = blocks->length;
    if (blocks->count == 0) one.length = 0;
    if (blocks->count < 2 || length == 0) return begin_one(context, task, one, id);
    const uint64_t written = task == Task::kPut ? blocks->stride : blocks->local_stride;
    if (one.local == nullptr || written < length) return RWAPI_ERR_INVALID;
    uint64_t extent, local_extent;
    if (!extent_of(*blocks, blocks->stride, extent) ||
        !extent_of(*blocks, blocks->local_stride, local_extent))
        return RWAPI_ERR_RANGE;
    if (blocks->stride == length && blocks->local_stride == length) {
        one.length = extent;
        return begin_one(context, task, one, id);
    }
    return with_room(context, [&](Engine& engine) {
        return store_id(engine.transfer_blocks(task, one, *blocks, id != nullptr), id);
    });
}

}  // namespace

extern "C" {

int rwapi_put_list(rwapi_context* context, const rwapi_element* elements, size_t n, rwapi_id* id) {
    return begin_list(context, Task::kPut, elements, n, id);
}

int rwapi_get_list(rwapi_context* context, const rwapi_element* elements, size_t n, rwapi_id* id) {
    return begin_list(context, Task::kGet, elements, n, id);
}

int rwapi_put_strided(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                      const rwapi_blocks* blocks, rwapi_id* id) {
    return begin_blocks(context, Task::kPut, {net, offset, local, 0}, blocks, id);
}

int rwapi_get_strided(rwapi_context* context, rwapi_net net, uint64_t offset, void* local,
                      const rwapi_blocks* blocks, rwapi_id* id) {
    return begin_blocks(context, Task::kGet, {net, offset, local, 0}, blocks, id);
}

}  // extern "C"
