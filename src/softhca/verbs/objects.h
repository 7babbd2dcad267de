// SPDX-License-Identifier: BSD-3-Clause
// The objects to which programs hold pointers: the public structures, followed by the device's own
// data.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <semaphore>
#include <set>
#include <vector>

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/region.h"
#include "softhca/transport/srq.h"
#include "softhca/verbs/event_queue.h"
#include "softhca/verbs/export.h"
#include "softhca/verbs/limits.h"

namespace softhca {

struct Context;
struct CqObject;
struct XrcdObject;

// A pointer to an object that counts its users, among which is who has the pointer.
template <typename Object>
struct EndUse {
    void operator()(Object* object) const { object->users.fetch_sub(1, std::memory_order_relaxed); }
};
template <typename Object>
using Use = std::unique_ptr<Object, EndUse<Object>>;
// nullptr stays nullptr.
template <typename Object>
Use<Object> use(Object* object) {
    if (object != nullptr) object->users.fetch_add(1, std::memory_order_relaxed);
    return Use<Object>(object);
}

// How many more objects of a kind this process may have, and an object's part of that.
using Quota = std::counting_semaphore<>;
struct GiveBack {
    void operator()(Quota* quota) const { quota->release(); }
};
using QuotaUse = std::unique_ptr<Quota, GiveBack>;
// nullptr if nothing is left.
inline QuotaUse take(Quota& quota) {
    return QuotaUse(quota.try_acquire() ? &quota : nullptr);
}

// Providers' libraries read private members behind ibv_device; they find zeros.
struct Device {
    ibv_device ibv{};
    char private_members[512]{};
    uint32_t index = 0;
    std::atomic<size_t> device_memory{0};  // bytes allocated
    Quota domains{limits::kDomains};
    Quota address_handles{limits::kAddressHandles};
};

struct Context {
    Adapter* adapter = nullptr;
    Device* device = nullptr;
    EventQueue<ibv_async_event> async_events;
    // The program, until it closes the device, and the objects that belong to no other object.
    std::atomic<uint32_t> users{1};
    verbs_context verbs{};  // its end is the ibv_context that programs see

    static Context* of(ibv_context* context) {
        return reinterpret_cast<Context*>(reinterpret_cast<char*>(context) -
                                          offsetof(Context, verbs) -
                                          offsetof(verbs_context, context));
    }
    ibv_context* ibv() { return &verbs.context; }
};

// One user less; the last one frees the context.
void release(Context* context);

// What belongs to a protection domain or to another object need not be a user of the context.
template <>
struct EndUse<Context> {
    void operator()(Context* context) const { release(context); }
};
inline Use<Context> use(ibv_context* context) {
    return use(Context::of(context));
}

// Counts an object's events that were read and not acknowledged; the object's destruction waits
// for them.
struct Unacknowledged {
    std::mutex mutex;
    std::condition_variable changed;
    uint32_t count = 0;

    void add() {
        const std::lock_guard lock(mutex);
        ++count;
    }
    // `total`: the object's public member that counts acknowledged events.
    void acknowledge(uint32_t events, uint32_t& total) {
        const std::lock_guard lock(mutex);
        count -= std::min(count, events);
        __atomic_fetch_add(&total, events, __ATOMIC_RELEASE);
        changed.notify_all();
    }
    void wait() {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return count == 0; });
    }
};

struct WindowObject;

struct TdObject {
    ibv_td ibv{};
    Use<Context> context_use;
    std::atomic<uint32_t> users{0};
};

// The program's allocators for memory of queues, of a parent domain.
struct ProgramAllocators {
    decltype(ibv_parent_domain_init_attr::alloc) allocate = nullptr;
    decltype(ibv_parent_domain_init_attr::free) release = nullptr;
    void* context = nullptr;
};

struct PdObject {
    ibv_pd ibv{};
    Use<Context> context_use;
    QuotaUse quota_use;  // but not of a parent domain, which the device does not know
    uint32_t id = 0;
    std::atomic<uint32_t> users{0};
    Use<PdObject> parent;  // of a parent domain; nullptr for others
    Use<TdObject> thread;  // of a parent domain with a thread domain
    ProgramAllocators allocators;
    std::mutex mutex;
    std::set<WindowObject*> windows;  // under `mutex`

