// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/fabric/host.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

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

std::unique_ptr<Host> Host::join(std::unique_ptr<Segment> segment, bool thread_executor,
                                 void (*body)(void*), void* argument, std::string* error) {
    std::unique_ptr<Host> host(new Host);
    host->segment_ = std::move(segment);
    host->models_time_ = host->header().config.nic.models_time();
    // If the kernel (Yama) lets only a parent access a process's memory, permits it to the user's
    // processes.
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    if (!host->claim_slot(thread_executor, body, argument, error)) return nullptr;
    return host;
}

bool Host::claim_slot(bool thread_executor, void (*body)(void*), void* argument,
                      std::string* error) {
    MemberFile file(Segment::member_file_path(segment_->name()));
    if (!file.lock(false, error)) return false;
    free_dead_slots();
    // Start at the pid, so that slots are not reused soon.
    const auto start = static_cast<uint32_t>(getpid());
    for (uint32_t i = 0; i < kMaxProcesses; ++i) {
        const uint32_t slot = (start + i) % kMaxProcesses;
        ProcessSlot& candidate = process(slot);
        if (candidate.state.load(std::memory_order_acquire) != SlotState::kFree) continue;
        slot_ = slot;
        self_ = &candidate;
        tables_ = segment_->arena(slot);
        if (tables_ == nullptr || !init_liveness_mutex(&candidate.liveness_mutex)) {
            *error = "cannot map this process's part of the fabric's memory";
            return false;
        }
        candidate.state.store(SlotState::kJoining, std::memory_order_relaxed);
        const uint32_t incarnation =
            candidate.incarnation.fetch_add(1, std::memory_order_relaxed) + 1;
        tag_ = make_tag(slot, incarnation);
        candidate.pid.store(getpid(), std::memory_order_relaxed);
        candidate.thread_executor = thread_executor ? 1 : 0;
        read_process_name(candidate.name, sizeof candidate.name);
        if (!start_thread(body, argument, error)) {
            candidate.state.store(SlotState::kFree, std::memory_order_release);
            return false;
        }
        candidate.state.store(SlotState::kAlive, std::memory_order_seq_cst);
        return true;
    }
    *error = "fabric '" + segment_->name() + "' is full: " + std::to_string(kMaxProcesses) +
             " processes";
    return false;
}

bool Host::start_thread(void (*body)(void*), void* argument, std::string* error) {
    ThreadStart start{self_, body, argument, {}};
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int status = pthread_create(&thread, nullptr, thread_main, &start);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (status != 0) {
        *error = std::string("cannot start the engine thread: ") + std::strerror(status);
        return false;
    }
    pthread_detach(thread);
    start.mutex_held.wait(0, std::memory_order_acquire);
    return true;
}

// Under the lock of the member file, so that a slot in state joining has lost its owner. A slot
// whose process has left the fabric but still runs is not freed.
void Host::free_dead_slots() {
    for (uint32_t slot = 0; slot < kMaxProcesses; ++slot) {
        const SlotState state = process(slot).state.load(std::memory_order_acquire);
        if (state != SlotState::kFree && is_unheld(process(slot).liveness_mutex)) free_slot(slot);
    }
}

void Host::free_slot(uint32_t slot) {
    ProcessSlot& dead = process(slot);
    const uint32_t target = slot + 1;
    for (uint32_t other = 0; other < kMaxProcesses; ++other) {
        if (other == slot ||
            process(other).state.load(std::memory_order_acquire) != SlotState::kAlive)
            continue;
        for (Guard& guard : process(other).guards)
            while ((guard.word.load(std::memory_order_acquire) & 0xffff) == target && alive(other))
                yield();
    }
    for (XrcDomain& domain : header().domains)
        domain.users[slot / 64].fetch_and(~(uint64_t{1} << slot % 64), std::memory_order_relaxed);
    segment_->punch_arena(slot);
    const uint32_t incarnation = dead.incarnation.load(std::memory_order_relaxed);
    std::memset(static_cast<void*>(&dead), 0, offsetof(ProcessSlot, staged));
    dead.incarnation.store(incarnation, std::memory_order_release);
}

bool Host::alive(uint32_t slot) {
    if (slot == slot_ && self_ != nullptr) return true;
    ProcessSlot& other = process(slot);
    if (other.state.load(std::memory_order_acquire) != SlotState::kAlive) return false;
    if (!is_unheld(other.liveness_mutex)) return true;
    other.state.store(SlotState::kDead, std::memory_order_release);
    return false;
}

bool Host::owner_dead(uint32_t tag) {
    const uint32_t slot = (tag & 0x1ff) - 1;
    if (slot >= kMaxProcesses) return true;
    if (make_tag(slot, process(slot).incarnation.load(std::memory_order_acquire)) != tag)
        return true;
    return !alive(slot);
}

void Host::wait_for_accesses() {
    const uint32_t target = slot_ + 1;
    for (uint32_t other = 0; other < kMaxProcesses; ++other) {
        if (process(other).state.load(std::memory_order_seq_cst) != SlotState::kAlive) continue;
        for (Guard& guard : process(other).guards) {
            const uint32_t seen = guard.word.load(std::memory_order_seq_cst);
            const uint32_t named = seen & 0xffff;
            // This process's accesses count for every target: they read and write this process's
            // memory, too.
            if (named == 0 || (named != target && other != slot_)) continue;
            while (guard.word.load(std::memory_order_acquire) == seen && alive(other)) yield();
        }
    }
}

void Host::leave() {
    self_->state.store(SlotState::kDead, std::memory_order_seq_cst);
    segment_->leave();
}

void ring_doorbell(ProcessSlot& process) {
    process.doorbell.fetch_add(1, std::memory_order_seq_cst);
    if (process.sleeping.load(std::memory_order_seq_cst) != 0)
        syscall(SYS_futex, &process.doorbell, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace softhca
