// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/transport/progress_engine.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <utility>

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/notice.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/srq.h"
#include "softhca/transport/virtual_ports.h"

namespace softhca {

namespace {

// With the timing model, the engine wakes this long before a task is due, and then spins.
constexpr uint64_t kWakeEarlyNs = 20'000;

// Sleep of the engine while other threads poll and run its tasks: the most that a task is late
// when they stop polling.
constexpr uint64_t kPolledSleepNs = 1'000'000;

template <typename Handle>
void for_each_dirty(std::atomic<uint64_t>* words, Handle&& handle) {
    for (uint32_t w = 0; w < kMaxObjects / 64; ++w) {
        if (words[w].load(std::memory_order_relaxed) == 0) continue;
        uint64_t bits = words[w].exchange(0, std::memory_order_acquire);
        while (bits != 0) {
            const auto bit = static_cast<uint32_t>(__builtin_ctzll(bits));
            bits &= bits - 1;
            handle(w * 64 + bit);
        }
    }
}

}  // namespace

void ProgressEngine::run() {
    phase_.wait(0, std::memory_order_acquire);
    if (phase_.load(std::memory_order_acquire) != 1) return;
    ProcessSlot& self = adapter_.host().self();
    // This thread then only shows that the process lives.
    while (is_virtual_time()) wait_for_doorbell(self.doorbell.rings.load(), kNever);
    for (;;) {
        const uint32_t doorbell = self.doorbell.rings.load(std::memory_order_seq_cst);
        handle_notices();
        check_ports();
        const uint64_t now = now_ns();
        if (next_due_.load(std::memory_order_acquire) <= now) {
            const std::lock_guard lock(run_mutex_);
            run_due(now);
            continue;
        }
        adapter_.process_memory().maps().collect();
        sleep(doorbell);
    }
}

void ProgressEngine::progress() {
    if (is_virtual_time() || adapter_.thread_executor()) return;
    const uint64_t due = next_due_.load(std::memory_order_relaxed);
    // With the timing model, each poll counts: the next work request is due soon, and waking the
    // engine's thread would take the core from the polling thread.
    if (adapter_.host().models_time() || due != kNever) {
        progress_calls_.store(progress_calls_.load(std::memory_order_relaxed) + 1,
                              std::memory_order_relaxed);
    }
    if (due == kNever) return;
    const uint64_t now = now_ns();
    if (due > now || !run_mutex_.try_lock()) return;
    run_due(now);
    run_mutex_.unlock();
}

void ProgressEngine::run_at(uint64_t now) {
    Host& host = adapter_.host();
    virtual_ports.act(host.slot(), host.header().config.nic, now);
    const uint32_t rung = host.self().doorbell.rings.load(std::memory_order_relaxed);
    if (std::exchange(doorbell_seen_, rung) != rung) {
        handle_notices();
        check_ports();
    }
    if (next_due_.load(std::memory_order_relaxed) <= now) {
        const std::lock_guard lock(run_mutex_);
        run_due(now);
    }
}

void ProgressEngine::schedule(const Task& task) {
    {
        const std::lock_guard lock(tasks_mutex_);
        tasks_.push(task);
        next_due_.store(tasks_.top().due, std::memory_order_seq_cst);
    }
    if (is_virtual_time()) note_virtual(task);
    if (task.due < sleeping_until_.load(std::memory_order_seq_cst))
        ring_doorbell(adapter_.host().self());
}

// In virtual time. What a queue pair does may be seen by its peer, of which the peer is told first.
void ProgressEngine::note_virtual(const Task& task) {
    note_acts(adapter_.host().slot(), task.due);
    if (task.kind != Kind::kQueuePair) return;
    Qp* qp = adapter_.qps.get(task.number);
    if (qp != nullptr && qp->shared().attributes.peer_number != 0)
        note_seen(ObjectNumber::process(qp->shared().attributes.peer_number), task.due);
}

// Runs tasks that are due at `now`, in order of time. The caller holds run_mutex_.
void ProgressEngine::run_due(uint64_t now) {
    for (;;) {
        Task task;
        {
            const std::lock_guard lock(tasks_mutex_);
            if (tasks_.empty() || tasks_.top().due > now) {
                next_due_.store(tasks_.empty() ? kNever : tasks_.top().due,
                                std::memory_order_release);
                return;
            }
            task = tasks_.top();
            tasks_.pop();
        }
        run_task(task, now);
    }
}

void ProgressEngine::run_task(const Task& task, uint64_t now) {
    if (task.kind == Kind::kCompletionEvent)
        deliver_cq_event(task.number);
    else if (Qp* qp = adapter_.qps.get(task.number))
        qp->run_scheduled(now);
}

void ProgressEngine::deliver_cq_event(uint32_t number) {
    Cq* cq = adapter_.cqs.get(number);
    if (cq == nullptr) return;
    const uint64_t due = cq->shared().event_at.load(std::memory_order_relaxed);
    if (due > CqShared::kEventNow && due > now_ns()) {
        schedule({due, Kind::kCompletionEvent, number});
    } else if (cq->shared().event_at.exchange(0, std::memory_order_acq_rel) !=
               0) {  // 0: delivered already
        adapter_.host().self().counters.events.fetch_add(1, std::memory_order_relaxed);
        adapter_.sink().completion_event(*cq);
    }
}

void ProgressEngine::handle_notices() {
    ProcessSlot& self = adapter_.host().self();
    const std::lock_guard lock(run_mutex_);
    for_each_dirty(self.doorbell.dirty_cqs, [this](uint32_t index) { handle_cq(index); });
    for_each_dirty(self.doorbell.dirty_qps, [this](uint32_t index) { handle_qp(index); });
    for_each_dirty(self.doorbell.dirty_srqs, [this](uint32_t index) { handle_srq(index); });
}

void ProgressEngine::handle_cq(uint32_t index) {
    Cq* cq = adapter_.cqs.at(index);
    if (cq == nullptr) return;
    const uint32_t notices = cq->shared().notices.exchange(0, std::memory_order_acquire);
    if ((notices & Notice::kCqEvent) != 0) deliver_cq_event(cq->number());
    if ((notices & Notice::kCqError) != 0) {
        adapter_.sink().cq_error(*cq);
        adapter_.sink().completion_event(*cq);  // wakes threads that wait for completions
    }
}

void ProgressEngine::handle_qp(uint32_t index) {
    Qp* qp = adapter_.qps.at(index);
    if (qp == nullptr) return;
    const uint32_t notices = qp->shared().notices.exchange(0, std::memory_order_acquire);
    if ((notices & Notice::kQpCommEst) != 0) adapter_.sink().qp_event(*qp, QpEvent::kEstablished);
    if ((notices & Notice::kQpAccessError) != 0)
        adapter_.sink().qp_event(*qp, QpEvent::kAccessError);
    if ((notices & Notice::kQpRequestError) != 0)
        adapter_.sink().qp_event(*qp, QpEvent::kRequestError);
    if ((notices & Notice::kQpFatal) != 0) adapter_.sink().qp_event(*qp, QpEvent::kFatal);
    if ((notices & Notice::kQpError) != 0) qp->flush();
}

void ProgressEngine::handle_srq(uint32_t index) {
    Srq* srq = adapter_.srqs.at(index);
    if (srq != nullptr &&
        (srq->shared().notices.exchange(0, std::memory_order_acquire) & Notice::kSrqLimit) != 0)
        adapter_.sink().srq_limit(*srq);
}

void ProgressEngine::check_ports() {
    const uint64_t down =
        adapter_.host().header().faults.ports_down.load(std::memory_order_acquire);
    const uint64_t changed = down ^ ports_seen_;
    ports_seen_ = down;
    for (uint32_t link = 0; link < kMaxLinks && changed >> link != 0; ++link)
        if ((changed >> link & 1) != 0) adapter_.sink().port_changed(link, (down >> link & 1) == 0);
    const uint64_t fatal =
        adapter_.host().header().faults.device_fatal.load(std::memory_order_acquire);
    if (fatal != std::exchange(fatal_seen_, fatal) && fatal != 0) adapter_.sink().devices_failed();
}

void ProgressEngine::wait_for_doorbell(uint32_t seen_doorbell, uint64_t ns) {
    const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                           static_cast<long>(ns % 1'000'000'000)};
    syscall(SYS_futex, &adapter_.host().self().doorbell.rings, FUTEX_WAIT, seen_doorbell,
            ns == kNever ? nullptr : &timeout, nullptr, 0);
}

void ProgressEngine::sleep(uint32_t seen_doorbell) {
    ProcessSlot& self = adapter_.host().self();
    const uint32_t calls = progress_calls_.load(std::memory_order_relaxed);
    const bool polled = calls != progress_calls_seen_;
    progress_calls_seen_ = calls;
    const uint64_t due = next_due_.load(std::memory_order_acquire);
    if (polled) {
        // A polling thread runs the tasks in time. The engine checks from time to time whether
        // threads still poll; waking for each task would take the core from them. Peers may ring
        // the doorbell.
        self.doorbell.sleeping.store(1, std::memory_order_seq_cst);
        wait_for_doorbell(seen_doorbell, kPolledSleepNs);
        self.doorbell.sleeping.store(0, std::memory_order_relaxed);
        return;
    }
    sleeping_until_.store(due, std::memory_order_seq_cst);
    self.doorbell.sleeping.store(1, std::memory_order_seq_cst);
    // This load sees a task that came before sleeping_until_ was stored, and rang no doorbell.
    if (next_due_.load(std::memory_order_seq_cst) >= due) {
        const uint64_t now = now_ns();
        const uint64_t early = adapter_.host().models_time() ? kWakeEarlyNs : 0;
        if (due == kNever)
            wait_for_doorbell(seen_doorbell, kNever);
        else if (due > now + early)
            wait_for_doorbell(seen_doorbell, due - now - early);
    }
    self.doorbell.sleeping.store(0, std::memory_order_relaxed);
    sleeping_until_.store(0, std::memory_order_relaxed);
}

}  // namespace softhca
