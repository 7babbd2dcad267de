// SPDX-License-Identifier: BSD-3-Clause
// This process's software HCA: the fabric, the progress engine, and the process's objects.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "softhca/fabric/host.h"
#include "softhca/fabric/process_memory.h"
#include "softhca/transport/progress_engine.h"

namespace softhca {

class Cq;
class Qp;
class Srq;

enum class QpEvent : uint8_t {
    kFatal,
    kRequestError,
    kAccessError,
    kEstablished,
    kDrained,
    kLastReceive
};

// Receives events from the adapter, in any thread; must not call the adapter.
class EventSink {
  public:
    virtual ~EventSink() = default;
    virtual void completion_event(Cq& cq) = 0;
    virtual void cq_error(Cq& cq) = 0;
    virtual void qp_event(Qp& qp, QpEvent event) = 0;
    virtual void srq_limit(Srq& srq) = 0;
    virtual void port_changed(uint32_t link, bool up) = 0;
    virtual void devices_failed() = 0;
};

// This process's handles of its own objects of one kind, by index. The table owns none of them.
template <typename T>
class ObjectTable {
  public:
    void put(uint32_t index, T* object) {
        objects_[index].store(object, std::memory_order_release);
    }
    void drop(uint32_t index) { objects_[index].store(nullptr, std::memory_order_release); }
    T* at(uint32_t index) const { return objects_[index].load(std::memory_order_acquire); }
    // The object of that number; nullptr if another process owns it or it is destroyed.
    T* get(uint32_t number) const {
        T* object = at(ObjectNumber::index(number));
        return object != nullptr && object->number() == number ? object : nullptr;
    }

  private:
    std::atomic<T*> objects_[kMaxObjects] = {};
};

class Adapter {
  public:
    // Joins the fabric of the segment, which others may use, too. nullptr, with *error, on failure.
    static std::unique_ptr<Adapter> start(std::shared_ptr<Segment> segment, bool thread_executor,
                                          EventSink& sink, std::string* error);

    Host& host() { return *host_; }
    ProcessMemory& process_memory() { return *process_memory_; }
    ProgressEngine& engine() { return engine_; }
    EventSink& sink() { return sink_; }
    bool thread_executor() const { return thread_executor_; }
    // Whether this is the child of a fork(): the objects are the parent's, and must not be used.
    bool inherited() const { return inherited_; }
    void set_inherited() { inherited_ = true; }
    // Whether completions become visible later than they are written, by the timing model or a
    // fault. If so, they carry the time in `visible_at`.
    bool delays_completions() {
        return host_->models_time() ||
               host_->header().faults.delay_completions_ns.load(std::memory_order_relaxed) != 0;
    }
    // The next number for the object at `index`.
    uint32_t next_number(uint32_t index) {
        const bool again = host_->personality().numbers.objects != rule::kOldestFirst;
        return ObjectNumber::make(host_->slot(), index, again ? 0 : next_generation());
    }
    uint32_t next_generation() { return generation_.fetch_add(1, std::memory_order_relaxed); }
    // Names a registration of shared memory; the name is never used again.
    uint64_t next_share_id() {
        return uint64_t{host_->tag()} << 32 | share_ids_.fetch_add(1, std::memory_order_relaxed);
    }
    uint32_t next_pd() { return next_pd_.fetch_add(1, std::memory_order_relaxed); }

    // Held while a window is bound, and to withdraw a region unless a window is bound to it.
    std::mutex bind_mutex;
    // Held while a queue pair is attached to a multicast group, or detached.
    std::mutex group_mutex;

    ObjectTable<Qp> qps;
    ObjectTable<Srq> srqs;
    ObjectTable<Cq> cqs;

  private:
    Adapter(bool thread_executor, EventSink& sink)
        : engine_(*this), sink_(sink), thread_executor_(thread_executor) {}
    std::unique_ptr<Host> host_;
    std::unique_ptr<ProcessMemory> process_memory_;
    ProgressEngine engine_;
    EventSink& sink_;
    const bool thread_executor_;
    bool inherited_ = false;
    std::atomic<uint32_t> generation_{0};
    std::atomic<uint32_t> next_pd_{1};
    std::atomic<uint32_t> share_ids_{1};
};

// The `visible_at` of a completion that is visible at once.
inline uint64_t visible_now(Adapter& adapter) {
    return adapter.delays_completions() ? now_ns() : 0;
}

}  // namespace softhca
