// SPDX-License-Identifier: BSD-3-Clause
// This process's place in the fabric: its slot and arena, how it finds other processes' objects,
// and how it knows that a process is gone.
#pragma once

#include <sched.h>
#include <time.h>

#include <map>
#include <memory>
#include <string>

#include "fabric/layout.h"
#include "fabric/pools.h"
#include "fabric/segment.h"

namespace softhca {

/// ns of the clock that all processes share.
inline uint64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class Host {
  public:
    /// Takes a slot of the fabric and starts the keeper thread, which holds the slot's robust mutex
    /// and then runs `body(argument)`. Null, with *error, if the fabric is full or something fails.
    static std::unique_ptr<Host> join(std::unique_ptr<Segment> segment, bool thread_executor,
                                      void (*body)(void*), void* argument, std::string* error);

    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    uint32_t slot() const { return slot_; }
    ProcessSlot& self() { return *self_; }
    ProcessSlot& process(uint32_t slot) { return segment_->header().slots[slot]; }
    FabricHeader& header() { return segment_->header(); }
    Segment& segment() { return *segment_; }
    bool models_time() const { return models_time_; }
    /// Base of this process's arena, for offsets.
    char* arena() { return reinterpret_cast<char*>(tables_); }
    char* arena(uint32_t slot) { return reinterpret_cast<char*>(segment_->arena(slot)); }
    ArenaTables& tables() { return *tables_; }

    /// Objects by number; nullptr if there is none of that number (any more). For other processes'
    /// objects the caller holds an AccessGuard on the owner.
    QpShared* qp(uint32_t number) { return find(&ArenaTables::qps, number); }
    SrqShared* srq(uint32_t number) { return find(&ArenaTables::srqs, number); }
    CqShared* cq(uint32_t number) { return find(&ArenaTables::cqs, number); }
    /// The entry a key names; whether the key is valid is for check_key() to say.
    KeyEntry* key(uint32_t key) {
        ArenaTables* tables = segment_->arena(KeyNumber::process(key));
        return tables == nullptr ? nullptr : &tables->keys[KeyNumber::index(key)];
    }

    /// Whether the process in a slot lives. Notices a death at once: the kernel flags the keeper's
    /// mutex.
    bool alive(uint32_t slot);
    pid_t pid(uint32_t slot) { return process(slot).pid.load(std::memory_order_relaxed); }

    /// Waits until every access that was under way when called has ended: to this process's memory
    /// or objects, or by its own threads. The caller holds no AccessGuard.
    void wait_for_accesses();

    /// Leaves the fabric; peers see this process as gone. The mapping stays, for threads that still
    /// run.
    void leave();

    /// A LockOwner for locks in the segment.
    uint32_t tag() const { return tag_; }
    bool owner_dead(uint32_t tag);
    void yield() { sched_yield(); }

    IndexPool qp_indices{kMaxObjects};
    IndexPool srq_indices{kMaxObjects};
    IndexPool cq_indices{kMaxObjects};
    IndexPool key_indices{kMaxKeys};
    ArenaHeap heap{kArenaHeapOffset, kArenaBytes};
    /// Under the fabric's control lock: how often this process has each XRC domain and each XRC
    /// receiver open.
    std::map<uint32_t, uint32_t> domain_references;
    std::map<uint32_t, uint32_t> receiver_references;

  private:
    Host() = default;
    bool claim_slot(bool thread_executor, void (*body)(void*), void* argument, std::string* error);
    bool start_thread(void (*body)(void*), void* argument, std::string* error);
    void free_dead_slots();
    void free_slot(uint32_t slot);

    template <typename T>
    T* find(T (ArenaTables::*table)[kMaxObjects], uint32_t number) {
        ArenaTables* tables = segment_->arena(ObjectNumber::process(number));
        if (tables == nullptr || number == 0) {
            return nullptr;
        }
        T* object = &(tables->*table)[ObjectNumber::index(number)];
        // Pairs with the owner that withdraws the number and then looks at the guards.
        return object->number.load(std::memory_order_seq_cst) == number ? object : nullptr;
    }

    std::unique_ptr<Segment> segment_;
    ArenaTables* tables_ = nullptr;
    ProcessSlot* self_ = nullptr;
    uint32_t slot_ = 0;
    uint32_t tag_ = 0;
    bool models_time_ = false;
};

/// While it lives, the target process doesn't free what an access may touch: the fabric's read-side
/// critical section.
class AccessGuard {
  public:
    AccessGuard(Host& host, uint32_t target) {
        static thread_local uint32_t hint = 0;
        for (uint32_t i = hint;; ++i) {
            std::atomic<uint32_t>& word = host.self().guards[i % kMaxGuards].word;
            uint32_t seen = word.load(std::memory_order_relaxed);
            if ((seen & 0xffff) != 0) {
                if (i % kMaxGuards == kMaxGuards - 1) {
                    host.yield();  // all taken
                }
                continue;  // another thread's
            }
            const uint32_t mine = (seen + 0x10000) | (target + 1);
            if (word.compare_exchange_strong(seen, mine, std::memory_order_seq_cst)) {
                word_ = &word;
                value_ = mine;
                hint = i % kMaxGuards;
                return;
            }
        }
    }
    ~AccessGuard() { word_->store(value_ & 0xffff0000, std::memory_order_release); }
    AccessGuard(const AccessGuard&) = delete;
    AccessGuard& operator=(const AccessGuard&) = delete;

  private:
    std::atomic<uint32_t>* word_;
    uint32_t value_;
};

}  // namespace softhca
