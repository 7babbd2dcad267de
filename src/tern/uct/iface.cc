// SPDX-License-Identifier: BSD-3-Clause

// An interface: creation, destruction, progress, events.

#include "tern/uct/iface.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "tern/base/trace.h"
#include "tern/connection/routes.h"
#include "tern/engine/engine.h"
#include "tern/uct/compat.h"
#include "tern/uct/config.h"
#include "tern/uct/explain.h"
#include "tern/uct/md.h"
#include "tern/uct/rma_post.h"
#include "tern/uct/send.h"
#include "tern/uct/stub.h"
#include "tern/uct/tag.h"

using tern::Engine;

// The members of an interface that have constructors.
struct TernIface::State final : tern::EngineOwner, tern::RendezvousOwner {
    // One of the interfaces of a memory domain.
    struct Counted {
        explicit Counted(std::atomic<uint32_t>& all)
            : count(all), number(1 + all.fetch_add(1, std::memory_order_relaxed)) {}
        ~Counted() { count.fetch_sub(1, std::memory_order_relaxed); }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;

        std::atomic<uint32_t>& count;
        const uint32_t number;
    };

    State(TernIface& owner, std::atomic<uint32_t>& all) : iface(owner), counted(all) {}

    void lost(const tern::PeerAddress& peer, tern::Status status, const std::string& why) override {
        if (status == tern::Status::kCanceled) return;
        ucs_log(failure_level(), "tern: %s: connection to %s: %s (%s)", device.c_str(),
                peer.to_string().c_str(), why.c_str(), ucs_status_string(tern::to_ucs(status)));
    }
    tern::Status ended(tern::Channel& channel, tern::Status status) override {
        if (rendezvous) status = rendezvous->ended(channel, status);
        if (tags) status = tags->ended(channel, status);
        tell_peer(channel);
        if (status != tern::Status::kOk) tern::note_loss(iface, status);
        return status;
    }
    void left(tern::Channel& channel) override {
        (void)rendezvous->ended(channel, tern::Status::kCanceled);
    }
    void connected(void* user) override { tern::pending_may_go(*static_cast<TernEp*>(user)); }
    void closed(void* user, tern::Status status) override {
        tern::ep_closed(*static_cast<TernEp*>(user), tern::to_ucs(status));
    }
    // With tag matching, messages that are announced wait for receives that the program posts, and
    // the engine does not know of them.
    bool may_end(const tern::Channel& channel) override {
        return !tags && std::ranges::none_of(channel.users, [](void* user) {
            const auto& ep = *static_cast<TernEp*>(user);
            return !ucs_arbiter_group_is_empty(const_cast<ucs_arbiter_group_t*>(&ep.pending)) ||
                   ep.fences != nullptr;
        });
    }
    void on_probe_timeout(void* user) override {
        auto& ep = *static_cast<TernEp*>(user);
        constexpr const char* kSilent = "it does not answer a probe";
        if (ep.failed != UCS_OK) return;
        // The endpoints of a channel are told when it ends, after their operations. One that has
        // come up since the probe began has shown that the peer lives. One that is over may end in
        // good order, which is no error: then this is told behind what has arrived.
        if (ep.channel != nullptr) {
            if (ep.channel->failed)
                (void)iface.engine->flushing()->check_peer(nullptr, ep.peer, &ep);
            else if (!ep.channel->established)
                iface.engine->fail(*ep.channel, tern::Status::kTimedOut, kSilent);
            return;
        }
        ucs_log(failure_level(), "tern: %s: %s: %s", device.c_str(), ep.peer.to_string().c_str(),
                kSilent);
        tern::ep_closed(ep, UCS_ERR_ENDPOINT_TIMEOUT);
    }
    void broken(const std::string& why) override {
        ucs_error("tern: %s: %s: the interface and its endpoints have failed; %s", device.c_str(),
                  why.c_str(),
                  out_of_memory ? "raise the limit of the program's memory (ulimit -v, or its "
                                  "control group's)"
                                : "see the kernel's log, and restart the program when the device "
                                  "works again");
        if (tags && tags->tupleq) tags->tupleq->break_down();
    }
    void queue_failed(const void* identity, const std::string& what) override {
        if (tags && tags->tupleq) tags->tupleq->queue_failed(identity, what);
    }
    void note(const std::string& text) override {
        ucs_diag("tern: %s: %s", device.c_str(), text.c_str());
    }
    void warn(const std::string& text) override {
        ucs_warn("tern: %s: %s", device.c_str(), text.c_str());
    }

