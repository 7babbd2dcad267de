// SPDX-License-Identifier: BSD-3-Clause

// Threads and contexts of one process.

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <thread>

#include "job.h"

namespace job {
namespace {

// Several threads use one context.
void threads() {
    rwapi_params params{};
    params.size = sizeof params;
    params.threads = RWAPI_THREAD_MULTIPLE;
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(&params, &context));
    CHECK_EQ(rwapi_context_size(context), size());
    constexpr size_t kThreads = 3, kWords = 64;
    struct Memory {
        uint64_t data[kThreads][kWords];
        uint64_t signals[kThreads];
    };
    static Memory memory;
    // In pairs, so that a process knows that its partner has looked at what it wrote.
    rwapi_net own;
    const rwapi_net theirs =
        share(&memory, sizeof memory, RWAPI_ALL, &own, context)[at(rank() ^ 1)];
    std::vector<std::thread> workers;
    for (size_t thread = 0; thread < kThreads; ++thread) {
        workers.emplace_back([&, thread] {
            uint64_t source[kWords];
            for (uint64_t round = 1; round <= 100; ++round) {
                for (uint64_t& word : source) word = round * kThreads + thread;
                rwapi_id id;
                CHECK_OK(rwapi_put_signal(context, theirs,
                                          offsetof(Memory, data) + thread * sizeof source, source,
                                          sizeof source, offsetof(Memory, signals) + 8 * thread, 1,
                                          RWAPI_SIGNAL_ADD, &id));
                CHECK_OK(
                    rwapi_signal_wait(context, &memory.signals[thread], 2 * round - 1, kLimit));
                for (const uint64_t word : memory.data[thread])
                    CHECK_EQ(word, round * kThreads + thread);
                CHECK_OK(rwapi_wait(context, id, kLimit));
                // The partner may write again, as this process has seen its words.
                CHECK_OK(rwapi_put_signal(context, theirs, 0, nullptr, 0,
                                          offsetof(Memory, signals) + 8 * thread, 1,
                                          RWAPI_SIGNAL_ADD, nullptr));
                CHECK_OK(rwapi_signal_wait(context, &memory.signals[thread], 2 * round, kLimit));
            }
        });
    }
    for (std::thread& worker : workers) worker.join();
    rwapi_id id;
    CHECK_OK(rwapi_flush_all(context, &id));
    CHECK_OK(rwapi_wait(context, id, kLimit));
    // What is one context's is not another's.
    CHECK_EQ(rwapi_put(nullptr, theirs, 0, &memory, 8, nullptr), RWAPI_ERR_FOREIGN);
    CHECK_EQ(rwapi_deregister(nullptr, own), RWAPI_ERR_FOREIGN);
    CHECK_OK(rwapi_context_destroy(context));
    CHECK_EQ(rwapi_context_rank(context), RWAPI_ERR_STATE);
    CHECK_EQ(rwapi_progress(context), RWAPI_ERR_STATE);
}

// A thread sleeps, and another one of the same context makes progress for a while and leaves: what
// comes later wakes the sleeper all the same.
void sleeps_beside_a_thread() {
    using std::chrono::milliseconds;
    using std::chrono::steady_clock;
    rwapi_params params{};
    params.size = sizeof params;
    params.threads = RWAPI_THREAD_MULTIPLE;
    rwapi_context* context = nullptr;
    CHECK_OK(rwapi_context_create(&params, &context));
    const int partner = rank() ^ 1;
    // Until they are peers that talk much.
    for (uint32_t i = 0; i < 300; ++i) {
        send(partner, {1, i, 0}, context);
        receive(partner, 1, context);
    }
    if (rank() % 2 == 0) {
        int fd = -1;
        CHECK_OK(rwapi_event_fd(context, &fd));
        std::thread beside([context] {
            const auto end = steady_clock::now() + milliseconds(200);
            while (steady_clock::now() < end) CHECK(rwapi_progress(context) >= 0);
        });
        rwapi_small small;
        int node, got;
        while ((got = rwapi_context_receive(context, &node, &small)) == 0) {
            pollfd wake{fd, POLLIN, 0};
            if (rwapi_arm(context) == 0) CHECK_EQ(::poll(&wake, 1, kLimit / 1000), 1);
            while (rwapi_progress(context) > 0) continue;
        }
        CHECK_EQ(got, 1);
        beside.join();
        send(partner, {3, 0, 0}, context);
    } else {
        std::this_thread::sleep_for(milliseconds(500));
        send(partner, {2, 0, 0}, context);
        receive(partner, 3, context);
    }
    // A time limit without end.
    rwapi_id id;
    CHECK_OK(rwapi_flush_all(context, &id));
    CHECK_OK(rwapi_wait(context, id, INT64_MAX));
    CHECK_OK(rwapi_context_destroy(context));
}

// A context for each thread, at the same time.
void contexts() {
    constexpr int kThreads = 2;
    rwapi_context* own[kThreads];
    for (rwapi_context*& context : own) CHECK_OK(rwapi_context_create(nullptr, &context));
    std::vector<std::thread> workers;
    for (rwapi_context* context : own) {
        workers.emplace_back([context] {
            const int next = (rwapi_context_rank(context) + 1) % rwapi_context_size(context);
            for (uint32_t i = 0; i < 300; ++i) {
                const Small message{1, i, i};
                rwapi_small small;
                std::memcpy(&small, &message, sizeof small);
                CHECK_OK(rwapi_context_send(context, next, &small));
                int node, got;
                while ((got = rwapi_context_receive(context, &node, &small)) == 0) sched_yield();
                CHECK_EQ(got, 1);
                Small received;
                std::memcpy(&received, &small, sizeof received);
                CHECK_EQ(received.number, i);
            }
        });
    }
    for (std::thread& worker : workers) worker.join();
    for (rwapi_context* context : own) CHECK_OK(rwapi_context_destroy(context));
}

}  // namespace

const std::vector<Case> context_cases = {{"threads", threads},
                                         {"sleeps-beside-a-thread", sleeps_beside_a_thread},
                                         {"contexts", contexts}};

}  // namespace job
