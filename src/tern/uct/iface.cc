// SPDX-License-Identifier: BSD-3-Clause

// An interface: UCT's class of it and its table of functions; flushes and events.

#include "tern/uct/iface.h"

#include <unistd.h>

#include <new>

#include "tern/base/trace.h"
#include "tern/uct/compat.h"
#include "tern/uct/config.h"
#include "tern/uct/iface_state.h"

namespace {

ucs_status_t flush_status(TernIface& self) {
    // UCP's flush of a worker relies on this: it has to cover the pending queues of the endpoints.
    if (!tern::nothing_pending(self)) return UCS_INPROGRESS;
    if (!self.rendezvous->idle() || !self.matching->idle()) return UCS_INPROGRESS;
    return tern::to_ucs(self.engine->flushing()->flush_all());
}

// A flush comprises all calls up to the first that does not return UCS_INPROGRESS. That call
// reports what was lost meanwhile.
ucs_status_t iface_flush(uct_iface_h iface, unsigned, uct_completion_t* completion) try {
    if (completion != nullptr) return UCS_ERR_UNSUPPORTED;
    TernIface& self = tern::iface_of(iface);
    const ucs_status_t status = flush_status(self);
    if (status == UCS_INPROGRESS && !self.flushing) {
        self.flushing = true;
        self.lost = UCS_OK;
    }
    if (status != UCS_OK || !self.flushing) return status;
    self.flushing = false;
    return self.lost;
} catch (const std::bad_alloc&) {
    return tern::out_of_memory(iface);
}

ucs_status_t iface_event_fd_get(uct_iface_h iface, int* fd) try {
    std::string why;
    *fd = tern::iface_of(iface).engine->sleep()->event_fd(why);
    if (*fd >= 0) return UCS_OK;
    ucs_error("tern: %s", why.c_str());
    return UCS_ERR_IO_ERROR;
} catch (const std::bad_alloc&) {
    return tern::out_of_memory(iface);
}

ucs_status_t iface_event_arm(uct_iface_h iface, unsigned) try {
    const TernIface& self = tern::iface_of(iface);
    std::vector<tern::Watched> words;
    tern::Status status = self.rendezvous->arm(words);
    if (status == tern::Status::kOk) status = self.matching->arm();
    if (status == tern::Status::kOk) status = self.engine->sleep()->arm(words);
    return status == tern::Status::kInProgress ? UCS_ERR_BUSY : tern::to_ucs(status);
} catch (const std::bad_alloc&) {
    return tern::out_of_memory(iface);
}

// Called by UCX's thread for the file system, as for other transports: each number is read as it is
// at some moment of the call.
void show_counters(void* object, ucs_string_buffer_t* text, void*, uint64_t) try {
    const std::string line = static_cast<const TernIface*>(object)->state->counters_line();
    ucs_string_buffer_appendf(text, "%s", line.c_str());
} catch (const std::bad_alloc&) {
    (void)tern::no_memory("show the counters");
}

void show_endpoints(void* object, ucs_string_buffer_t* text, void*, uint64_t) {
    ucs_string_buffer_appendf(text, "%u\n", static_cast<const TernIface*>(object)->endpoint_count);
}

// What UCX's file system of a process (UCX_VFS_ENABLE) shows of an interface.
void iface_vfs_refresh(uct_iface_h uct_iface) {
    TernIface& iface = tern::iface_of(uct_iface);
    (void)ucs_vfs_obj_add_ro_file(&iface, show_counters, nullptr, 0, "counters");
    (void)ucs_vfs_obj_add_ro_file(&iface, show_endpoints, nullptr, 0, "endpoints");
}

}  // namespace

static UCS_CLASS_DECLARE_DELETE_FUNC(TernIface, uct_iface_t);

// The functions of an interface without tag matching; Matching::offer() replaces some and adds
// others.
static constinit auto iface_ops = tern::compat::padded(uct_iface_ops_t{
    .ep_put_short = tern::ep_put_short,
    .ep_put_bcopy = tern::ep_put_bcopy,
    .ep_put_zcopy = tern::ep_put_zcopy,
    .ep_get_bcopy = tern::ep_get_bcopy,
    .ep_get_zcopy = tern::ep_get_zcopy,
    .ep_am_short = tern::ep_am_short,
    .ep_am_short_iov = tern::ep_am_short_iov,
    .ep_am_bcopy = tern::ep_am_bcopy,
    .ep_am_zcopy = tern::ep_am_zcopy,
    .ep_atomic_cswap64 = tern::ep_atomic_cswap64,
    .ep_atomic_cswap32 = tern::stub<UCS_ERR_UNSUPPORTED>,
    .ep_atomic32_post = tern::stub<UCS_ERR_UNSUPPORTED>,
    .ep_atomic64_post = tern::ep_atomic64_post,
    .ep_atomic32_fetch = tern::stub<UCS_ERR_UNSUPPORTED>,
    .ep_atomic64_fetch = tern::ep_atomic64_fetch,
    .ep_pending_add = tern::ep_pending_add,
    .ep_pending_purge = tern::ep_pending_purge,
    .ep_flush = tern::ep_flush,
    .ep_fence = tern::ep_fence,
    .ep_check = tern::ep_check,
    .ep_create = UCS_CLASS_NEW_FUNC_NAME(TernEp),
    .ep_destroy = UCS_CLASS_DELETE_FUNC_NAME(TernEp),
    .iface_flush = iface_flush,
    .iface_fence = tern::iface_fence,
    .iface_progress_enable = uct_base_iface_progress_enable,
    .iface_progress_disable = uct_base_iface_progress_disable,
    .iface_progress = tern::iface_progress<TernIface>,
    .iface_event_fd_get = iface_event_fd_get,
    .iface_event_arm = iface_event_arm,
    .iface_close = UCS_CLASS_DELETE_FUNC_NAME(TernIface),
    .iface_query = tern::iface_query,
    .iface_get_device_address = tern::iface_get_device_address,
    .iface_get_address = tern::iface_get_address,
    .iface_is_reachable = tern::iface_is_reachable,
});