    bool give_up(uint64_t bytes) override {
        return tern::memory_domain(iface.super.md).pins->give_up(bytes);
    }
    void seldom() override {
        if (next_snapshot == 0 || ucs_get_time() < next_snapshot) return;
        next_snapshot = ucs_get_time() + ucs_time_from_sec(snapshot_interval);
        try {
            tern::replace_snapshot(snapshot, counters_line());
        } catch (const std::bad_alloc&) {
            (void)tern::no_memory("write the counters");
        }
    }

    // Records what a connection was used for, once: at its end, or at that of the interface.
    void tell_peer(tern::Channel& channel) {
        if (!explains || channel.tally.told || !channel.established) return;
        channel.tally.told = true;
        try {
            tern::explain_peer(device, engine->address(), channel);
        } catch (const std::bad_alloc&) {
            (void)tern::no_memory("explain a connection");
        }
    }
    std::string counters_line() const {
        return tern::counters_of(
            *engine, *rendezvous, *atomics, *tern::memory_domain(iface.super.md).pins,
            tags ? tags->counters : tern::TagCounters{}, iface.tupleq, device.c_str());
    }

    // A failure that the user's error handler deals with is logged at a lower level.
    ucs_log_level_t failure_level() const {
        return iface.super.err_handler != nullptr ? UCS_LOG_LEVEL_DIAG
                                                  : iface.super.config.failure_level;
    }

    void message(uint32_t id, const void* data, uint32_t length) {
        tern::dump_message(iface, UCT_AM_TRACE_TYPE_RECV, static_cast<uint8_t>(id), data, length,
                           "RX: AM");
        (void)uct_iface_invoke_am(&iface.super, static_cast<uint8_t>(id), const_cast<void*>(data),
                                  length, 0);
    }
    // Of both EngineOwner and RendezvousOwner.
    void completed(void* cookie, tern::Status status) override {
        if (tern::Rma::is_cookie(cookie)) [[likely]]
            return complete(rma->done(cookie, status == tern::Status::kOk), status);
        if (tern::kind_of(cookie) == tern::CookieKind::kUser) return complete(cookie, status);
        completed_rarely(cookie, status);
    }
    [[gnu::noinline]] void completed_rarely(void* cookie, tern::Status status) {
        if (tern::Rendezvous::is_cookie(cookie)) return rendezvous->done(cookie, status);
        if (tern::TupleQ::is_cookie(cookie)) return tags->tupleq->done(cookie, status);
        complete(atomics->done(cookie, status == tern::Status::kOk), status);
    }
    [[gnu::always_inline]] void complete(void* completion, tern::Status status) {
        if (completion == nullptr) return;
        if (status != tern::Status::kOk) [[unlikely]]
            tern::note_loss(iface, status);
        uct_invoke_completion(static_cast<uct_completion_t*>(completion), tern::to_ucs(status));
    }

    void fetched(bool waited) override {
        tern::memory_domain(iface.super.md).lateness.note(waited);
    }
    void replied(uint32_t id, const std::byte* data, uint32_t length) override {
        message(id, data, length);
    }

    bool tagged(tern::Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        return tags && tags->receives.arrived(channel, id, data, length);
    }
    bool control(tern::Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
        if (id >= static_cast<uint32_t>(tern::ControlId::kFirstTag))
            return tags && tags->control(*engine, channel, id, data, length);
        return rendezvous->control(channel, id, data, length);
    }
    bool notified(tern::Channel& channel, uint32_t immediate) {
        return rendezvous->notified(channel, immediate);
    }

    TernIface& iface;
    const Counted counted;
    bool out_of_memory = false;  // why the interface fails
    bool no_room_is_told = false;
    tern::verbs::Port port;
    tern::Routes routes;
    std::string device;  // name and port
    std::string counters;
    bool explains = tern::explains();
    // The counters while the program runs: where, in seconds, and when next. 0: never.
    std::string snapshot;
    double snapshot_interval = 0;
    ucs_time_t next_snapshot = 0;
    // The device writes to its memory until the engine is destroyed.
    std::unique_ptr<tern::Atomics> atomics;
    std::unique_ptr<tern::Rma> rma;
    std::unique_ptr<Engine> engine;
    std::unique_ptr<tern::Rendezvous> rendezvous;
    std::unique_ptr<tern::TagInterface> tags;
};

