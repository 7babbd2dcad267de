// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/host.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <bitset>
#include <cstdio>
#include <cstring>

#include "common/blocked_signals.h"
#include "softhca/fabric/member_file.h"

namespace softhca {

namespace {

void read_process_name(char* name, size_t size) {
    name[0] = '\0';
    if (FILE* file = std::fopen("/proc/self/comm", "re")) {
        if (std::fgets(name, static_cast<int>(size), file) != nullptr)
            name[std::strcspn(name, "\n")] = '\0';
        std::fclose(file);
    }
}

bool init_liveness_mutex(pthread_mutex_t* mutex) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    std::memset(mutex, 0, sizeof *mutex);
    const int status = pthread_mutex_init(mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return status == 0;
}

// Whether no thread holds a robust mutex: its owner died, which the kernel marks in the futex
// word, or it was never locked. Loads the word, because trying the lock would take the cache line
// from other readers.
bool is_unheld(const pthread_mutex_t& mutex) {
    const auto word =
        static_cast<uint32_t>(__atomic_load_n(&mutex.__data.__lock, __ATOMIC_ACQUIRE));
    return (word & FUTEX_TID_MASK) == 0;
}

struct ThreadStart {
    ProcessSlot* slot;
    void (*body)(void*);
    void* argument;
    std::atomic<int> mutex_held{0};
};

void* thread_main(void* argument) {
    auto* start = static_cast<ThreadStart*>(argument);
    prctl(PR_SET_NAME, "softhca-engine");
    prctl(PR_SET_TIMERSLACK, 1);
    pthread_mutex_lock(&start->slot->liveness_mutex);
    void (*body)(void*) = start->body;
    void* body_argument = start->argument;
    start->mutex_held.store(1, std::memory_order_release);
    start->mutex_held.notify_one();  // `start` may no longer exist after this line
    body(body_argument);
    return nullptr;
}

uint32_t make_tag(uint32_t slot, uint32_t incarnation) {
    return (slot + 1) | incarnation << 9;
}

}  // namespace

std::unique_ptr<Host> Host::join(std::shared_ptr<Segment> segment, bool thread_executor,
                                 void (*body)(void*), void* argument, std::string* error) {
    std::unique_ptr<Host> host(new Host);
    host->segment_ = std::move(segment);
    host->models_time_ = host->header().config.nic.models_time();
    host->configure_pools();
    // If the kernel (Yama) lets only a parent access a process's memory, permits it to the user's
    // processes.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (!host->claim_slot(thread_executor, body, argument, error)) return nullptr;
    return host;
}

void Host::configure_pools() {
    const auto numbers = static_cast<rule::Numbers>(personality().numbers.objects);
    qp_indices.configure(numbers, kMaxObjects - 1);
    srq_indices.configure(numbers, static_cast<uint32_t>(personality().limits.srqs));
    cq_indices.configure(numbers, kMaxObjects - 1);
    key_indices.configure(static_cast<rule::Numbers>(personality().numbers.keys), kMaxKeys - 1);
}

bool Host::claim_slot(bool thread_executor, void (*body)(void*), void* argument,
                      std::string* error) {
    MemberFile file(Segment::member_file_path(segment_->name()));
    if (!file.lock(false, error)) return false;
    free_dead_slots();
    // Start at the pid, so that slots are not reused soon. In virtual time, runs must be the same.
    const uint32_t start = is_virtual_time() ? 0 : static_cast<uint32_t>(getpid());
    for (uint32_t i = 0; i < kMaxProcesses; ++i) {
        const uint32_t slot = (start + i) % kMaxProcesses;
        ProcessSlot& candidate = process(slot);
        const Life life = candidate.get_life();
        if (life.state != SlotState::kFree) continue;
        slot_ = slot;
        self_ = &candidate;
        tables_ = segment_->arena(slot);
        if (tables_ == nullptr || !init_liveness_mutex(&candidate.liveness_mutex)) {
            *error = "cannot map this process's part of the fabric's memory";
            return false;
        }
        incarnation_ = life.incarnation % Life::kIncarnations + 1;
        tag_ = make_tag(slot, incarnation_);
        candidate.pid.store(getpid(), std::memory_order_relaxed);
        candidate.witness = make_witness(&witness_);
        candidate.user_namespace = own_namespace("user");
        header().members[slot / 64].fetch_or(uint64_t{1} << slot % 64);
        candidate.life.store(Life{SlotState::kJoining, incarnation_}.word(),
                             std::memory_order_release);
        candidate.thread_executor = thread_executor ? 1 : 0;
        read_process_name(candidate.name, sizeof candidate.name);
        if (!start_thread(body, argument, error)) {
            forget_process(slot);
            return false;
        }
        candidate.life.store(Life{SlotState::kAlive, incarnation_}.word());
        return true;
    }
    *error = "fabric '" + segment_->name() + "' is full: " + std::to_string(kMaxProcesses) +
             " processes";
    return false;
}

bool Host::join_node(const std::string& name, std::string* error) {
    MemberFile file(Segment::member_file_path(segment_->name()));
    if (!file.lock(false, error)) return false;
    std::bitset<kMaxProcesses> used;
    for_each_member([&](uint32_t slot) {
        const uint32_t node = process(slot).node.load(std::memory_order_relaxed);
        if (node != 0) used.set(node - 1);
    });
    uint32_t found = 0;  // as many nodes as processes: one is free
    for (uint32_t i = 0; i < kMaxProcesses; ++i) {
        const bool same = used[i] && name == header().nodes[i].name;
        if (same || !used[i]) found = i;
        if (same) break;
    }
    if (!used[found]) {
        NodePorts& node = header().nodes[found];
        for (LinkPair& link : node.links) link.clear();
        node.name[name.copy(node.name, NodePorts::kNameBytes - 1)] = '\0';
    }
    self_->node.store(found + 1, std::memory_order_relaxed);
    return true;
}

bool Host::start_thread(void (*body)(void*), void* argument, std::string* error) {
    ThreadStart start{self_, body, argument, {}};
    pthread_t thread;
    const tern::base::BlockedSignals blocked;
    const int status = pthread_create(&thread, nullptr, thread_main, &start);
    if (status != 0) {
        *error = std::string("cannot start the engine thread: ") + std::strerror(status);
        return false;
    }
    pthread_detach(thread);
    start.mutex_held.wait(0, std::memory_order_acquire);
    return true;
}

// Under the lock of the member file. Does not wait: a slot that a process may still access, or
// whose process has left the fabric but still runs, stays until the next process joins.
void Host::free_dead_slots() {
    for_each_member([this](uint32_t slot) {
        const Life life = process(slot).get_life();
        if (life.state == SlotState::kFree)  // a process was killed after it had freed the slot
            header().members[slot / 64].fetch_and(~(uint64_t{1} << slot % 64));
        else if (ended(slot, life.incarnation) && !accessed(slot))
            forget_process(slot);
    });
}

// Whether a process that runs may access the objects of the dead process in a slot.
bool Host::accessed(uint32_t slot) {
    bool found = false;
    for_each_member([&](uint32_t other) {
        if (found || other == slot) return;
        const Life life = process(other).get_life();
        const uint32_t lanes = process(other).guards.used.load();
        bool has_access = false;
        for (uint32_t i = 0; i < lanes; ++i) {
            for (const auto& word : process(other).guards.lanes[i].words)
                has_access = has_access || (word.load() & 0xffff) == slot + 1;
        }
        found = has_access && !ended(other, life.incarnation);
    });
    return found;
}

void Host::forget_process(uint32_t slot) {
    for (XrcDomain& domain : header().domains)
        domain.users[slot / 64].fetch_and(~(uint64_t{1} << slot % 64), std::memory_order_relaxed);
    segment_->punch_arena(slot);
    free_slot(process(slot));
    header().members[slot / 64].fetch_and(~(uint64_t{1} << slot % 64));
}

void free_slot(ProcessSlot& slot) {
    constexpr size_t kBegin = offsetof(ProcessSlot, name);
    std::memset(reinterpret_cast<char*>(&slot) + kBegin, 0, sizeof(ProcessSlot) - kBegin);
    // The last store: a slot that is dead is cleared again.
    slot.life.store(Life{SlotState::kFree, slot.get_life().incarnation}.word(),
                    std::memory_order_release);
}

bool Host::alive(uint32_t slot) {
    if (slot == slot_ && self_ != nullptr) return true;
    ProcessSlot& other = process(slot);
    uint32_t word = other.life.load(std::memory_order_acquire);
    Life life = Life::of(word);
    if (life.state != SlotState::kAlive) return false;
    if (!is_unheld(other.liveness_mutex)) return true;
    life.state = SlotState::kLeaving;
    other.life.compare_exchange_strong(word, life.word());
    return false;
}

bool Host::ended(uint32_t slot, uint32_t incarnation) {
    ProcessSlot& other = process(slot);
    uint32_t word = other.life.load(std::memory_order_acquire);
    Life life = Life::of(word);
    if (life.incarnation != incarnation || life.state == SlotState::kFree ||
        life.state == SlotState::kDead)
        return true;
    if (slot == slot_ && self_ != nullptr) return false;
    if (!is_unheld(other.liveness_mutex)) return false;
    const NoCancellation no_cancellation;
    const pid_t process_id = other.pid.load(std::memory_order_relaxed);
    const Witness witness = other.witness;
    // Of a successor, if another process has freed the slot meanwhile.
    if (other.life.load(std::memory_order_acquire) != word) return ended(slot, incarnation);
    if (address_space_in_use(process_id, witness)) return false;
    life.state = SlotState::kDead;
    other.life.compare_exchange_strong(word, life.word());
    return true;
}

bool Host::owner_dead(uint32_t tag) {
    const uint32_t slot = (tag & 0x1ff) - 1;
    return slot >= kMaxProcesses || ended(slot, tag >> 9);
}

void Host::yield(uint32_t round) {
    constexpr uint32_t kRoundsBeforeSleep = 2000;
    if (round < kRoundsBeforeSleep) {
        sched_yield();
        return;
    }
    const timespec pause{0, 1'000'000};
    syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, nullptr);
}

