// SPDX-License-Identifier: BSD-3-Clause
#include "job.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <list>

namespace job {

void fail(const char* file, int line, const char* what) {
    std::fprintf(stderr, "%s:%d: node %d: %s\n", file, line, rwapi_rank(), what);
    std::fflush(nullptr);
    _exit(1);
}

void send(int node, const Small& message, rwapi_context* context) {
    rwapi_small small;
    static_assert(sizeof small == sizeof message);
    std::memcpy(&small, &message, sizeof small);
    int error;
    while ((error = rwapi_context_send(context, node, &small)) == RWAPI_ERR_AGAIN)
        CHECK(rwapi_progress(context) >= 0);
    CHECK_OK(error);
}

bool try_receive(uint32_t type, int* node, Small* message, rwapi_context* context) {
    struct Early {
        rwapi_context* context;
        int node;
        Small message;
    };
    static std::list<Early> early;
    const auto fits = [=](const Early& each) {
        return each.context == context && each.message.type == type &&
               (*node == kAny || each.node == *node);
    };
    rwapi_small small;
    Early latest{context, 0, {}};
    const int got = rwapi_context_receive(context, &latest.node, &small);
    CHECK(got >= 0);
    if (got == 1) {
        std::memcpy(&latest.message, &small, sizeof small);
        early.push_back(latest);
    }
    const auto found = std::find_if(early.begin(), early.end(), fits);
    if (found == early.end()) return false;
    *node = found->node;
    *message = found->message;
    early.erase(found);
    return true;
}

Small receive(int node, uint32_t type, rwapi_context* context) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(kLimit);
    Small message;
    while (!try_receive(type, &node, &message, context)) {
        CHECK(std::chrono::steady_clock::now() < end);
        sched_yield();
    }
    return message;
}

void barrier(rwapi_context* context) {
    constexpr uint32_t kType = 0xba221e2;
    if (rank() == 0) {
        for (int node = 1; node < size(); ++node) receive(node, kType, context);
        for (int node = 1; node < size(); ++node) send(node, {kType, 0, 0}, context);
    } else {
        send(0, {kType, 0, 0}, context);
        receive(0, kType, context);
    }
}

std::vector<rwapi_net> exchange(const rwapi_net& mine, rwapi_context* context) {
    constexpr uint32_t kType = 0xadd2e55;
    std::vector<rwapi_net> nets(static_cast<size_t>(size()), mine);
    for (int node = 0; node < size(); ++node) {
        for (uint32_t i = 0; node != rank() && i < 2; ++i)
            send(node, {kType, i, mine.word[i]}, context);
    }
    for (int node = 0; node < size(); ++node) {
        for (uint32_t i = 0; node != rank() && i < 2; ++i)
            nets[static_cast<size_t>(node)].word[i] = receive(node, kType, context).word;
    }
    CHECK_OK(rwapi_barrier(context));  // until then, this process sends
    return nets;
}

Shared allocate(size_t bytes) {
    rwapi_net mine;
    Shared shared;
    shared.memory = static_cast<std::byte*>(rwapi_alloc(bytes, &mine));
    CHECK(shared.memory != nullptr);
    shared.nets = exchange(mine, nullptr);
    return shared;
}

std::vector<rwapi_net> share(void* memory, size_t bytes, int rights, rwapi_net* mine,
                             rwapi_context* context) {
    CHECK_OK(rwapi_register(context, memory, bytes, rights, mine));
    std::vector<rwapi_net> nets = exchange(*mine, context);
    for (const rwapi_net& net : nets) {
        rwapi_id id = 0;
        CHECK_OK(rwapi_put(context, net, 0, nullptr, 0, &id));
        wait(id, context);
    }
    barrier(context);  // until then, this process answers
    return nets;
}

void wait(rwapi_id id, rwapi_context* context) {
    CHECK(id >= 0);
    CHECK_OK(rwapi_wait(context, id, kLimit));
}

void flush(int node) {
    rwapi_id id;
    int error;
    while ((error = rwapi_flush(nullptr, node, &id)) == RWAPI_ERR_AGAIN)
        CHECK(rwapi_progress(nullptr) >= 0);
    CHECK_OK(error);
    wait(id);
}

int flushed(int node) {
    rwapi_id id;
    const int error = rwapi_flush(nullptr, node, &id);
    return error == 0 ? rwapi_wait(nullptr, id, kLimit) : error;
}

void fill(std::byte* memory, size_t length, uint64_t seed) {
    for (size_t i = 0; i < length; ++i) memory[i] = static_cast<std::byte>(seed * 31 + i * 7);
}

bool matches(const std::byte* memory, size_t length, uint64_t seed) {
    for (size_t i = 0; i < length; ++i) {
        if (memory[i] != static_cast<std::byte>(seed * 31 + i * 7)) return false;
    }
    return true;
}

uint64_t seed() {
    const char* given = std::getenv("TERN_TEST_SEED");
    if (given != nullptr) return std::strtoull(given, nullptr, 0);
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

uint64_t common_seed() {
    constexpr uint32_t kType = 0x5eed;
    if (rank() != 0) {
        const uint64_t common = receive(0, kType).word;
        barrier();
        return common;
    }
    const uint64_t common = seed();
    std::printf("# TERN_TEST_SEED=%llu\n", static_cast<unsigned long long>(common));
    std::fflush(stdout);
    for (int node = 1; node < size(); ++node) send(node, {kType, 0, common});
    barrier();
    return common;
}

}  // namespace job

// rwapi-job: lists the cases. rwapi-job CASE...: runs them, in one job.
int main(int argc, char** argv) {
    std::vector<job::Case> all;
    for (const auto* list :
         {&job::paper_cases, &job::notify_cases, &job::wrong_cases, &job::error_cases,
          &job::traffic_cases, &job::life_cases, &job::context_cases, &job::polled_cases,
          &job::list_cases, &job::order_cases, &job::repeat_cases, &job::wait_cases,
          &job::wake_cases})
        all.insert(all.end(), list->begin(), list->end());
    if (argc < 2) {
        for (const job::Case& each : all) std::puts(each.name);
        return 0;
    }
    for (const job::Case& each : all) {
        if (std::string(argv[1]) != each.name) continue;
        rwapi_params params{};
        params.size = sizeof params;
        params.full = each.full;
        const int error =
            each.full == RWAPI_FULL_WAIT ? rwapi_init(&argc, &argv) : rwapi_init_params(&params);
        if (error != 0) {
            std::fprintf(stderr, "rwapi_init: %s\n", rwapi_strerror(error));
            return 1;
        }
        each.run();
        // A case may end with its context.
        const int ended = rwapi_finalize();
        if (ended == 0 || ended == RWAPI_ERR_STATE) return 0;
        std::fprintf(stderr, "rwapi_finalize: %s\n", rwapi_strerror(ended));
        return 1;
    }
    std::fprintf(stderr, "%s: there is no such case\n", argv[1]);
    return 2;
}
