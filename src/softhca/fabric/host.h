// SPDX-License-Identifier: BSD-3-Clause
// This process as a member of the fabric: its slot and arena, lookup of other processes' objects,
// and detection of dead processes. The timing model treats each process as a host of its own.
#pragma once

#include <sched.h>
#include <time.h>

#include <map>
#include <memory>
#include <string>

#include "softhca/fabric/layout.h"
#include "softhca/fabric/pools.h"
#include "softhca/fabric/segment.h"

namespace softhca {

// Time in ns of CLOCK_MONOTONIC, which all processes share.
inline uint64_t now_ns() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

class Host {
  public:
    // Takes a slot of the fabric and starts a thread that locks the slot's liveness mutex and then
    // runs `body(argument)`. nullptr, with *error, if the fabric is full or a resource is missing.
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
    // This process's arena: the base of its offsets.
    char* arena() { return reinterpret_cast<char*>(tables_); }
    char* arena(uint32_t slot) { return reinterpret_cast<char*>(segment_->arena(slot)); }
    ArenaTables& tables() { return *tables_; }

    // Objects by number; nullptr if there is no such object (any more). To use another process's
    // object, the caller holds an AccessGuard on the owner.
    QpShared* qp(uint32_t number) { return find(&ArenaTables::qps, number); }
    SrqShared* srq(uint32_t number) { return find(&ArenaTables::srqs, number); }
    CqShared* cq(uint32_t number) { return find(&ArenaTables::cqs, number); }
    // The entry that a key names; check_key() checks whether the key is valid. nullptr if the arena
    // cannot be mapped.
    KeyEntry* key(uint32_t key) {
        ArenaTables* tables = segment_->arena(KeyNumber::process(key));
        return tables == nullptr ? nullptr : &tables->keys[KeyNumber::index(key)];
    }

    // Whether the process in a slot lives. Notices a death at once, because the kernel marks the
    // liveness mutex.
    bool alive(uint32_t slot);
    pid_t pid(uint32_t slot) { return process(slot).pid.load(std::memory_order_relaxed); }

    // Waits until accesses that began before the call have ended: those of any process to this
    // process, and those of this process's threads. The caller holds no AccessGuard.
    void wait_for_accesses();

    // Leaves the fabric; to peers this process has died. Threads that still run may use the
    // mapping.
    void leave();

    // What RobustLock needs (LockOwner): the name of this process in locks of the segment, whether
    // another process has died, and a way to wait.
    uint32_t tag() const { return tag_; }
    bool owner_dead(uint32_t tag);
    void yield() { sched_yield(); }

    IndexPool qp_indices{kMaxObjects};
    IndexPool srq_indices{kMaxObjects};
    IndexPool cq_indices{kMaxObjects};
    IndexPool key_indices{kMaxKeys};
    ArenaHeap heap{kArenaHeapOffset, kArenaBytes};
    // Under the fabric's control lock: this process's count of handles to each XRC domain and XRC
    // receiver.
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
        if (tables == nullptr || number == 0) return nullptr;
        T* object = &(tables->*table)[ObjectNumber::index(number)];
        // Pairs with the owner, which withdraws the number and then reads the guards.
        return object->number.load(std::memory_order_seq_cst) == number ? object : nullptr;
    }

    std::unique_ptr<Segment> segment_;
    ArenaTables* tables_ = nullptr;
    ProcessSlot* self_ = nullptr;
    uint32_t slot_ = 0;
    uint32_t tag_ = 0;
    bool models_time_ = false;
};

// Wakes the progress engine of a process.
void ring_doorbell(ProcessSlot& process);

// A read-side critical section: while the guard lives, the target process frees nothing that an
// access may touch.
class AccessGuard {
  public:
    AccessGuard(Host& host, uint32_t target) {
        static thread_local uint32_t hint = 0;
        for (uint32_t i = hint;; ++i) {
            std::atomic<uint32_t>& word = host.self().guards[i % kMaxGuards].word;
            uint32_t seen = word.load(std::memory_order_relaxed);
            if ((seen & 0xffff) != 0) {
                if (i % kMaxGuards == kMaxGuards - 1) host.yield();  // all guards are taken
                continue;                                            // taken by another thread
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
