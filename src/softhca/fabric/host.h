// SPDX-License-Identifier: BSD-3-Clause
// This process as a member of the fabric: its slot and arena, lookup of other processes' objects,
// and detection of dead processes. The timing model treats each process as a host of its own.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "softhca/fabric/clock.h"
#include "softhca/fabric/layout.h"
#include "softhca/fabric/pools.h"
#include "softhca/fabric/segment.h"

namespace softhca {

// While it lives, the calling thread is not cancelled. A thread that is cancelled while it holds a
// lock of the fabric leaves the lock to nobody, because its process lives on.
class NoCancellation {
  public:
    NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    ~NoCancellation() { pthread_setcancelstate(before_, nullptr); }
    NoCancellation(const NoCancellation&) = delete;
    NoCancellation& operator=(const NoCancellation&) = delete;

  private:
    int before_ = 0;
};

class Host {
  public:
    // Takes a slot of the fabric and starts a thread that locks the slot's liveness mutex and then
    // runs `body(argument)`. nullptr, with *error, if the fabric is full or a resource is missing.
    static std::unique_ptr<Host> join(std::shared_ptr<Segment> segment, bool thread_executor,
                                      void (*body)(void*), void* argument, std::string* error);

    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    uint32_t slot() const { return slot_; }
    uint32_t incarnation() const { return incarnation_; }  // of the slot
    ProcessSlot& self() { return *self_; }
    ProcessSlot& process(uint32_t slot) { return segment_->header().slots[slot]; }
    FabricHeader& header() { return segment_->header(); }
    Segment& segment() { return *segment_; }
    bool models_time() const { return models_time_; }
    const Personality& personality() const { return segment_->header().config.personality; }
    // Lets this process share the ports of a node in the timing model. False, with *error, on
    // failure.
    bool join_node(const std::string& name, std::string* error);
    // The ports of a process in the timing model.
    LinkPair* links(uint32_t slot) {
        const uint32_t node = process(slot).node.load(std::memory_order_relaxed);
        return node != 0 ? header().nodes[node - 1].links : process(slot).links;
    }
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

    // The entry of a key; nullptr also if the key is not of the process in that slot.
    KeyEntry* key(uint32_t key, uint32_t slot) {
        return KeyNumber::process(key) == slot ? this->key(key) : nullptr;
    }

    // Whether the process in a slot lives and has not begun to leave. Notices a death at once,
    // because the kernel marks the liveness mutex. No system call. The threads of a process that is
    // not alive may still run: see ended().
    bool alive(uint32_t slot);
    // Whether no thread of the process of that incarnation runs any more: nobody copies for it or
    // holds its locks. System calls only for a process that is not alive.
    bool ended(uint32_t slot, uint32_t incarnation);
    // Calls `visit(slot)` for each slot that is not free. A process that joins meanwhile may be
    // missed: it sees what this process has stored before.
    template <typename Visit>
    void for_each_member(Visit&& visit) {
        for (uint32_t word = 0; word < kMaxProcesses / 64; ++word) {
            for (uint64_t bits = header().members[word].load(); bits != 0; bits &= bits - 1)
                visit(word * 64 + static_cast<uint32_t>(__builtin_ctzll(bits)));
        }
    }
    pid_t pid(uint32_t slot) { return process(slot).pid.load(std::memory_order_relaxed); }

    // Waits until accesses that began before the call have ended: those of any process to this
    // process, and those of this process's threads. The caller holds no AccessGuard.
    void wait_for_accesses();
    // Waits for accesses of this process's threads only.
    void wait_for_own_accesses();

    // Begins to leave the fabric: peers no longer reach this process. Threads that still run may
    // use the mapping, and peers wait for their accesses and locks.
    void leave();

    // What RobustLock needs (LockOwner): the name of this process in locks of the segment, whether
    // another process has ended, and a way to wait.
    uint32_t tag() const { return tag_; }
    bool owner_dead(uint32_t tag);
    // Gives up the core in the round-th round of a wait. After many rounds it sleeps for a
    // millisecond, because what this process waits for may be held by a process that is stopped. No
    // cancellation point.
    void yield(uint32_t round);

    IndexPool qp_indices{kMaxObjects};
    IndexPool srq_indices{kMaxObjects};
    IndexPool cq_indices{kMaxObjects};
    IndexPool key_indices{kMaxKeys};
    // Not to its end: a receive that its owner's program has overwritten seems one element longer.
    ArenaHeap heap{kArenaHeapOffset, kArenaBytes - 4096};
    // Memory of `heap` for the entries of a queue; 0, and says so once, if there is not enough.
    uint64_t allocate_queue(uint64_t bytes);
    // Under the fabric's control lock: this process's count of handles to each XRC domain and XRC
    // receiver.
    std::map<uint32_t, uint32_t> domain_references;
    std::map<uint32_t, uint32_t> receiver_references;