namespace {

// Whether there is something to do besides the engine's poll.
bool has_work(TernIface& iface) {
    if (!ucs_arbiter_is_empty(&iface.arbiter) || iface.rma->has_work()) return true;
    if (iface.tags == nullptr) return false;
    return iface.tags->sends.has_work() || iface.tags->receives.has_work() ||
           (iface.tupleq != nullptr && iface.tupleq->has_work());
}

// What follows the engine's poll.
[[gnu::always_inline]] inline unsigned progress_others(TernIface& iface, unsigned count) {
    if (iface.tags != nullptr) {
        if (iface.tupleq != nullptr) count += iface.tupleq->progress();
        iface.tags->sends.progress(*iface.engine);
    }
    if (!ucs_arbiter_is_empty(&iface.arbiter)) [[unlikely]]
        count += tern::dispatch_pending(iface);
    if (iface.tags != nullptr && iface.tags->receives.has_work()) [[unlikely]]
        count += iface.tags->receives.progress();
    return count;
}
[[gnu::always_inline]] inline unsigned progress_all(TernIface& iface, unsigned count) {
    if (iface.rendezvous->has_work()) count += iface.rendezvous->progress();
    return progress_others(iface, count);
}

// A poll whose first steps are `poll(iface, args...)`, which returns what it has handled.
template <class Poll, class... Args>
[[gnu::noinline]] unsigned progress_after(TernIface& iface, Poll poll, Args... args) try {
    return progress_all(iface, poll(iface, args...));
} catch (const std::bad_alloc&) {
    (void)tern::out_of_memory(&iface.super.super);
    return 1;
}

// A poll that takes all steps.
[[gnu::noinline]] unsigned progress(TernIface& iface) try {
    unsigned count = 0;
    iface.rma->progress();
    // The rendezvous has something to do at each poll only while transfers are under way.
    return iface.engine->poll(*iface.state, count) ? progress_others(iface, count)
                                                   : progress_all(iface, count);
} catch (const std::bad_alloc&) {
    (void)tern::out_of_memory(&iface.super.super);
    return 1;
}

// The same after a look at the blocks has found nothing, if the rest is due: in the usual case, the
// completion queue is empty, and there is nothing else.
[[gnu::noinline]] unsigned progress_queue(TernIface& iface) {
    tern::Engine& engine = *iface.engine;
    if (!engine.poller()->only_queue_is_due() || iface.rma->holds_pins()) [[unlikely]]
        return progress_after(iface, [](TernIface& all) {
            all.rma->progress();
            return all.engine->poller()->poll_rest(*all.state);
        });
    ibv_wc completions[tern::Poller::kBurst];
    const int count = engine.poller()->take(completions);
    if (count != 0) [[unlikely]]
        return progress_after(
            iface,
            [](TernIface& all, const ibv_wc* first, int taken) {
                return all.engine->poller()->handle(first, taken, *all.state);
            },
            static_cast<const ibv_wc*>(completions), count);
    if (iface.rendezvous->has_work() || iface.tags != nullptr ||
        !ucs_arbiter_is_empty(&iface.arbiter)) [[unlikely]]
        return progress_after(iface, [](TernIface&) { return 0u; });
    return 0;
}

// A caller that is about to sleep relies on a result of 0: every callback and every pending request
// that was sent counts.
unsigned iface_progress(uct_iface_h uct_iface) {
    TernIface& iface = tern::iface_of(uct_iface);
    if (!has_work(iface)) [[likely]] {
        const tern::Poller::Look found = iface.engine->poller()->look();
        if (found == tern::Poller::Look::kNothing) [[likely]]
            return 0;
        if (found == tern::Poller::Look::kRest) return progress_queue(iface);
    }
    return progress(iface);
}

ucs_status_t flush_status(TernIface& self) {
    // UCP's flush of a worker relies on this: it has to cover the pending queues of the endpoints.
    if (!tern::nothing_pending(self)) return UCS_INPROGRESS;
    if (!self.rendezvous->idle() || (self.tags != nullptr && self.tags->receives.has_work()))
        return UCS_INPROGRESS;
    if (self.tupleq != nullptr && !self.tupleq->sender().idle()) return UCS_INPROGRESS;
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
    // The tag interface's other work waits for room in a send queue: the completion that makes room
    // wakes the interface.
    if (self.tags != nullptr && self.tags->receives.any_canceled()) return UCS_ERR_BUSY;
    std::vector<tern::Watched> words;
    tern::Status status = self.rendezvous->arm(words);
    if (status == tern::Status::kOk && self.tupleq != nullptr) status = self.tupleq->arm();
    if (status == tern::Status::kOk) status = self.engine->sleep()->arm(words);
    return status == tern::Status::kInProgress ? UCS_ERR_BUSY : tern::to_ucs(status);
} catch (const std::bad_alloc&) {
    return tern::out_of_memory(iface);
}

ucs_status_t estimate_perf(uct_iface_h uct_iface, uct_perf_attr_t* attributes) try {
    TernIface& iface = tern::iface_of(uct_iface);
    if (iface.tupleq != nullptr && tern::sends_tags_two_ways(*attributes) &&
        iface.tupleq->sender().stop())
        ucs_info(
            "tern: %s: no message is sent direct: UCX before 1.18 announces long messages by "
            "active messages with UCX_PROTO_ENABLE",
            iface.state->device.c_str());
    return tern::iface_estimate_perf(uct_iface, attributes);
} catch (const std::bad_alloc&) {
    return tern::out_of_memory(uct_iface);
}

}  // namespace

