// SPDX-License-Identifier: BSD-3-Clause
#include "bench/replay/alone.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sys/types.h>
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include <cerrno>
#include <deque>

#include "bench/sim/costs.h"

namespace bench::replay {
namespace {

bool may_start = true;
uint64_t counted = 0;

template <typename Function>
Function* next(Function*, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// The same numbers in each run.
uint64_t random_number() {
    static uint64_t state = 0;
    state = state * 6364136223846793005 + 1442695040888963407;
    return state >> 16;
}

struct Handler {
    uct_am_callback_t function;
    void* argument;
};

ucs_status_t count(void* argument, void* data, size_t length, unsigned flags) {
    ++counted;
    const auto* handler = static_cast<const Handler*>(argument);
    return handler->function(handler->argument, data, length, flags);
}

}  // namespace

void let_threads_start(bool let) {
    may_start = let;
}
uint64_t messages_received() {
    return counted;
}

}  // namespace bench::replay

using namespace bench::replay;
// Exported, so that the libraries call these and not the libraries' own.
#define REPLACED extern "C" __attribute__((visibility("default")))
#define NEXT(name) static const auto real = next(&name, #name)

// Without threads Tern watches memory by hooks, and cleans up in the calls of the program.
REPLACED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                            void* (*body)(void*), void* argument) noexcept {
    NEXT(pthread_create);
    return may_start ? real(thread, attributes, body, argument) : EAGAIN;
}

// UCP's worker has a thread for its timers and events, whatever the settings say. Instead, they are
// looked at whenever the worker is progressed.
REPLACED ucs_status_t ucs_async_context_init(ucs_async_context_t* async, ucs_async_mode_t) {
    NEXT(ucs_async_context_init);
    return real(async, UCS_ASYNC_MODE_POLL);
}
// What is not a worker's: UCX's registration cache frees memory by it that a program has unmapped
// while the cache was in use.
REPLACED ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t mode, int fd,
                                                  ucs_event_set_types_t events,
                                                  ucs_async_event_cb_t handler, void* argument,
                                                  ucs_async_context_t* async) {
    NEXT(ucs_async_set_event_handler);
    if (mode != UCS_ASYNC_MODE_POLL) return UCS_OK;
    return real(mode, fd, events, handler, argument, async);
}

// Of two workers that connect to each other, the numbers say whose connection is kept.
REPLACED uint64_t ucs_generate_uuid(uint64_t) {
    return random_number();
}
REPLACED int rand_r(unsigned*) noexcept {
    return static_cast<int>(random_number() & 0x7fffffff);
}
REPLACED ssize_t getrandom(void* to, size_t size, unsigned) {
    for (size_t i = 0; i < size; ++i)
        static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(random_number());
    return static_cast<ssize_t>(size);
}
// std::random_device::_M_getval().
REPLACED unsigned _ZNSt13random_device9_M_getvalEv(void*) {  // NOLINT
    return static_cast<unsigned>(random_number());
}

// UCX measures it.
REPLACED double ucs_get_cpu_clocks_per_sec() {
    return bench::sim::kGigahertz * 1e9;
}

REPLACED ucs_status_t uct_iface_set_am_handler(uct_iface_h iface, uint8_t id,
                                               uct_am_callback_t function, void* argument,
                                               uint32_t flags) {
    NEXT(uct_iface_set_am_handler);
    if (function == nullptr) return real(iface, id, function, argument, flags);
    static std::deque<Handler> handlers;  // UCX keeps pointers to them
    return real(iface, id, count, &handlers.emplace_back(Handler{function, argument}), flags);
}