template <typename Matches>
void Host::wait_for_lane(GuardLane& lane, uint32_t slot, uint32_t incarnation, Matches&& matches) {
    if ((lane.words[0].load() & 0xffff) == 0) return;  // then there is no access within
    for (std::atomic<uint32_t>& word : lane.words) {
        const uint32_t seen = word.load();
        if ((seen & 0xffff) == 0 || !matches((seen & 0xffff) - 1)) continue;
        for (uint32_t round = 0; word.load(std::memory_order_acquire) == seen; ++round) {
            if (ended(slot, incarnation)) return;
            yield(round);
        }
    }
}

void Host::wait_for_accesses() {
    for_each_member([this](uint32_t other) {
        const Life life = process(other).get_life();
        if (life.state != SlotState::kAlive && life.state != SlotState::kLeaving) return;
        const uint32_t lanes = process(other).guards.used.load();
        // This process's accesses count for every target: they read and write this process's
        // memory, too.
        for (uint32_t i = 0; i < lanes; ++i) {
            wait_for_lane(process(other).guards.lanes[i], other, life.incarnation,
                          [&](uint32_t target) { return target == slot_ || other == slot_; });
        }
    });
}

void Host::wait_for_own_accesses() {
    for (uint32_t i = 0; i < self_->guards.used.load(); ++i)
        wait_for_lane(self_->guards.lanes[i], slot_, incarnation_, [](uint32_t) { return true; });
}

void Host::leave() {
    uint32_t alive = Life{SlotState::kAlive, incarnation_}.word();
    self_->life.compare_exchange_strong(alive, Life{SlotState::kLeaving, incarnation_}.word());
    segment_->leave();
}

uint64_t Host::allocate_queue(uint64_t bytes) {
    const uint64_t offset = heap.allocate(bytes);
    static std::atomic_flag said;
    if (offset == 0 && !said.test_and_set())
        std::fprintf(stderr,
                     "softhca: the %llu MiB that a process has for receives and completions are "
                     "full\n",
                     static_cast<unsigned long long>(kArenaBytes >> 20));
    return offset;
}

void ring_doorbell(ProcessSlot& process) {
    process.doorbell.rings.fetch_add(1, std::memory_order_seq_cst);
    if (process.doorbell.sleeping.load(std::memory_order_seq_cst) != 0)
        syscall(SYS_futex, &process.doorbell.rings, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace softhca