static UCS_CLASS_DECLARE_DELETE_FUNC(TernIface, uct_iface_t);

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
    .ep_tag_eager_short = tern::ep_tag_eager_short,
    .ep_tag_eager_bcopy = tern::ep_tag_eager_bcopy,
    .ep_tag_eager_zcopy = tern::ep_tag_eager_zcopy,
    .ep_tag_rndv_zcopy = tern::ep_tag_rndv_zcopy,
    .ep_tag_rndv_cancel = tern::ep_tag_rndv_cancel,
    .ep_tag_rndv_request = tern::ep_tag_rndv_request,
    .iface_tag_recv_zcopy = tern::iface_tag_recv_zcopy,
    .iface_tag_recv_cancel = tern::iface_tag_recv_cancel,
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
    .iface_progress = iface_progress,
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
    ops.table.iface_estimate_perf = estimate_perf;
    ops.table.iface_vfs_refresh = tern::iface_vfs_refresh;
    return ops;
}();

// UCP's choice of a lane and Tern's choice of a scheme rest on the bandwidth.
static void warn_of_unknown_speed(const std::string& device, const tern::verbs::Port& port) {
    const tern::verbs::LinkSpeed speed = port.speed();
    if (speed.known) return;
    ucs_warn(
        "tern: %s: speed %u and width %u of the link are not known, %.1f GB/s are assumed; set "
        "net=... in UCX_TERN_RNDV_COSTS to the bandwidth of the link",
        device.c_str(), tern::verbs::speed_code(port.attributes), port.attributes.active_width,
        speed.bandwidth / 1e9);
}

