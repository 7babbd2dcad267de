// SPDX-License-Identifier: BSD-3-Clause
// Interfaces that sleep, and threads with interfaces of their own.
#pragma once

#include <poll.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "traffic.h"

namespace uct_test {

inline constexpr unsigned kBoth = UCT_EVENT_RECV | UCT_EVENT_SEND_COMP;

inline int event_fd(Entity& entity) {
    int fd = -1;
    check(uct_iface_event_fd_get(entity.iface(), &fd), "uct_iface_event_fd_get");
    return fd;
}

inline bool wakes(int fd, milliseconds limit) {
    pollfd it{fd, POLLIN, 0};
    return ::poll(&it, 1, static_cast<int>(limit.count())) == 1;
}

// Progresses, arms and sleeps, as applications do, until `condition` holds. False if nothing wakes
// the interface in time.
inline bool sleep_until(Entity& entity, int fd, const std::function<bool()>& condition,
                        unsigned events = kBoth, milliseconds limit = deadline()) {
    const auto end = Clock::now() + 3 * limit;
    while (true) {
        for (int i = 0; i < 64 && entity.progress() != 0; ++i) {
        }
        if (condition()) return true;
        if (Clock::now() > end) return false;
        const ucs_status_t status = uct_iface_event_arm(entity.iface(), events);
        if (status == UCS_ERR_BUSY) {
            sched_yield();
            continue;
        }
        check(status, "uct_iface_event_arm");
        if (!wakes(fd, limit)) return false;
    }
}

// A thread that runs `body` on an interface of its own. `body` returns when its second argument
// becomes true.
class Background {
  public:
    explicit Background(const std::function<void(Entity&, const std::atomic<bool>&)>& body)
        : thread_([this, body] {
              Entity entity;
              address_ = entity.address();
              ready_ = true;
              body(entity, stop_);
          }) {
        while (!ready_) sched_yield();
    }
    ~Background() { finish(); }

    const Address& address() const { return address_; }
    // Tells the thread to end, which does not wake it.
    void stop() { stop_ = true; }
    void finish() {
        stop();
        if (thread_.joinable()) thread_.join();
    }

  private:
    std::atomic<bool> stop_ = false, ready_ = false;
    Address address_;
    std::thread thread_;
};

}  // namespace uct_test
