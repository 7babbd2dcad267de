// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sched.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>

#include "rwapi/engine/engine.h"
#include "rwapi/include/rwapi.h"

// The object behind the user's pointer. It remains when the context is destroyed, so that later
// calls return an error.
struct rwapi_context {
    bool multiple = false;    // RWAPI_THREAD_MULTIPLE
    bool sleeps = false;      // RWAPI_WAIT_SLEEP
    bool says_again = false;  // RWAPI_FULL_AGAIN
    std::mutex mutex;
    std::unique_ptr<rwapi::Engine> engine;  // null: destroyed
    rwapi::Engine* unlocked = nullptr;      // the same, if calls need no lock
    // Sleeper, with several threads:
    bool watched = false;             // a thread watches the descriptor
    std::condition_variable changed;  // for the others, which wait for that thread
};

namespace rwapi {

// The context of rwapi_init; null before it, and after rwapi_finalize.
rwapi_context* default_context();

// Calls function(engine), and returns its result or an RWAPI_ERR_*. No exception leaves it.
template <class Function>
[[gnu::always_inline]] inline auto call(Engine& engine, Function& function)
    -> decltype(function(engine)) {
    try {
        return function(engine);
    } catch (const std::bad_alloc&) {
        return RWAPI_ERR_MEMORY;
    } catch (...) {
        return RWAPI_ERR_TRANSPORT;
    }
}

// call() for a context that may have been destroyed.
template <class Function>
auto call_alive(rwapi_context& context, Function&& function)
    -> decltype(function(std::declval<Engine&>())) {
    if (!context.engine) return RWAPI_ERR_STATE;
    return call(*context.engine, function);
}

// call_alive() under the context's lock.
template <class Function>
[[gnu::noinline]] auto call_locked(rwapi_context& context, Function& function)
    -> decltype(function(std::declval<Engine&>())) {
    const std::lock_guard lock(context.mutex);
    return call_alive(context, function);
}

// call_alive() for a user's context: only one with RWAPI_THREAD_MULTIPLE needs the lock.
template <class Function>
[[gnu::always_inline]] inline auto with(rwapi_context* context, Function function)
    -> decltype(function(std::declval<Engine&>())) {
    if (context == nullptr) context = default_context();
    if (context == nullptr) return RWAPI_ERR_STATE;
    if (context->unlocked != nullptr) [[likely]]
        return call(*context->unlocked, function);
    return call_locked(*context, function);
}

// Returns check(engine). If that is 0, makes progress and checks again.
template <class Check>
int test(rwapi_context* context, Check check) {
    return with(context, [&](Engine& engine) {
        const int first = check(engine);
        if (first != 0) return first;
        engine.progress();
        return check(engine);
    });
}

// Stores the id of an operation that has begun, unless id is null. Returns its error.
inline int store_id(rwapi_id begun, rwapi_id* id) {
    if (begun < 0) return static_cast<int>(begun);
    if (id != nullptr) *id = begun;
    return RWAPI_OK;
}

// How a thread sleeps in a wait. Of several threads that wait in one context, one watches the
// descriptor, until its wait is over; it tells the others when something may have happened. If
// each watched it, one could take away the event that was to wake another.
class Sleeper {
  public:
    using Ready = std::function<int(Engine&)>;
    static constexpr int64_t kLongest = 200'000;  // microseconds; then peers are to be probed

    // look: at most so many microseconds between two calls of `ready`, if no event comes.
    Sleeper(rwapi_context& context, int64_t look) : context_(context), look_(look) {}
    ~Sleeper();
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    // Sleeps until something has happened, for at most so many microseconds. Returns ready(engine).
    int sleep(int64_t most, const Ready& ready);
    // This thread has handled events, which may concern others.
    void tell_others() {
        if (watches_) context_.changed.notify_all();
    }

  private:
    int watch(int64_t most, const Ready& ready, std::unique_lock<std::mutex>& lock);

    rwapi_context& context_;
    const int64_t look_;
    bool watches_ = false;
};

// Makes progress until ready(engine) is not 0, and returns that, or RWAPI_ERR_TIMEOUT.
template <class Ready>
int wait_until(rwapi_context* context, int64_t timeout, Ready ready,
               int64_t look = Sleeper::kLongest) {
    using Clock = std::chrono::steady_clock;
    constexpr unsigned kSpins =
        1000;  // idle polls before the processor is yielded, or sleep begins
    constexpr unsigned kPollsPerClock = 32;
    if (context == nullptr) context = default_context();
    if (context == nullptr) return RWAPI_ERR_STATE;
    const Clock::time_point begin = timeout >= 0 ? Clock::now() : Clock::time_point();
    Sleeper sleeper(*context, look);
    // Of several threads, each poll yields the processor, which takes long on a busy machine.
    const unsigned spins = context->sleeps && context->multiple ? kSpins / 20 : kSpins;
    unsigned idle = 0;
    for (unsigned polls = 1;; ++polls) {
        unsigned events = 0;
        const int result = with(context, [&](Engine& engine) {
            const int before = ready(engine);
            if (before != 0) return before;
            events = engine.progress();
            return ready(engine);
        });
        if (result != 0) return result;
        idle = events != 0 ? 0 : idle + 1;
        if (events != 0) sleeper.tell_others();
        int64_t left = Sleeper::kLongest;
        if (timeout >= 0 && (timeout == 0 || polls % kPollsPerClock == 0 || idle > spins)) {
            left =
                timeout -
                std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
            if (left <= 0) return RWAPI_ERR_TIMEOUT;
        }
        if (idle > spins && context->sleeps) {
            if (const int woken = sleeper.sleep(left, std::ref(ready)); woken != 0) return woken;
        } else if (idle > spins || context->multiple) {
            // A thread that polls without a pause would keep the others from the lock.
            sched_yield();
        }
    }
}

// After begin(engine) has found a queue full: makes progress until there is room, unless the
// context is to return RWAPI_ERR_AGAIN.
template <class Begin>
[[gnu::noinline, gnu::cold]] auto wait_for_room(rwapi_context* context, Begin& begin)
    -> decltype(begin(std::declval<Engine&>())) {
    if (context == nullptr) context = default_context();
    if (context == nullptr) return RWAPI_ERR_STATE;
    if (context->says_again) return RWAPI_ERR_AGAIN;
    decltype(begin(std::declval<Engine&>())) begun = RWAPI_ERR_AGAIN;
    const int waited = wait_until(context, -1, [&](Engine& engine) {
        begun = begin(engine);
        return begun == RWAPI_ERR_AGAIN ? 0 : 1;
    });
    return waited < 0 ? waited : begun;
}

// As with(), for what may find a queue full.
template <class Begin>
auto with_room(rwapi_context* context, Begin begin) -> decltype(begin(std::declval<Engine&>())) {
    const auto begun = with(context, begin);
    return begun != RWAPI_ERR_AGAIN ? begun : wait_for_room(context, begin);
}

// As wait_until(), for a condition that any peer may fulfil.
template <class Ready>
int wait_for_peers(rwapi_context* context, int64_t timeout, Ready ready,
                   int64_t look = Sleeper::kLongest) {
    return wait_until(
        context, timeout,
        [=](Engine& engine) {
            const int result = ready(engine);
            return result != 0 ? result : engine.bereaved();
        },
        look);
}

// Stores what a test has found, if it is no error.
inline int answer(int result, int& found) {
    if (result >= 0) found = result;
    return result < 0 ? result : RWAPI_OK;
}

// The result of a wait for a condition.
inline int success_of(int result) {
    return result > 0 ? RWAPI_OK : result;
}

}  // namespace rwapi