// The members of an interface whose base class is set up.
static ucs_status_t open_interface(TernIface& self, uct_md_h md, const uct_iface_params_t& params,
                                   const tern::TernConfig& config) {
    const tern::verbs::Device& device = tern::memory_domain(md).device;
    auto state = std::make_unique<TernIface::State>(self, tern::memory_domain(md).interfaces);
    state->device = params.mode.device.dev_name;
    state->counters = config.counters;
    if (config.counters_interval > 0 && !state->counters.empty() && state->counters != "-") {
        static std::atomic<unsigned> number{0};
        state->snapshot =
            tern::snapshot_path(state->counters, number.fetch_add(1, std::memory_order_relaxed));
        state->snapshot_interval = config.counters_interval;
        state->next_snapshot = ucs_get_time() + ucs_time_from_sec(config.counters_interval);
    }
    tern::verbs::PortTrouble trouble;
    std::string& why = trouble.why;
    tern::EngineSettings settings;
    tern::RendezvousSettings rendezvous_settings;
    tern::TupleQSettings direct_settings;
    tern::verbs::PortSettings port_settings;
    const size_t colon = state->device.rfind(':');
    const int number = colon == std::string::npos ? 1 : atoi(state->device.c_str() + colon + 1);
    tern::Tunables tunables;
    tern::Costs costs;
    tern::MemoryDomain& domain = tern::memory_domain(md);
    if (tern::read_tunables(tunables, why) &&
        tern::read_config(config, tunables, device.attributes, state->counted.number, settings,
                          rendezvous_settings, direct_settings, port_settings, why)) {
        const auto port =
            tern::verbs::open_port(device, static_cast<uint8_t>(number), port_settings, trouble);
        if (port) {
            state->port = *port;
            warn_of_unknown_speed(state->device, *port);
            // UCP, recognised by its rx_headroom, queues refused messages and progresses until they
            // are sent. A message taken early would only be sent when this side progresses again,
            // which a program need not do after a send. Messages that set up endpoints are taken
            // early all the same, and need no allowance: UCP cannot remove them from its queue when
            // an endpoint is closed by force, and aborts the program.
            settings.urgent_id = tern::compat::kUcpWireup;
            settings.early_sends = (params.field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM) == 0 ||
                                   params.rx_headroom == 0;
            if (tern::read_costs(config, domain.costs, tern::payload_bandwidth(*port), costs, why))
                state->engine = Engine::create(device, *port, settings, *state, why);
        }
    }
    if (!state->engine) {
        ucs_error("tern: cannot use %s: %s", state->device.c_str(), why.c_str());
        tern::note_unused(
            {.what = state->device, .why = why, .remedy = tern::advice(trouble.remedy)});
        return UCS_ERR_NO_DEVICE;
    }
    state->rendezvous = std::make_unique<tern::Rendezvous>(
        *state->engine, domain.regions, *domain.pins, costs, rendezvous_settings, *state);
    self.rendezvous = state->rendezvous.get();
    self.proto = config.proto != 0;
    state->atomics = std::make_unique<tern::Atomics>(device.pd.get());
    self.atomics = state->atomics.get();
    state->rma =
        std::make_unique<tern::Rma>(*state->engine, *domain.pins, state->rendezvous->decider());
    self.rma = state->rma.get();
    self.flushing = false;
    self.lost = UCS_OK;
    self.offer = {};
    self.request_handler = nullptr;
    self.requests_of_ucp = false;
    if (config.tags.matching != UCS_NO && tern::wants_tags(params))
        state->tags = std::make_unique<tern::TagInterface>(*state->engine, *state->rendezvous,
                                                           *state, tunables.tm_list_size,
                                                           tern::tag_callbacks(params));
    self.tags = state->tags.get();
    self.tupleq = nullptr;
    if (self.tags != nullptr && direct_settings.tuples != 0) {
        tern::TagInterface& tags = *self.tags;
        tags.tupleq = tern::TupleQ::create({.device = device,
                                            .port = state->port,
                                            .engine = *state->engine,
                                            .rendezvous = *state->rendezvous,
                                            .regions = domain.regions,
                                            .pins = *domain.pins,
                                            .posted = tags.receives.table(),
                                            .owner = tags},
                                           direct_settings, why);
        self.tupleq = tags.tupleq.get();
        tags.receives.use(self.tupleq);
        if (!tags.tupleq)
            ucs_info("tern: %s: messages are matched in software only: %s", state->device.c_str(),
                     why.c_str());
    }
    ucs_arbiter_init(&self.arbiter);
    self.waiting = 0;
    ucs_list_head_init(&self.endpoints);
    self.endpoint_count = 0;
    self.engine = state->engine.get();
    tern::start_background(self);
    self.state = state.release();
    tern::explain_interface(self.state->device, *self.engine);
    TERN_DEBUG("%s: interface %p is open: active messages of up to %u bytes, %s%s",
               self.state->device.c_str(), static_cast<void*>(&self), settings.segment_size,
               self.tags == nullptr ? "no tag matching" : "tag matching in software",
               self.tupleq == nullptr ? "" : " and by the device");
    return UCS_OK;
}

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
        return open_interface(*self, md, *params, config);
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

namespace tern {

bool has_way(TernIface& iface, const PortAddress& to) {
    return iface.state->routes.reach(memory_domain(iface.super.md).device.pd.get(),
                                     iface.state->port, to);
}

bool says_no_room(TernIface& iface) {
    return !std::exchange(iface.state->no_room_is_told, true);
}

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

std::string counters_line(const TernIface& iface) {
    return iface.state->counters_line();
}

const verbs::Port& port_of(const TernIface& iface) {
    return iface.state->port;
}

}  // namespace tern
