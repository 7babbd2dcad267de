// SPDX-License-Identifier: BSD-3-Clause
// The objects that programs hold pointers to: the public structures, with what the device keeps
// beside them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "fabric/backing_file.h"
#include "transport/adapter.h"
#include "transport/cq.h"
#include "transport/qp.h"
#include "transport/srq.h"
#include "verbs/event_queue.h"
#include "verbs/export.h"

namespace softhca {

struct Context;
struct CqObject;
struct XrcdObject;

/// Vendor libraries look at private members behind ibv_device; they find zeros.
struct Device {
    ibv_device ibv{};
    char behind[512]{};
    uint32_t index = 0;
    std::atomic<size_t> device_memory{0};  ///< bytes that are allocated
};

struct Context {
    Adapter* adapter = nullptr;
    Device* device = nullptr;
    EventQueue<ibv_async_event> async_events;
    verbs_context verbs{};  ///< ends in the ibv_context that programs see

    static Context* of(ibv_context* context) {
        return reinterpret_cast<Context*>(reinterpret_cast<char*>(context) -
                                          offsetof(Context, verbs) -
                                          offsetof(verbs_context, context));
    }
    ibv_context* ibv() { return &verbs.context; }
};

/// Events of one object that were read and have yet to be acknowledged: its destruction waits for
/// them.
struct Unacknowledged {
    std::mutex mutex;
    std::condition_variable changed;
    uint32_t count = 0;

    void add() {
        const std::lock_guard lock(mutex);
        ++count;
    }
    /// `total`: the object's public member that counts them, as programs may look at it.
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
    std::atomic<uint32_t> users{0};
};

/// Of a parent domain: who gives memory for queues.
struct ProgramAllocators {
    decltype(ibv_parent_domain_init_attr::alloc) allocate = nullptr;
    decltype(ibv_parent_domain_init_attr::free) release = nullptr;
    void* context = nullptr;
};

struct PdObject {
    ibv_pd ibv{};
    uint32_t id = 0;
    std::atomic<uint32_t> users{0};
    PdObject* parent = nullptr;  ///< of a parent domain
    TdObject* thread = nullptr;  ///< of a parent domain that has one
    ProgramAllocators allocators;
    std::mutex mutex;
    std::set<WindowObject*> windows;  ///< under `mutex`

    /// The protection domain that counts, for a parent domain, too.
    PdObject& base() { return parent == nullptr ? *this : *parent; }
};

/// Memory of the device; programs reach it by copying, and by regions of it.
struct DmObject {
    ibv_dm ibv{};
    char* bytes = nullptr;
    size_t length = 0;
    std::atomic<uint32_t> users{0};
};

struct MrObject {
    ibv_mr ibv{};
    uint32_t index = 0;
    uint32_t access = 0;
    BackingFile backing_file;
    DmObject* device_memory = nullptr;  ///< of a region of it
    bool of_program = true;             ///< of its own memory; no other can be registered anew
};

struct WindowObject {
    ibv_mw ibv{};
    uint32_t index = 0;
};

struct ChannelObject {
    ibv_comp_channel ibv{};
    EventQueue<CqObject*> events;
    std::atomic<int> users{0};
};

struct CqObject {
    ibv_cq_ex ibv{};
    Cq* cq = nullptr;
    PdObject* parent_domain = nullptr;  ///< it was created with
    Unacknowledged completion_events;
    Unacknowledged async_events;
    // State of an extended poll, between start_poll and end_poll.
    Completion current;
};

struct SrqObject {
    ibv_srq ibv{};
    Srq* srq = nullptr;
    XrcdObject* xrcd = nullptr;  ///< of an XRC SRQ
    Unacknowledged async_events;
};

struct XrcdObject {
    ibv_xrcd ibv{};
    uint32_t domain = 0;
    std::atomic<uint32_t> users{0};
};

struct AhObject {
    ibv_ah ibv{};
    Destination destination;
};

struct QpObject {
    ibv_qp_ex ibv{};
    Qp* qp = nullptr;  ///< nullptr: opened, another process's or another object's queue pair
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    XrcdObject* xrcd = nullptr;
    Unacknowledged async_events;
    std::mutex modify_mutex;
    // State of an extended post, between wr_start and wr_complete.
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

/// A completion queue for either create verb; nullptr with errno set. The caller owns it.
CqObject* make_cq(ibv_context* context, uint32_t entries, void* cq_context,
                  ibv_comp_channel* channel, uint32_t vector);

/// The allocator of the send queues of a domain's queue pairs: the program's, if the domain is a
/// parent domain with allocators. The domain must outlive these queue pairs.
QueueAllocator queue_allocator(PdObject& pd);

}  // namespace softhca
