// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/iface.h"

namespace tern {

namespace {

// Makes UCX's asynchronous thread call `handler` when `fd` is readable. Returns `fd`, or -1.
int handle(TernIface& iface, int fd, ucs_async_event_cb_t handler) {
    ucs_async_context_t* async = iface.super.worker->async;
    const ucs_status_t status = ucs_async_set_event_handler(async->mode, fd, UCS_EVENT_SET_EVREAD,
                                                            handler, iface.engine, async);
    if (status == UCS_OK) return fd;
    ucs_debug("tern: no background thread: %s", ucs_status_string(status));
    return -1;
}

// Packets are lost for which there is no memory: whoever waits for an answer asks again.
void answer(Engine& engine) try { engine.background().answer(); } catch (const std::bad_alloc&) {
    (void)no_memory("answer a peer");
}

void look(Engine& engine) try { engine.background().look(); } catch (const std::bad_alloc&) {
    (void)no_memory("look at what has come");
}

// Messages of a stream may wait for each other, because somebody posts them in time.
void start_batches(TernIface& iface, int& batches) {
    const int timer = iface.engine->background().batches().enable();
    if (timer < 0) return;
    batches = handle(iface, timer, [](int, ucs_event_set_types_t, void* engine) {
        static_cast<Engine*>(engine)->background().batches().on_timer();
    });
    if (batches < 0) iface.engine->background().batches().disable();
}

}  // namespace

void start_background(TernIface& iface) {
    auto& [answers, looks, batches] = iface.background;
    answers = looks = batches = -1;
    ucs_async_context_t* async = iface.super.worker->async;
    if (async == nullptr) return;
    // A signal handler could interrupt code that holds a lock which the handler needs.
    if (async->mode != UCS_ASYNC_MODE_THREAD_SPINLOCK &&
        async->mode != UCS_ASYNC_MODE_THREAD_MUTEX) {
        if (iface.engine->settings().batch.poll) start_batches(iface, batches);
        return;
    }
    answers = handle(
        iface, iface.engine->background().fd(),
        [](int, ucs_event_set_types_t, void* engine) { answer(*static_cast<Engine*>(engine)); });
    if (answers < 0) return;
    answer(*iface.engine);
    looks = handle(
        iface, iface.engine->sleep()->watch_fd(),
        [](int, ucs_event_set_types_t, void* engine) { look(*static_cast<Engine*>(engine)); });
    if (looks >= 0) iface.engine->sleep()->use_watch_thread();
    start_batches(iface, batches);
}

void stop_background(TernIface& iface) {
    for (int& fd : iface.background) {
        if (fd >= 0) (void)ucs_async_remove_handler(fd, 1);
        fd = -1;
    }
    iface.engine->background().batches().disable();
}

}  // namespace tern
