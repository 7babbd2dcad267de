// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/api/context.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <vector>

namespace rwapi {
namespace {

// Defaults and limits of rwapi_params; rwapi.h names them.
constexpr uint32_t kDefaultSlots = 1024, kMaxSlots = 1u << 20;
constexpr uint32_t kDefaultOperations = 1024, kMaxOperations = 1u << 20;
constexpr uint32_t kMinOperations = 2;  // a flush of all peers, and one of its parts
constexpr uint32_t kDefaultCredit = 64, kMaxCredit = 1u << 15;

// The context of rwapi_init.
std::atomic<rwapi_context*> default_context_pointer{nullptr};

// All contexts of the process, also destroyed ones, whose pointers the user may still pass. They
// are not destroyed at exit(), because a child of fork, which must not use the parent's engines,
// may call exit().
struct Contexts {
    std::mutex mutex;
    std::vector<std::unique_ptr<rwapi_context>> list;
    IdRanges ids;
};

Contexts& contexts() {
    static Contexts& all = *new Contexts;
    return all;
}

// A parameter of the user, or its default if the user has given 0.
int choose(uint32_t given, uint32_t fallback, uint32_t most, uint32_t& chosen) {
    if (given > most) return RWAPI_ERR_INVALID;
    chosen = given != 0 ? given : fallback;
    return RWAPI_OK;
}

int create(const rwapi_params* given, rwapi_context*& created) {
    rwapi_params params{};
    if (given != nullptr) {
        // A program of another version may have another size: the members that it lacks are 0.
        if (given->size < offsetof(rwapi_params, threads)) return RWAPI_ERR_INVALID;
        std::memcpy(&params, given, std::min(given->size, sizeof params));
    }
    EngineSettings settings{};
    settings.threads = params.threads;
    if (params.threads != RWAPI_THREAD_SINGLE && params.threads != RWAPI_THREAD_MULTIPLE)
        return RWAPI_ERR_INVALID;
    settings.on_peer_death = params.on_peer_death;
    if (params.on_peer_death != RWAPI_DEATH_GO_ON && params.on_peer_death != RWAPI_DEATH_REPORT)
        return RWAPI_ERR_INVALID;
    if (params.wait != RWAPI_WAIT_POLL && params.wait != RWAPI_WAIT_SLEEP) return RWAPI_ERR_INVALID;
    if (params.full != RWAPI_FULL_WAIT && params.full != RWAPI_FULL_AGAIN) return RWAPI_ERR_INVALID;
    if (choose(params.slots, kDefaultSlots, kMaxSlots, settings.slots) ||
        choose(params.operations, kDefaultOperations, kMaxOperations, settings.operations) ||
        choose(params.credit, kDefaultCredit, kMaxCredit, settings.credit))
        return RWAPI_ERR_INVALID;
    settings.operations = std::max(settings.operations, kMinOperations);
    int error = RWAPI_OK;
    std::unique_ptr<Bootstrap> bootstrap = make_bootstrap(params.bootstrap, error);
    if (!bootstrap) return error;
    auto context = std::make_unique<rwapi_context>();
    context->multiple = params.threads == RWAPI_THREAD_MULTIPLE;
    context->sleeps = params.wait == RWAPI_WAIT_SLEEP;
    context->says_again = params.full == RWAPI_FULL_AGAIN;
    context->engine = std::make_unique<Engine>(settings, contexts().ids, std::move(bootstrap));
    error = context->engine->open();
    if (error != RWAPI_OK) return error;
    if (!context->multiple) context->unlocked = context->engine.get();
    const std::lock_guard guard(contexts().mutex);
    contexts().list.push_back(std::move(context));
    created = contexts().list.back().get();
    return RWAPI_OK;
}

// Begins a gathering of addresses, or a barrier (null), and waits for it.
int gather(rwapi_context* context, const rwapi_net* own, rwapi_net* all) {
    const int error =
        with(context, [=](Engine& engine) { return engine.collectives().begin(own); });
    if (error != RWAPI_OK) return error;
    return success_of(
        wait_until(context, -1, [=](Engine& engine) { return engine.collectives().test(all); }));
}

}  // namespace

rwapi_context* default_context() {
    return default_context_pointer.load(std::memory_order_acquire);
}

}  // namespace rwapi

using namespace rwapi;

extern "C" {

int rwapi_context_create(const rwapi_params* params, rwapi_context** context) {
    if (context == nullptr) return RWAPI_ERR_INVALID;
    try {
        return create(params, *context);
    } catch (...) {
        return RWAPI_ERR_MEMORY;
    }
}

int rwapi_context_destroy(rwapi_context* context) {
    if (context == nullptr) return RWAPI_ERR_INVALID;
    if (context == default_context())
        default_context_pointer.store(nullptr, std::memory_order_release);
    const int result = with(context, [=](Engine& engine) { return engine.close(context->sleeps); });
    const std::lock_guard guard(context->mutex);
    if (!context->engine) return result;
    context->unlocked = nullptr;
    context->engine.reset();
    return result;
}

int rwapi_init(int*, char***) {
    return rwapi_init_params(nullptr);
}

int rwapi_init_params(const rwapi_params* params) {
    if (default_context() != nullptr) return RWAPI_ERR_STATE;
    rwapi_context* context = nullptr;
    const int error = rwapi_context_create(params, &context);
    if (error == RWAPI_OK) default_context_pointer.store(context, std::memory_order_release);
    return error;
}

int rwapi_finalize() {
    rwapi_context* const context = default_context();
    if (context == nullptr) return RWAPI_ERR_STATE;
    return rwapi_context_destroy(context);
}

int rwapi_context_size(rwapi_context* context) {
    return with(context, [](Engine& engine) { return static_cast<int>(engine.size()); });
}

int rwapi_context_rank(rwapi_context* context) {
    return with(context, [](Engine& engine) { return static_cast<int>(engine.rank()); });
}

int rwapi_share(rwapi_context* context, rwapi_net local, rwapi_net* peers) {
    if (peers == nullptr) return RWAPI_ERR_INVALID;
    return gather(context, &local, peers);
}

int rwapi_barrier(rwapi_context* context) {
    return gather(context, nullptr, nullptr);
}

}  // extern "C"