    // The protection domain itself, or that of a parent domain.
    PdObject& base() { return parent == nullptr ? *this : *parent; }
};

// Device memory; programs copy it, and register regions of it.
struct DmObject {
    ibv_dm ibv{};
    Use<Context> context_use;
    char* bytes = nullptr;
    size_t length = 0;
    std::atomic<uint32_t> users{0};
};

struct MrObject {
    ibv_mr ibv{};
    Use<PdObject> pd;
    uint32_t index = 0;
    uint32_t access = 0;
    BackingFile backing_file;
    Use<DmObject> device_memory;  // if the region is of device memory
    void* mapping = nullptr;      // of a DMA buffer, in this process
    size_t mapped = 0;
    bool is_program_memory = true;  // the memory is the program's; else ibv_rereg_mr() fails
};

struct WindowObject {
    ibv_mw ibv{};
    Use<PdObject> pd;
    uint32_t index = 0;
};

struct ChannelObject {
    ibv_comp_channel ibv{};
    Use<Context> context_use;
    EventQueue<CqObject*> events;
    std::atomic<uint32_t> users{0};
};

struct CqObject {
    ibv_cq_ex ibv{};
    Use<Context> context_use;
    Cq* cq = nullptr;
    Use<ChannelObject> channel;
    Use<PdObject> parent_domain;  // with which the queue was created
    Unacknowledged completion_events;
    Unacknowledged async_events;
    // The current completion between start_poll and end_poll.
    Completion current;
};

struct SrqObject {
    ibv_srq ibv{};
    Srq* srq = nullptr;
    Use<PdObject> pd;
    Use<XrcdObject> xrcd;  // of an XRC SRQ
    Unacknowledged async_events;
};

struct XrcdObject {
    ibv_xrcd ibv{};
    Use<Context> context_use;
    uint32_t domain = 0;
    std::atomic<uint32_t> users{0};
};

struct AhObject {
    ibv_ah ibv{};
    Use<PdObject> pd;
    QuotaUse quota_use;
    Destination destination;
};

struct QpObject {
    ibv_qp_ex ibv{};
    Qp* qp = nullptr;  // nullptr: opened, another process's or object's
    ibv_qp_attr attr{};
    Use<PdObject> pd;
    Use<XrcdObject> xrcd;
    Unacknowledged async_events;
    std::mutex modify_mutex;
    // The work requests between wr_start and wr_complete.
    std::vector<Wqe*> building;
    int build_error = 0;
    bool extended = false;
};

inline Adapter& adapter_of(ibv_context* context) {
    return *Context::of(context)->adapter;
}

template <typename Object, typename Ibv>
Object* object_of(Ibv* ibv) {
    return reinterpret_cast<Object*>(ibv);  // the public structure is the first member
}

inline void set_error(int error) {
    errno = error;
}

// What a function returns that returns errors: errno is set, too, as by the kernel's call.
inline int error_of(int error) {
    set_error(error);
    return error;
}

// What a function returns that makes no object. `error` 0 leaves errno as it is.
inline std::nullptr_t fail(int error) {
    if (error != 0) set_error(error);
    return nullptr;
}

// What a function returns that returns -1.
inline int fail_call(int error) {
    set_error(error);
    return -1;
}

// Before the destruction of an object: removes its asynchronous events, which `of` counts, and
// waits for the acknowledgment of those that were read.
void end_events(ibv_context* context, Unacknowledged& of);

// A region of protection domain `pd`, whose key becomes valid.
MrObject* make_region(ibv_pd* pd, const RegionAttributes& attributes, uint32_t key,
                      const BackingFile& file);

// The attributes of a queue pair of protection domain `pd`.
ibv_qp_init_attr_ex extended(const ibv_qp_init_attr& attributes, ibv_pd* pd);

// Creates a completion queue for ibv_create_cq() or ibv_create_cq_ex(). nullptr with errno set on
// failure.
CqObject* make_cq(ibv_context* context, uint32_t entries, void* cq_context,
                  ibv_comp_channel* channel, uint32_t vector);

// A completion in error as programs see it: a device need not set all of its fields.
Completion shown_error(const Personality& personality, Completion wc);

// The allocator of the send queues of a domain's queue pairs: the program's, if the domain is a
// parent domain with allocators. The domain must outlive these queue pairs.
QueueAllocator queue_allocator(PdObject& pd);

}  // namespace softhca
