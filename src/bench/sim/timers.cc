// SPDX-License-Identifier: BSD-3-Clause
// Timers in virtual time, whose handlers UCX's asynchronous thread would call: others belong to
// whoever waits for their descriptors, in real time.
#include <dlfcn.h>
#include <sys/timerfd.h>
#include <ucs/sys/event_set.h>

#include <algorithm>
#include <ctime>
#include <vector>

#include "bench/sim/machine.h"
#include "bench/sim/ucp_hooks.h"

namespace bench::sim {
namespace {

struct Timer {
    int fd;
    const void* owner;
    ucs_async_event_cb_t handler = nullptr;
    void* argument = nullptr;
    uint64_t period = 0;  // 0: it does not run
    uint64_t due = 0;
};

const void* owner_of_new = nullptr;
std::vector<Timer> timers;

Timer* find(int fd) {
    const auto found = std::ranges::find(timers, fd, &Timer::fd);
    return found != timers.end() ? &*found : nullptr;
}

uint64_t nanoseconds(const timespec& time) {
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

}  // namespace

void own_timers(const void* owner) {
    owner_of_new = owner;
}

bool add_timer(int fd, ucs_async_event_cb_t handler, void* argument) {
    Timer* const timer = find(fd);
    if (timer == nullptr) return false;
    timer->handler = handler;
    timer->argument = argument;
    return true;
}

void run_timers(Machine& machine, const void* owner, uint64_t until) {
    for (size_t i = 0; i < timers.size(); ++i) {
        if (timers[i].owner != owner) continue;
        while (timers[i].period != 0 && timers[i].due <= until) {
            machine.set(std::max(machine.now(), timers[i].due));
            timers[i].due += timers[i].period;
            timers[i].handler(timers[i].fd, UCS_EVENT_SET_EVREAD, timers[i].argument);
        }
    }
}

}  // namespace bench::sim

using namespace bench::sim;

extern "C" __attribute__((visibility("default"))) int timerfd_create(clockid_t clock,
                                                                     int flags) noexcept {
    static const auto real =
        reinterpret_cast<int (*)(clockid_t, int)>(::dlsym(RTLD_NEXT, "timerfd_create"));
    const int fd = real(clock, flags);
    std::erase_if(timers, [fd](const Timer& timer) { return timer.fd == fd; });
    if (fd >= 0) timers.push_back({.fd = fd, .owner = owner_of_new});
    return fd;
}

extern "C" __attribute__((visibility("default"))) int timerfd_settime(int fd, int flags,
                                                                      const itimerspec* time,
                                                                      itimerspec* before) noexcept {
    static const auto real = reinterpret_cast<int (*)(int, int, const itimerspec*, itimerspec*)>(
        ::dlsym(RTLD_NEXT, "timerfd_settime"));
    Timer* const timer = find(fd);
    if (timer == nullptr || timer->handler == nullptr) return real(fd, flags, time, before);
    timespec now{};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    timer->period = nanoseconds(time->it_interval);
    timer->due = nanoseconds(now) + timer->period;
    return 0;
}
