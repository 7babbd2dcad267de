// SPDX-License-Identifier: BSD-3-Clause
#include "uct/iface.h"

namespace tern {

void start_background(TernIface& iface) {
    iface.background_fd = -1;
    ucs_async_context_t* async = iface.super.worker->async;
    // A signal handler could interrupt the very code that it would have to wait for.
    if (async == nullptr || (async->mode != UCS_ASYNC_MODE_THREAD_SPINLOCK &&
                             async->mode != UCS_ASYNC_MODE_THREAD_MUTEX))
        return;
    const int fd = iface.engine->background_fd();
    const ucs_status_t status = ucs_async_set_event_handler(
        async->mode, fd, UCS_EVENT_SET_EVREAD,
        [](int, ucs_event_set_types_t, void* engine) { static_cast<Engine*>(engine)->answer(); },
        iface.engine, async);
    if (status != UCS_OK) {
        ucs_debug("tern: no background thread: %s", ucs_status_string(status));
        return;
    }
    iface.background_fd = fd;
    iface.engine->answer();
}

void stop_background(TernIface& iface) {
    if (iface.background_fd >= 0) (void)ucs_async_remove_handler(iface.background_fd, 1);
    iface.background_fd = -1;
}

}  // namespace tern