static constinit auto iface_internal_ops = [] {
    auto ops = tern::compat::internal_ops<tern::iface_is_reachable, tern::ep_is_connected>();
    ops.table.iface_estimate_perf = tern::iface_estimate_perf;
    ops.table.iface_vfs_refresh = iface_vfs_refresh;
    return ops;
}();

UCS_CLASS_INIT_FUNC(TernIface, uct_md_h md, uct_worker_h worker, const uct_iface_params_t* params,
                    const uct_iface_config_t* uct_config) {
    const auto& config = *reinterpret_cast<const tern::TernConfig*>(uct_config);
    UCT_CHECK_PARAM(params->field_mask & UCT_IFACE_PARAM_FIELD_OPEN_MODE,
                    "UCT_IFACE_PARAM_FIELD_OPEN_MODE is not set");
    if ((params->open_mode & UCT_IFACE_OPEN_MODE_DEVICE) == 0) return UCS_ERR_UNSUPPORTED;
    if (reinterpret_cast<uct_priv_worker_t*>(worker)->thread_mode == UCS_THREAD_MODE_MULTI) {
        ucs_error(
            "tern: a worker that several threads use at once is not supported; serialize them");
        return UCS_ERR_INVALID_PARAM;
    }
    if (!tern::valid_alignment(*params)) return UCS_ERR_INVALID_PARAM;
    UCS_CLASS_CALL_SUPER_INIT(uct_base_iface_t, &iface_ops.table, &iface_internal_ops.table, md,
                              worker, params,
                              uct_config UCS_STATS_ARG(nullptr) UCS_STATS_ARG("tern"));
    try {
        return tern::open_interface(*self, md, *params, config);
    } catch (const std::bad_alloc&) {
        return tern::no_memory("open an interface");
    }
}

static UCS_CLASS_CLEANUP_FUNC(TernIface) {
    TERN_DEBUG("%s: interface %p closes", self->state->device.c_str(), static_cast<void*>(self));
    tern::stop_background(*self);
    uct_base_iface_progress_disable(&self->super.super, UCT_PROGRESS_SEND | UCT_PROGRESS_RECV);
    try {
        TernIface::State& state = *self->state;
        if (!state.counters.empty() || state.explains) {
            const std::string line = state.counters_line();
            if (!state.counters.empty()) tern::append_counters(state.counters, line);
            if (!state.snapshot.empty()) (void)unlink(state.snapshot.c_str());
            self->engine->table().for_each([&state](tern::Connection& each) {
                state.tell_peer(static_cast<tern::Channel&>(each));
            });
            tern::explain_counters(line, *self->rendezvous);
        }
    } catch (const std::bad_alloc&) {
        (void)tern::no_memory("write the counters");
    }
    ucs_arbiter_cleanup(&self->arbiter);
    delete self->state;
}

UCS_CLASS_DEFINE(TernIface, uct_base_iface_t);
UCS_CLASS_DEFINE_NEW_FUNC(TernIface, uct_iface_t, uct_md_h, uct_worker_h, const uct_iface_params_t*,
                          const uct_iface_config_t*);
static UCS_CLASS_DEFINE_DELETE_FUNC(TernIface, uct_iface_t);

void TernIface::completed_rarely(void* cookie, tern::Status status) {
    if (tern::Rendezvous::is_cookie(cookie)) return rendezvous->done(cookie, status);
    if (tern::TupleQ::is_cookie(cookie)) return tupleq->done(cookie, status);
    complete(atomics->done(cookie, status == tern::Status::kOk), status);
}

namespace tern {

ucs_status_t no_memory(const char* what) {
    ucs_error(
        "tern: there is no memory to %s: raise the limit of the program's memory (ulimit -v, or "
        "its control group's)",
        what);
    return UCS_ERR_NO_MEMORY;
}

ucs_status_t out_of_memory(uct_iface_h uct_iface) noexcept {
    TernIface& iface = iface_of(uct_iface);
    try {
        iface.state->out_of_memory = true;
        iface.engine->break_down("memory is exhausted");
        iface.rendezvous->break_down();
    } catch (const std::bad_alloc&) {
        ucs_error("tern: there is no memory to end the interface either");
    }
    return UCS_ERR_NO_MEMORY;
}

}  // namespace tern
