// SPDX-License-Identifier: BSD-3-Clause
// A thread that waits for sockets and deadlines of connections. It starts with the first of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace softhca::cm {

class Watcher {
  public:
    using Clock = std::chrono::steady_clock;

    // Called by the thread.
    class Sink {
      public:
        virtual ~Sink() = default;
        virtual void readable(uint64_t key) = 0;
        virtual void expired(uint64_t key) = 0;
        // Held by the callers of all functions of the watcher, and by the thread during the above.
        virtual void lock() = 0;
        virtual void unlock() = 0;
    };

    explicit Watcher(Sink& sink) : sink_(sink) {}

    // Starts the thread, unless it runs. False with errno set if that is not possible.
    bool start();
    // Watches a socket until forget(). `key` names it for the sink, which may not know it any more
    // when it is told. False with errno set if that is not possible.
    bool watch(int fd, uint64_t key);
    void forget(int fd);

    // Replaces the deadline of a key.
    void set_deadline(uint64_t key, Clock::duration after);
    void clear_deadline(uint64_t key);

    // After a fork in the child, which has no thread: watches nothing.
    void reset();

  private:
    void run();
    void arm_timer();
    void expire();
    static void* thread_main(void* watcher);

    Sink& sink_;
    int epoll_ = -1;
    int timer_ = -1;
    std::set<std::pair<Clock::time_point, uint64_t>> deadlines_;
    std::map<uint64_t, Clock::time_point> deadline_of_;
};

}  // namespace softhca::cm
