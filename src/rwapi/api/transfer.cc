// SPDX-License-Identifier: BSD-3-Clause

// Regions, writes and reads.

#include "rwapi/api/context.h"

using namespace rwapi;

namespace {

// Begins a put or get, and stores its id unless id is null.
[[gnu::always_inline]] inline int begin(rwapi_context* context, const rwapi_net& net, rwapi_id* id,
                                        const Transfer& what, bool is_get = false) {
    if (what.local == nullptr && what.length > 0) return RWAPI_ERR_INVALID;
    return with(
        context, [&](Engine & engine) __attribute__((always_inline))->int {
            if (!is_get && engine.put_now(net, what)) [[likely]] {
                if (id != nullptr) *id = 0;
                return RWAPI_OK;
            }
            const Transfer same = what;  // `what` stays in registers
            return store_id(is_get ? engine.get(net, same, id != nullptr)
                                   : engine.put(net, same, id != nullptr),
                            id);
        });
}

std::byte* bytes_of(const void* memory) {
    return static_cast<std::byte*>(const_cast<void*>(memory));
}

// A transfer to or from the memory at `offset` from an address.
Transfer transfer_at(const rwapi_net& net, uint64_t offset, const void* local, size_t length) {
    return {net.word[0], NetAddress::offset_of(net, offset), bytes_of(local), length};
}

// The same with a notification.
Transfer transfer_at(const rwapi_net& net, uint64_t offset, const void* local, size_t length,
                     NotificationKind kind, uint64_t place, uint64_t value) {
    Transfer what = transfer_at(net, offset, local, length);
    what.kind = kind;
    what.place = place;
    what.value = value;
    return what;
}

struct Operands {
    uint64_t compare, value;
};

// Begins an atomic operation. result: where it stores what was there before, or null.
int begin_atomic(rwapi_context* context, Task task, const rwapi_net& net, uint64_t offset,
                 const Operands& operands, uint64_t* result, rwapi_id* id) {
    const Transfer what = transfer_at(net, offset, result, sizeof *result, NotificationKind::kNone,
                                      operands.compare, operands.value);
    return with(context, [&](Engine& engine) {
        return store_id(engine.atomic(task, net, what, id != nullptr), id);
    });
}

}  // namespace

extern "C" {

int rwapi_register(rwapi_context* context, void* memory, size_t length, int rights,
                   rwapi_net* net) {
    if (memory == nullptr || length == 0 || net == nullptr || (rights & ~kRights) != 0)
        return RWAPI_ERR_INVALID;
    return with(context, [&](Engine& engine) {
        return engine.regions().add(bytes_of(memory), length, rights, false, *net);
    });
}

int rwapi_deregister(rwapi_context* context, rwapi_net net) {
    return with(context, [&](Engine& engine) {
        int error;
        OwnRegion* const own = engine.regions().find(net, error);
        if (own == nullptr) return error;
        // rwapi_free is for memory of rwapi_alloc.
        if (own->allocated) return static_cast<int>(RWAPI_ERR_INVALID);
        return engine.regions().remove(*own);
    });
}

int rwapi_put(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
              size_t length, rwapi_id* id) {
    return begin(context, net, id, transfer_at(net, offset, local, length));
}

int rwapi_get(rwapi_context* context, rwapi_net net, uint64_t offset, void* local, size_t length,
              rwapi_id* id) {
    return begin(context, net, id, transfer_at(net, offset, local, length), true);
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
    if (operation != RWAPI_SIGNAL_SET && operation != RWAPI_SIGNAL_ADD) return RWAPI_ERR_INVALID;
    const NotificationKind kind =
        operation == RWAPI_SIGNAL_SET ? NotificationKind::kSet : NotificationKind::kAdd;
    return begin(context, net, id,
                 transfer_at(net, offset, local, length, kind,
                             NetAddress::offset_of(net, signal_offset), value));
}

int rwapi_put_notify(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                     size_t length, uint32_t slot, uint64_t value, rwapi_id* id) {
    if (value == 0) return RWAPI_ERR_INVALID;
    return begin(context, net, id,
                 transfer_at(net, offset, local, length, NotificationKind::kSlot, slot, value));
}

int rwapi_put_count(rwapi_context* context, rwapi_net net, uint64_t offset, const void* local,
                    size_t length, rwapi_id* id) {
    return begin(context, net, id,
                 transfer_at(net, offset, local, length, NotificationKind::kCount, 0, 0));
}

}  // extern "C"
