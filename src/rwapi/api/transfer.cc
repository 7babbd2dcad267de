// SPDX-License-Identifier: BSD-3-Clause

// Regions, writes and reads.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// Begins a put or get, and stores its id unless id is null.
int begin(rwapi_context* context, const rwapi_net& net, rwapi_id* id, const Transfer& what,
          Task task = Task::kPut) {
    if (what.local == nullptr && what.length > 0) return RWAPI_ERR_INVALID;
    return with_room(context, [&](Engine& engine) {
        return store_id(engine.transfer(task, net, what, id != nullptr), id);
    });
}

// Arguments of a put that come in registers, besides the address.
struct PutArguments {
    rwapi_context* context;
    uint64_t offset;
    const void* local;
    size_t length;
};

// A put that is not the usual case.
template <NotificationKind kind, class Place>
[[gnu::noinline, gnu::cold]] int begin_other_put(const PutArguments& all, const rwapi_net& net,
                                                 const Place& place, const uint64_t& value,
                                                 rwapi_id* id) {
    Transfer what = Transfer::of(net, all.offset, all.local, all.length);
    what.kind = kind;
    what.place = is_signal(kind) ? NetAddress::offset_of(net, place) : place;
    what.value = value;
    return begin(all.context, net, id, what);
}

// Begins a put. place: for a signal, its offset from the address; for a slot, its number.
template <NotificationKind kind, class Place>
[[gnu::always_inline]] inline int begin_put(const PutArguments& given, rwapi_net& net, Place& place,
                                            uint64_t& value, rwapi_id*& id) {
    // What may be needed again is read from memory then: to keep it in a register over the call of
    // UCT costs three instructions. The last three are there already, as the caller passes them.
    PutArguments all = given;
    const uint64_t name = net.word[0], word = net.word[1];
    asm("" : "+m"(all), "+m"(net), "+m"(place), "+m"(value), "+m"(id));
    const rwapi_context* const used = given.context != nullptr ? given.context : default_context();
    Engine* const engine = used != nullptr ? used->unlocked : nullptr;
    if (engine == nullptr || !engine->put_now<kind>(name, word, given.offset, given.local,
                                                    given.length, place, value)) [[unlikely]]
        return begin_other_put<kind>(all, net, place, value, id);
    if (id != nullptr) *id = 0;
    return RWAPI_OK;
}

struct Operands {
    uint64_t compare, value;
};

// Begins an atomic operation. result: where it stores what was there before, or null.
int begin_atomic(rwapi_context* context, Task task, const rwapi_net& net, uint64_t offset,
                 const Operands& operands, uint64_t* result, rwapi_id* id) {
    Transfer what = Transfer::of(net, offset, result, sizeof *result);
    what.place = operands.compare;
    what.value = operands.value;
    return with_room(context, [&](Engine& engine) {
        return store_id(engine.atomic(task, net, what, id != nullptr), id);
    });
}

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

int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                   rwapi_net* net) {
    if (memory == nullptr || length == 0 || net == nullptr || (rights & ~kRights) != 0)
        return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.regions().add(static_cast<std::byte*>(memory), length, rights, false, *net);
    });
}

int rwapi_deregister(rwapi_context* context, rwapi_net net) {
    return with(context, [&](Engine& engine) {
        int error;
        OwnRegion* const own = engine.regions().find(net, error);
        return own != nullptr ? engine.regions().remove(*own) : error;
    });
}

int rwapi_put(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
              size_t length, rwapi_id* id) {
    uint64_t none = 0;
    return begin_put<NotificationKind::kNone>({context, offset, local, length}, net, none, none,
                                              id);
}

int rwapi_get(rwapi_context* context, rwapi_net net, uint64_t offset, void* local, size_t length,
              rwapi_id* id) {
    return begin(context, net, id, Transfer::of(net, offset, local, length), Task::kGet);
}

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

int rwapi_fetch_add(rwapi_context* context, rwapi_net net, uint64_t offset, uint64_t value,
                    uint64_t* result, rwapi_id* id) {
    return begin_atomic(context, Task::kFetchAdd, net, offset, {0, value}, result, id);
}

int rwapi_compare_swap(rwapi_context* context, rwapi_net net, uint64_t offset, uint64_t compare,
                       uint64_t value, uint64_t* result, rwapi_id* id) {
    return begin_atomic(context, Task::kCompareSwap, net, offset, {compare, value}, result, id);
}

int rwapi_put_signal(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                     size_t length, uint64_t signal_offset, uint64_t value, int operation,
                     rwapi_id* id) {
    if (operation == RWAPI_SIGNAL_SET)
        return begin_put<NotificationKind::kSet>({context, offset, local, length}, net,
                                                 signal_offset, value, id);
    if (operation == RWAPI_SIGNAL_ADD)
        return begin_put<NotificationKind::kAdd>({context, offset, local, length}, net,
                                                 signal_offset, value, id);
    return RWAPI_ERR_INVALID;
}

int rwapi_put_notify(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                     size_t length, uint32_t slot, uint64_t value, rwapi_id* id) {
    if (value == 0) return RWAPI_ERR_INVALID;
    return begin_put<NotificationKind::kSlot>({context, offset, local, length}, net, slot, value,
                                              id);
}

}  // extern "C"
