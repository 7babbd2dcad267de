// SPDX-License-Identifier: BSD-3-Clause

// An interface is opened: its settings are read, its parts are made, and what UCX's asynchronous
// thread does for it begins.

#include "tern/uct/compat.h"
#include "tern/uct/config.h"
#include "tern/uct/iface_state.h"
#include "tern/uct/tag_direct.h"

namespace tern {

namespace {

// UCP's choice of a lane and Tern's choice of a scheme rest on the bandwidth.
void warn_of_unknown_speed(const std::string& device, const verbs::Port& port) {
    const verbs::LinkSpeed speed = port.speed();
    if (speed.known) return;
    ucs_warn(
        "tern: %s: speed %u and width %u of the link are not known, %.1f GB/s are assumed; set "
        "net=... in UCX_TERN_RNDV_COSTS to the bandwidth of the link",
        device.c_str(), verbs::speed_code(port.attributes), port.attributes.active_width,
        speed.bandwidth / 1e9);
}

void keep_snapshot(TernIface::State& state, double interval) {
    if (interval <= 0 || state.counters.empty() || state.counters == "-") return;
    static std::atomic<unsigned> number{0};
    state.snapshot = snapshot_path(state.counters, number.fetch_add(1, std::memory_order_relaxed));
    state.snapshot_interval = interval;
    state.next_snapshot = ucs_get_time() + ucs_time_from_sec(interval);
}

// UCP, recognised by its rx_headroom, queues refused messages and progresses until they are sent. A
// message taken early would only be sent when this side progresses again, which a program need not
// do after a send. Messages that set up endpoints are taken early all the same, and need no
// allowance: UCP cannot remove them from its queue when an endpoint is closed by force, and aborts
// the program.
void set_early_sends(EngineSettings& settings, const uct_iface_params_t& params) {
    settings.urgent_id = compat::kUcpWireup;
    settings.early_sends =
        (params.field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM) == 0 || params.rx_headroom == 0;
}

// False: `trouble` says why.
bool open_engine(TernIface::State& state, const MemoryDomain& domain,
                 const uct_iface_params_t& params, const TernConfig& config, Settings& settings,
                 Costs& costs, verbs::PortTrouble& trouble) {
    const verbs::Device& device = domain.device;
    if (!read_config(config, device.attributes, state.counted.number, settings, trouble.why))
        return false;
    const size_t colon = state.device.rfind(':');
    const int number = colon == std::string::npos ? 1 : atoi(state.device.c_str() + colon + 1);
    const auto port =
        verbs::open_port(device, static_cast<uint8_t>(number), settings.port, trouble);
    if (!port) return false;
    state.port = *port;
    warn_of_unknown_speed(state.device, *port);
    set_early_sends(settings.engine, params);
    settings.engine.buffers.relaxed = domain.relaxed;
    if ((params.field_mask & UCT_IFACE_PARAM_FIELD_RX_HEADROOM) != 0)
        settings.engine.buffers.headroom = static_cast<uint32_t>(params.rx_headroom);
    if (!read_costs(config, domain.costs, payload_bandwidth(*port), costs, trouble.why))
        return false;
    state.engine = Engine::create(device, *port, settings.engine, state, trouble.why);
    return state.engine != nullptr;
}

// The part that matches tags. The device may be able to do so, or not.
void open_matching(TernIface::State& state, MemoryDomain& domain, const TagCallbacks& callbacks,
                   const Settings& settings) {
    TernIface& self = state.iface;
    const uint32_t most = settings.tunables.tm_list_size;
    if (settings.direct.tuples != 0) {
        auto direct =
            std::make_unique<DirectTags>(*state.engine, *state.rendezvous, state, most, callbacks);
        std::string why;
        if (direct->open({.device = domain.device,
                          .port = state.port,
                          .engine = *state.engine,
                          .rendezvous = *state.rendezvous,
                          .regions = domain.regions,
                          .pins = *domain.pins,
                          .posted = direct->receives.table(),
                          .owner = *direct},
                         settings.direct, why)) {
            self.tupleq = &direct->tupleq();
            self.in_order = false;
            state.matching = std::move(direct);
        } else {
            ucs_info("tern: %s: messages are matched in software only: %s", state.device.c_str(),
                     why.c_str());
        }
    }
    if (self.in_order)
        state.matching =
            std::make_unique<TagInterface>(*state.engine, *state.rendezvous, most, callbacks);
    self.matching = state.matching.get();
    self.matching->offer(self.super.super.ops);
}

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

// Makes UCX's asynchronous thread answer peers while the program computes, and poll blocks while
// the program sleeps. Without such a thread, peers wait for their answers, and the program is woken
// to poll.
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

}  // namespace

ucs_status_t open_interface(TernIface& self, uct_md_h md, const uct_iface_params_t& params,
                            const TernConfig& config) {
    MemoryDomain& domain = memory_domain(md);
    auto state =
        std::make_unique<TernIface::State>(self, domain.interfaces, params.mode.device.dev_name);
    state->counters = config.counters;
    keep_snapshot(*state, config.counters_interval);
    Settings settings;
    Costs costs;
    verbs::PortTrouble trouble;
    if (!open_engine(*state, domain, params, config, settings, costs, trouble)) {
        ucs_error("tern: cannot use %s: %s", state->device.c_str(), trouble.why.c_str());
        note_unused({.what = state->device, .why = trouble.why, .remedy = advice(trouble.remedy)});
        return UCS_ERR_NO_DEVICE;
    }
    state->rendezvous = std::make_unique<Rendezvous>(*state->engine, domain.regions, *domain.pins,
                                                     costs, settings.rendezvous, *state);
    state->atomics = std::make_unique<Atomics>(domain.device.pd.get());
    state->rma = std::make_unique<Rma>(*state->engine, *domain.pins, state->rendezvous->decider());
    self.engine = state->engine.get();
    self.rendezvous = state->rendezvous.get();
    self.atomics = state->atomics.get();
    self.rma = state->rma.get();
    self.tupleq = nullptr;
    self.kept.headroom = settings.engine.buffers.headroom;
    self.kept.owner.cb = [](uct_recv_desc_t* owner, void* kept) {
        const TernIface* const iface = ucs_container_of(owner, TernIface, kept.owner);
        iface->engine->give_back(static_cast<std::byte*>(kept) + iface->kept.headroom);
    };
    self.in_order = true;
    self.proto = config.proto != 0;
    self.flushing = false;
    self.lost = UCS_OK;
    self.offer = {};
    self.requests = {};
    if (config.matching != UCS_NO && wants_tags(params))
        open_matching(*state, domain, tag_callbacks(params), settings);
    ucs_arbiter_init(&self.arbiter);
    self.waiting = 0;
    ucs_list_head_init(&self.endpoints);
    self.endpoint_count = 0;
    start_background(self);
    self.state = state.release();
    explain_interface(self.state->device, *self.engine);
    TERN_DEBUG("%s: interface %p is open: active messages of up to %u bytes, %s",
               self.state->device.c_str(), static_cast<void*>(&self), settings.engine.segment_size,
               self.matching->name());
    return UCS_OK;
}

void stop_background(TernIface& iface) {
    for (int& fd : iface.background) {
        if (fd >= 0) (void)ucs_async_remove_handler(fd, 1);
        fd = -1;
    }
    iface.engine->background().batches().disable();
}

}  // namespace tern
