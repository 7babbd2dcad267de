// SPDX-License-Identifier: BSD-3-Clause

// Waits that sleep (RWAPI_WAIT_SLEEP).

#include <poll.h>

#include <algorithm>

#include "rwapi/api/context.h"

namespace rwapi {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr int64_t kWithoutEvents = 1000;  // microseconds, over a transport that has no descriptor

}  // namespace

Sleeper::~Sleeper() {
    if (!watches_) return;
    {
        const std::lock_guard guard(context_.mutex);
        context_.watched = false;
    }
    context_.changed.notify_all();  // one of them watches from now on
}

int Sleeper::sleep(int64_t most, const Ready& ready) {
    most = std::min(most, kLongest);
    std::unique_lock lock(context_.mutex, std::defer_lock);
    if (!context_.multiple) return watch(most, ready, lock);
    lock.lock();
    const Clock::time_point end = Clock::now() + microseconds(most);
    while (context_.watched && !watches_) {
        if (const int result = call_alive(context_, ready)) return result;
        const Clock::time_point now = Clock::now();
        if (now >= end) return 0;
        context_.changed.wait_until(lock, std::min(end, now + microseconds(look_)));
    }
    context_.watched = watches_ = true;
    return watch(most, ready, lock);
}

int Sleeper::watch(int64_t most, const Ready& ready, std::unique_lock<std::mutex>& lock) {
    int result = call_alive(context_, ready);
    if (result != 0) return result;
    int fd = -1;
    int64_t look = std::min(look_, kWithoutEvents);
    const int armed = call_alive(context_, [&](Engine& engine) {
        fd = engine.event_fd();
        return fd >= 0 ? engine.arm() : static_cast<int>(RWAPI_ERR_UNSUPPORTED);
    });
    if (armed == RWAPI_ERR_BUSY) {  // the others need the lock, and peers the processor
        if (lock.owns_lock()) lock.unlock();
        sched_yield();
        return 0;
    }
    if (armed == RWAPI_OK)
        look = look_;
    else if (armed != RWAPI_ERR_UNSUPPORTED)
        return armed;
    // What this and other threads have handled so far. What others handle from now on wakes this
    // thread, because the descriptor is armed.
    context_.changed.notify_all();
    const Clock::time_point end = Clock::now() + microseconds(most);
    for (Clock::duration left = microseconds(most); left.count() > 0; left = end - Clock::now()) {
        const auto pause = std::min<Clock::duration>(left, microseconds(look));
        const timespec time{pause.count() / 1'000'000'000, pause.count() % 1'000'000'000};
        pollfd entry{fd, POLLIN, 0};
        if (lock.owns_lock()) lock.unlock();
        const int events = ppoll(&entry, 1, &time, nullptr);
        if (context_.multiple) lock.lock();
        result = call_alive(context_, ready);
        if (events != 0 || result != 0) break;
    }
    return result;
}

}  // namespace rwapi
