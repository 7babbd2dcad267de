// SPDX-License-Identifier: BSD-3-Clause

// Waits that sleep, and registrations that contexts share.

#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "job.h"

namespace job {
namespace {

int64_t microseconds_of(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

// Calls wait(), which takes at least so many microseconds, and returns its result. This thread must
// have used the processor for less than a third of that.
template <class Wait>
int asleep(int64_t least, Wait wait) {
    const int64_t begin = microseconds_of(CLOCK_MONOTONIC);
    const int64_t used = microseconds_of(CLOCK_THREAD_CPUTIME_ID);
    const int result = wait();
    CHECK(microseconds_of(CLOCK_MONOTONIC) - begin >= least);
    CHECK(microseconds_of(CLOCK_THREAD_CPUTIME_ID) - used < least / 3);
    return result;
}

// Every kind of wait sleeps, until what it waits for comes, or until its time is over.
void sleeping_waits() {
    constexpr int64_t kLong = 600'000;
    rwapi_params params{};
    params.size = sizeof params;
    params.wait = 2;
    rwapi_context* context = nullptr;
    CHECK_EQ(rwapi_context_create(&params, &context), RWAPI_ERR_INVALID);
    params.wait = RWAPI_WAIT_SLEEP;
    CHECK_OK(rwapi_context_create(&params, &context));
    std::vector<uint64_t> words(8), polled(8), source(8);
    rwapi_net own, own_polled;
    const auto regions = share(words.data(), 64, RWAPI_ALL, &own, context);
    const auto polled_of = share(polled.data(), 64, RWAPI_ALL | RWAPI_POLLED, &own_polled, context);
    const auto next = at((rank() + 1) % size());
    uint32_t slot;
    CHECK_EQ(asleep(kLong, [&] { return rwapi_notify_wait(context, 1, nullptr, kLong); }),
             RWAPI_ERR_TIMEOUT);
    CHECK_EQ(asleep(kLong, [&] { return rwapi_notify_waitsome(context, 1, 9, &slot, kLong); }),
             RWAPI_ERR_TIMEOUT);
    CHECK_EQ(asleep(kLong, [&] { return rwapi_signal_wait(context, words.data(), 1, kLong); }),
             RWAPI_ERR_TIMEOUT);
    CHECK_EQ(rwapi_notify_wait(context, 1, nullptr, 1), RWAPI_ERR_TIMEOUT);
    CHECK_EQ(rwapi_notify_wait(context, 1, nullptr, 0), RWAPI_ERR_TIMEOUT);
    // An operation that waits for its key, from a process that computes.
    uint64_t late_word = 0;
    rwapi_net late_net;
    CHECK_OK(rwapi_register(context, &late_word, 8, RWAPI_ALL, &late_net));
    const auto late_nets = exchange(late_net, context);
    if (rank() % 2 == 0 && size() > 1) {
        rwapi_id id = 0;
        CHECK_OK(rwapi_put(context, late_nets[next], 0, source.data(), 8, &id));
        const int64_t used = microseconds_of(CLOCK_THREAD_CPUTIME_ID);
        CHECK_OK(rwapi_wait(context, id, kLimit));
        CHECK(microseconds_of(CLOCK_THREAD_CPUTIME_ID) - used < kLong / 3);
    } else {
        usleep(kLong);
    }
    CHECK_OK(rwapi_barrier(context));
    // A chain: each process wakes the next one. The words of `source` are read later than here.
    for (uint64_t round = 1; round <= 15; ++round) {
        source[round % 8] = round;
        const auto to_next = [&] {
            const void* const from = &source[round % 8];
            switch (round % 5) {
                case 0:
                    return rwapi_put_notify(context, regions[next], 0, from, 8, 1, round, nullptr);
                case 1:
                    return rwapi_put_signal(context, regions[next], 8, from, 8, 16, round,
                                            RWAPI_SIGNAL_SET, nullptr);
                case 2:
                    return rwapi_put_signal(context, regions[next], 24, from, 8, 40, round,
                                            RWAPI_SIGNAL_SET, nullptr);
                case 3:
                    return rwapi_put_signal(context, polled_of[next], 0, from, 8, 8, round,
                                            RWAPI_SIGNAL_SET, nullptr);
                default:
                    return rwapi_put(context, regions[next], 32, from, 8, nullptr);
            }
        };
        const auto come = [&] {
            switch (round % 5) {
                case 0:
                    return rwapi_notify_wait(context, 1, nullptr, kLimit);
                case 1:
                    return rwapi_signal_wait(context, &words[2], round, kLimit);
                case 2:
                    return rwapi_signal_wait(context, &words[5], round, kLimit);
                case 3:
                    return rwapi_signal_wait(context, &polled[1], round, kLimit);
                default:
                    return rwapi_signal_wait(context, &words[4], round, kLimit);
            }
        };
        if (rank() == 0) {
            usleep(20'000);
            CHECK_OK(to_next());
        }
        CHECK_OK(come());
        CHECK(rwapi_notify_reset(context, 1, nullptr) >= 0);
        if (rank() != 0) CHECK_OK(to_next());
        rwapi_id ids[2] = {};
        CHECK_OK(rwapi_flush(context, static_cast<int>(next), &ids[0]));
        CHECK_OK(rwapi_flush_all(context, &ids[1]));
        size_t index;
        CHECK_OK(rwapi_wait_any(context, ids, 2, &index, kLimit));
        CHECK_OK(rwapi_wait_all(context, ids, 2, kLimit));
        CHECK_OK(rwapi_barrier(context));
    }
    // The first process comes late: to a barrier, then to the end.
    const auto late = [&](int (*call)(rwapi_context*)) {
        barrier();
        if (rank() == 0)
            usleep(kLong), CHECK_OK(call(context));
        else
            CHECK_OK(asleep(kLong / 2, [&] { return call(context); }));
    };
    late(rwapi_barrier);
    late(rwapi_context_destroy);
}

// Threads of one context sleep, each for its own slot. Two slots for each, because the partner can
// be one round ahead.
void sleeping_threads() {
    const Context sleeping({.threads = RWAPI_THREAD_MULTIPLE, .wait = RWAPI_WAIT_SLEEP});
    rwapi_context* const context = sleeping.get();
    constexpr uint32_t kThreads = 3;
    static std::byte memory[kThreads * 50'000];
    rwapi_net own;
    const int partner = rank() ^ 1;
    const rwapi_net theirs = share(memory, sizeof memory, RWAPI_ALL, &own, context)[at(partner)];
    std::vector<std::thread> workers;
    const uint64_t common = common_seed();
    // It watches the descriptor until the end, and tells the others of events; wake_cases.cc checks
    // each of these wake-ups.
    std::thread watcher([=] { CHECK_OK(rwapi_notify_wait(context, 101, nullptr, 2 * kLimit)); });
    usleep(100'000);
    for (uint32_t thread = 0; thread < kThreads; ++thread) {
        workers.emplace_back([=] {
            Random random(common + 10 * at(rank()) + thread);
            std::vector<std::byte> source(50'000);
            for (uint64_t round = 1; round <= 150; ++round) {
                if (random.below(3) == 0) usleep(15'000);  // longer than waits poll
                // Long ones fill the send queue.
                const size_t length = random.below(10) == 0 ? 50'000 : 8;
                rwapi_id id = 0;
                const uint32_t slot = 2 * thread + round % 2;
                CHECK_OK(rwapi_put_notify(context, theirs, thread * 50'000, source.data(), length,
                                          slot, round, &id));
                uint64_t value = 0;
                CHECK_OK(rwapi_notify_wait(context, slot, &value, kLimit));
                CHECK_EQ(value, round);
                CHECK_EQ(rwapi_notify_reset(context, slot, nullptr), 1);
                CHECK_OK(rwapi_wait(context, id, kLimit));
            }
            CHECK_EQ(rwapi_notify_wait(context, 100, nullptr, 1000), RWAPI_ERR_TIMEOUT);
        });
    }
    for (std::thread& worker : workers) worker.join();
    CHECK_OK(rwapi_put_notify(context, own, 0, nullptr, 0, 101, 1, nullptr));
    watcher.join();
    CHECK_EQ(asleep(500'000, [&] { return rwapi_notify_wait(context, 100, nullptr, 500'000); }),
             RWAPI_ERR_TIMEOUT);
    CHECK_OK(rwapi_barrier(context));
}

// The last process dies while the others sleep, with one thread and with two.
void killed_sleepers() {
    const Context one({.on_peer_death = RWAPI_DEATH_REPORT, .wait = RWAPI_WAIT_SLEEP});
    const Context two({.threads = RWAPI_THREAD_MULTIPLE,
                       .on_peer_death = RWAPI_DEATH_REPORT,
                       .wait = RWAPI_WAIT_SLEEP});
    const int victim = size() - 1;
    for (rwapi_context* context : {one.get(), two.get()}) {
        for (int node = 0; node < size(); ++node) send(node, {1, 0, 0}, context);
        for (int node = 0; node < size(); ++node) receive(node, 1, context);
    }
    barrier();
    if (rank() == victim) {
        usleep(300'000);
        kill(getpid(), SIGKILL);
    }
    std::vector<std::thread> waiting;
    for (const uint32_t slot : {6, 7}) {
        waiting.emplace_back([context = two.get(), slot] {
            const int result = rwapi_notify_wait(context, slot, nullptr, kLimit);
            CHECK_EQ(result, RWAPI_ERR_PEER);
        });
    }
    CHECK_EQ(rwapi_notify_wait(one.get(), 5, nullptr, kLimit), RWAPI_ERR_PEER);
    // It ends both of these, whichever thread sees it first.
    for (std::thread& each : waiting) each.join();
    for (int node = 0; node < victim; ++node) send(node, {3, 0, 0});
    for (int node = 0; node < victim; ++node) receive(node, 3);
}

// Contexts that register the same memory share its registration; the end of one leaves the other.
// rwapi_job.sh counts what is shared.
void shared_registration() {
    constexpr size_t kBytes = 1 << 20;
    const auto create = [] {
        rwapi_context* context = nullptr;
        CHECK_OK(rwapi_context_create(nullptr, &context));
        return context;
    };
    rwapi_context* const first = create();
    rwapi_context* const second = create();
    static std::byte memory[kBytes], source[kBytes];
    rwapi_net own[2], readable;
    const auto one = share(memory, kBytes, RWAPI_ALL, &own[0], first);
    const auto other = share(memory, kBytes, RWAPI_ALL, &own[1], second);
    CHECK_OK(rwapi_register(second, memory, kBytes, RWAPI_READ, &readable));  // for another use
    const int next = (rank() + 1) % size();
    const auto write = [&](rwapi_context* context, const rwapi_net& net, uint64_t seed) {
        fill(source, kBytes, seed + at(rank()));
        rwapi_id id = 0;
        CHECK_OK(rwapi_put_notify(context, net, 0, source, kBytes, 1, seed, &id));
        wait(id, context);
        CHECK_OK(rwapi_notify_wait(context, 1, nullptr, kLimit));
        CHECK_EQ(rwapi_notify_reset(context, 1, nullptr), 1);
        CHECK(matches(memory, kBytes, seed + at((rank() + size() - 1) % size())));
        CHECK_OK(rwapi_barrier(context));
    };
    write(first, one[at(next)], 10);
    write(second, other[at(next)], 20);
    CHECK_OK(rwapi_deregister(first, own[0]));
    CHECK_OK(rwapi_barrier(first));
    CHECK_EQ(rwapi_put(first, own[0], 0, source, 8, nullptr), RWAPI_ERR_STALE);
    write(second, other[at(next)], 30);
    CHECK_OK(rwapi_context_destroy(first));
    write(second, other[at(next)], 40);
    // Threads with contexts of their own come and go with the same memory.
    std::vector<std::thread> workers;
    rwapi_context* const third = create();
    for (rwapi_context* context : {second, third}) {
        workers.emplace_back([context, next] {
            for (int round = 0; round < 100; ++round) {
                rwapi_net net;
                CHECK_OK(rwapi_register(context, memory, 4096, RWAPI_ALL, &net));
                rwapi_id id = 0;
                uint64_t got = 0;
                CHECK_OK(rwapi_get(context, net, 0, &got, 8, &id));
                wait(id, context);
                rwapi_small small{};
                CHECK_OK(rwapi_context_send(context, next, &small));
                int node;
                while (rwapi_context_receive(context, &node, &small) == 0) sched_yield();
                CHECK_OK(rwapi_deregister(context, net));
            }
        });
    }
    for (std::thread& worker : workers) worker.join();
    for (rwapi_context* context : {second, third}) CHECK_OK(rwapi_context_destroy(context));
}

}  // namespace

const std::vector<Case> wait_cases = {{"sleeping-waits", sleeping_waits},
                                      {"sleeping-threads", sleeping_threads},
                                      {"killed-sleepers", killed_sleepers},
                                      {"shared-registration", shared_registration}};

}  // namespace job
