// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/ucp_hooks.h"

#include <dlfcn.h>
#include <ucs/async/async_fwd.h>
#include <uct/api/uct.h>

#include <cstdint>
#include <deque>
#include <unordered_map>

namespace bench::sim {

uint64_t copied = 0;

namespace {

uint64_t counted = 0;  // active messages that the transports have handed to UCP

template <typename Function>
Function* next(Function*, const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

struct Handler {
    uct_am_callback_t function;
    void* argument;
};
std::deque<Handler> handlers;  // UCX keeps pointers to them

ucs_status_t count(void* argument, void* data, size_t length, unsigned flags) {
    ++counted;
    const auto* handler = static_cast<const Handler*>(argument);
    return handler->function(handler->argument, data, length, flags);
}

std::unordered_map<uct_iface_h, uct_ep_am_bcopy_func_t> copies;  // the interfaces' own functions

ssize_t copy(uct_ep_h endpoint, uint8_t id, uct_pack_callback_t pack, void* argument,
             unsigned flags) {
    const ssize_t sent = copies.at(endpoint->iface)(endpoint, id, pack, argument, flags);
    if (sent >= 0) ++copied;
    return sent;
}

}  // namespace

unsigned poll_worker(ucp_worker_h worker, Machine& machine, const TransportCosts& costs) {
    const uint64_t polls = machine.polls();
    const uint64_t before = counted;
    const uint64_t copied_before = copied;
    machine.spend(ns_of(costs.poll + kUcp.progress));
    const unsigned done = ucp_worker_progress(worker);
    if (machine.polls() != polls) machine.spend(ns_of(costs.full_poll - costs.poll));
    machine.spend(costs.copied_ns(copied - copied_before));
    const uint64_t messages = counted - before;
    machine.spend(ns_of(costs.receive.of(messages) + static_cast<double>(messages) * kUcp.message));
    return done;
}

}  // namespace bench::sim

using namespace bench::sim;
// Exported, so that the libraries call these and not the libraries' own.
#define REPLACED extern "C" __attribute__((visibility("default")))
#define NEXT(name) static const auto real = next(&name, #name)

// UCP's worker has a thread for its timers and events, whatever the settings say. Instead, they are
// looked at whenever the worker is progressed.
REPLACED ucs_status_t ucs_async_context_init(ucs_async_context_t* async, ucs_async_mode_t) {
    NEXT(ucs_async_context_init);
    return real(async, UCS_ASYNC_MODE_POLL);
}
// A worker of UCT has no such thread either.
REPLACED ucs_status_t ucs_async_context_create(ucs_async_mode_t, ucs_async_context_t** async) {
    NEXT(ucs_async_context_create);
    return real(UCS_ASYNC_MODE_POLL, async);
}
// What is not a worker's: UCX's registration cache frees memory by it that a program has unmapped
// while the cache was in use.
REPLACED ucs_status_t ucs_async_set_event_handler(ucs_async_mode_t mode, int fd,
                                                  ucs_event_set_types_t events,
                                                  ucs_async_event_cb_t handler, void* argument,
                                                  ucs_async_context_t* async) {
    NEXT(ucs_async_set_event_handler);
    if (mode != UCS_ASYNC_MODE_POLL || add_timer(fd, handler, argument)) return UCS_OK;
    return real(mode, fd, events, handler, argument, async);
}

// Tern looks whether the one who receives messages is UCP.
REPLACED int dladdr(const void* address, Dl_info* info) noexcept {
    NEXT(dladdr);
    const bool counts = address == reinterpret_cast<void*>(count) && !handlers.empty();
    return real(counts ? reinterpret_cast<void*>(handlers.front().function) : address, info);
}

REPLACED ucs_status_t uct_iface_set_am_handler(uct_iface_h iface, uint8_t id,
                                               uct_am_callback_t function, void* argument,
                                               uint32_t flags) {
    NEXT(uct_iface_set_am_handler);
    if (function == nullptr) return real(iface, id, function, argument, flags);
    return real(iface, id, count, &handlers.emplace_back(Handler{function, argument}), flags);
}

REPLACED ucs_status_t uct_iface_open(uct_md_h domain, uct_worker_h worker,
                                     const uct_iface_params_t* parameters,
                                     const uct_iface_config_t* config, uct_iface_h* iface) {
    NEXT(uct_iface_open);
    const ucs_status_t status = real(domain, worker, parameters, config, iface);
    if (status != UCS_OK) return status;
    auto& usual = (*iface)->ops.ep_am_bcopy;
    copies[*iface] = usual;
    usual = copy;
    return status;
}