  private:
    Host() = default;
    bool claim_slot(bool thread_executor, void (*body)(void*), void* argument, std::string* error);
    bool start_thread(void (*body)(void*), void* argument, std::string* error);
    void configure_pools();
    void free_dead_slots();
    bool accessed(uint32_t slot);
    void forget_process(uint32_t slot);
    // Waits until the accesses of a lane that `matches(word)` names have ended, or the process.
    template <typename Matches>
    void wait_for_lane(GuardLane& lane, uint32_t slot, uint32_t incarnation, Matches&& matches);

    template <typename T>
    T* find(T (ArenaTables::*table)[kMaxObjects], uint32_t number) {
        ArenaTables* tables = segment_->arena(ObjectNumber::process(number));
        if (tables == nullptr || number == 0) return nullptr;
        T* object = &(tables->*table)[ObjectNumber::index(number)];
        // Pairs with the owner, which withdraws the number and then reads the guards.
        return object->number.load(std::memory_order_seq_cst) == number ? object : nullptr;
    }

    std::shared_ptr<Segment> segment_;
    ArenaTables* tables_ = nullptr;
    ProcessSlot* self_ = nullptr;
    uint32_t slot_ = 0;
    uint32_t tag_ = 0;
    uint32_t incarnation_ = 0;
    uint64_t witness_ = 0;  // other processes read it
    bool models_time_ = false;
};

// Wakes the progress engine of a process.
void ring_doorbell(ProcessSlot& process);

// A read-side critical section: while the guard lives, the target process frees nothing that an
// access may touch. Guards of a thread are destroyed in the reverse order of their construction.
class AccessGuard {
  public:
    AccessGuard(Host& host, uint32_t target) : thread_(this_thread()), before_(thread_.place) {
        GuardLane* const lanes = host.self().guards.lanes;
        if (before_.lane < lanes || before_.lane >= lanes + GuardLanes::kMost) {
            take_lane(host, target);
            return;
        }
        word_ = &before_.lane->words[before_.depth];
        value_ = next_value(word_->load(std::memory_order_relaxed), target);
        word_->store(value_, std::memory_order_seq_cst);
        thread_.place.depth = before_.depth + 1;
    }
    ~AccessGuard() {
        word_->store(value_ & 0xffff0000, std::memory_order_release);
        thread_.place = before_;
    }
    AccessGuard(const AccessGuard&) = delete;
    AccessGuard& operator=(const AccessGuard&) = delete;

  private:
    struct Place {
        GuardLane* lane;
        uint32_t depth;  // of the next access; never reaches GuardLane::kDepth
    };
    struct Thread {
        Place place;    // lane nullptr: outside of any access
        uint32_t hint;  // the lane that this thread had last
    };
    static Thread& this_thread() {
        static thread_local Thread thread{};
        return thread;
    }
    static uint32_t next_value(uint32_t before, uint32_t target) {
        return ((before & 0xffff0000) + 0x10000) | (target + 1);
    }
    void take_lane(Host& host, uint32_t target);

    Thread& thread_;
    const Place before_;
    std::atomic<uint32_t>* word_;
    uint32_t value_;
};

inline void AccessGuard::take_lane(Host& host, uint32_t target) {
    ProcessSlot& self = host.self();
    for (uint32_t i = thread_.hint;; ++i) {
        const uint32_t index = i % GuardLanes::kMost;
        // The owner of an object that reads the old number of lanes has withdrawn the object
        // before, which this thread will see.
        uint32_t used = self.guards.used.load(std::memory_order_relaxed);
        while (used <= index && !self.guards.used.compare_exchange_weak(used, index + 1)) continue;
        word_ = &self.guards.lanes[index].words[0];
        uint32_t seen = word_->load(std::memory_order_relaxed);
        value_ = next_value(seen, target);
        if ((seen & 0xffff) == 0 &&
            word_->compare_exchange_strong(seen, value_, std::memory_order_seq_cst)) {
            thread_.hint = index;
            thread_.place = {&self.guards.lanes[index], 1};
            return;
        }
        if (index == GuardLanes::kMost - 1)
            host.yield(i / GuardLanes::kMost);  // others have all lanes
    }
}

}  // namespace softhca
