// SPDX-License-Identifier: BSD-3-Clause
// The progress engine: one thread for each process runs retries, timed transfers and events, and,
// with Executor::kThread, work requests. Threads that poll run its tasks, too.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <queue>
#include <vector>

namespace softhca {

class Adapter;

class ProgressEngine {
  public:
    explicit ProgressEngine(Adapter& adapter) : adapter_(adapter) {}

    // The thread's body: waits for start(), then never returns; returns after cancel().
    void run();
    void start() { set_phase(1); }
    void cancel() { set_phase(2); }

    // Runs the send queue of a queue pair at `due` (ns; 0: as soon as possible).
    void schedule_qp(uint32_t number, uint64_t due) { schedule({due, Kind::kQueuePair, number}); }
    // Runs tasks that are due, unless another thread does. Threads that poll call this; without
    // tasks it is cheap.
    void progress();
    // In virtual time, instead of a thread and of threads that poll: does what is due at `now`.
    void run_at(uint64_t now);
    static constexpr uint64_t kNever = ~uint64_t{0};
    // Delivers the event of a completion queue: now, or when it becomes visible.
    void deliver_cq_event(uint32_t number);
    // Held while queue pairs run; taken to destroy a queue pair.
    std::mutex& run_mutex() { return run_mutex_; }

  private:
    enum class Kind : uint8_t { kQueuePair, kCompletionEvent };
    struct Task {
        uint64_t due;
        Kind kind;
        uint32_t number;
        bool operator>(const Task& other) const { return due > other.due; }
    };

    void set_phase(int phase) {
        phase_.store(phase, std::memory_order_release);
        phase_.notify_all();
    }
    void schedule(const Task& task);
    void note_virtual(const Task& task);
    void run_due(uint64_t now);
    void run_task(const Task& task, uint64_t now);
    void handle_notices();
    void handle_cq(uint32_t index);
    void handle_qp(uint32_t index);
    void handle_srq(uint32_t index);
    void check_ports();
    void sleep(uint32_t seen_doorbell);
    void wait_for_doorbell(uint32_t seen_doorbell, uint64_t ns);

    Adapter& adapter_;
    std::atomic<int> phase_{0};
    std::mutex run_mutex_;
    std::mutex tasks_mutex_;
    std::priority_queue<Task, std::vector<Task>, std::greater<>> tasks_;
    std::atomic<uint64_t> next_due_{kNever};
    std::atomic<uint64_t> sleeping_until_{0};
    std::atomic<uint32_t> progress_calls_{0};  // calls of progress() that can run tasks; roughly
    uint32_t progress_calls_seen_ = 0;
    // In virtual time:
    uint32_t doorbell_seen_ = 0;
    uint64_t ports_seen_ = 0;
    uint64_t fatal_seen_ = 0;
};

}  // namespace softhca
