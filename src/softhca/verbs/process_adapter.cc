// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/verbs/process_adapter.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "softhca/core/faults.h"
#include "softhca/transport/region.h"

namespace softhca {

namespace {

class VerbsSink : public EventSink {
  public:
    void completion_event(Cq& cq) override {
        auto* object = static_cast<CqObject*>(cq.cookie);
        if (object != nullptr && object->channel != nullptr) object->channel->events.put(object);
    }

    void cq_error(Cq& cq) override {
        if (auto* object = static_cast<CqObject*>(cq.cookie))
            put(object->ibv.context, IBV_EVENT_CQ_ERR,
                {.cq = reinterpret_cast<ibv_cq*>(&object->ibv)});
    }

    void qp_event(Qp& qp, QpEvent kind) override {
        static constexpr ibv_event_type kTypes[] = {
            IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
            IBV_EVENT_COMM_EST, IBV_EVENT_SQ_DRAINED, IBV_EVENT_QP_LAST_WQE_REACHED};
        if (auto* object = static_cast<QpObject*>(qp.cookie))
            put(object->ibv.qp_base.context, kTypes[static_cast<size_t>(kind)],
                {.qp = &object->ibv.qp_base});
    }

    void srq_limit(Srq& srq) override {
        if (auto* object = static_cast<SrqObject*>(srq.cookie))
            put(object->ibv.context, IBV_EVENT_SRQ_LIMIT_REACHED, {.srq = &object->ibv});
    }

    void port_changed(uint32_t link, bool up) override;
    void devices_failed() override;

  private:
    static void put(ibv_context* context, ibv_event_type type,
                    decltype(ibv_async_event::element) element) {
        Context::of(context)->async_events.put({element, type});
    }
};

struct ProcessAdapter {
    std::mutex mutex;
    // One; in virtual time, one for each member.
    std::vector<std::unique_ptr<Adapter>> adapters{1};
    size_t member = 0;                 // the one that adapter() returns
    std::shared_ptr<Segment> segment;  // of all adapters; there may be none of them yet
    bool failed = false;
    bool fork_protected = false;  // ibv_fork_init() was called in time
    bool copies_shared_memory = true;
    std::set<Context*> contexts;
    VerbsSink sink;

    Adapter* adapter() const { return adapters[member].get(); }
};

// Never destroyed: other threads may use it while the process exits.
ProcessAdapter& process_adapter() {
    static ProcessAdapter* instance = new ProcessAdapter;
    return *instance;
}

void VerbsSink::port_changed(uint32_t link, bool up) {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    for (Context* context : state.contexts) {
        if (context->device->index != link / kMaxPorts) continue;
        put(context->ibv(), up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR,
            {.port_num = static_cast<int>(link % kMaxPorts + 1)});
    }
}

void VerbsSink::devices_failed() {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    for (Context* context : state.contexts) put(context->ibv(), IBV_EVENT_DEVICE_FATAL, {});
}

void before_fork() {
    process_adapter().mutex.lock();
}
// Without protection, the pages that the parent writes to after the fork are copied, and the device
// keeps the old ones.
void after_fork_in_parent() {
    ProcessAdapter& state = process_adapter();
    for (const auto& adapter : state.adapters) {
        if (adapter == nullptr || state.fork_protected ||
            adapter->host().personality().memory.fork == 0)
            continue;
        const auto& counters = adapter->host().self().counters;
        if (counters.registered_bytes.load(std::memory_order_relaxed) != 0) {
            std::fputs("softhca: fork() with registered memory, but without ibv_fork_init()\n",
                       stderr);
            lose_private_regions(*adapter);
        }
    }
    state.mutex.unlock();
}

// The child has the parent's objects, but not its threads: it must not use what the objects refer
// to. If the child uses verbs, it joins the fabric as a new process.
void after_fork_in_child() {
    ProcessAdapter& state = process_adapter();
    for (auto& adapter : state.adapters) {
        if (adapter == nullptr) continue;
        adapter->set_inherited();
        (void)adapter.release();
    }
    if (state.segment != nullptr) state.segment->disown();
    state.segment = nullptr;
    state.contexts.clear();
    state.failed = false;
    state.mutex.unlock();
}

bool read_settings(Settings* settings, std::string* error) {
    const auto wrong =
        parse_settings(*settings, [](const char* name) { return std::getenv(name); });
    if (wrong) *error = *wrong;
    return !wrong;
}

// Opens the memory of the fabric. False, with *error, on failure.
bool open_segment(ProcessAdapter& state, std::string* error) {
    Settings settings;
    if (!read_settings(&settings, error)) return false;
    std::shared_ptr<Segment> segment =
        Segment::open(settings.fabric, fabric_config(settings), error);
    if (segment == nullptr) return false;
    if (settings.virtual_time ? !segment->created() : segment->header().config.virtual_time != 0) {
        *error = "fabric '" + settings.fabric +
                 "' has processes already, and with SOFTHCA_CLOCK=virtual a fabric has only one: "
                 "name another one by SOFTHCA_FABRIC";
        return false;
    }
    if (settings.virtual_time && virtual_clock == nullptr) {
        static softhca_virtual_time clock = {};
        virtual_clock = &clock;
    }
    // In virtual time, the device copies all memory directly.
    state.copies_shared_memory = settings.shared && !settings.virtual_time;
    if (segment->created() && !settings.faults.empty())
        apply_faults(settings.faults, segment->header().faults);
    state.segment = std::move(segment);
    return true;
}

std::unique_ptr<Adapter> start(ProcessAdapter& state, std::string* error) {
    Settings settings;  // in virtual time, those for this member
    if (!read_settings(&settings, error)) return nullptr;
    auto adapter =
        Adapter::start(state.segment, settings.executor == Executor::kThread, state.sink, error);
    if (adapter != nullptr && !settings.node.empty() &&
        !adapter->host().join_node(settings.node, error)) {
        adapter->host().leave();
        (void)adapter.release();  // its thread runs until the process ends
    }
    return adapter;
}

// Under the mutex: whether the fabric's memory is open. Prints once why it cannot be.
bool has_segment(ProcessAdapter& state) {
    if (state.segment != nullptr || state.failed) return state.segment != nullptr;
    static const int handlers =
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    (void)handlers;
    std::string error;
    state.failed = !open_segment(state, &error);
    if (state.failed) std::fprintf(stderr, "softhca: %s\n", error.c_str());
    return !state.failed;
}

__attribute__((destructor)) void at_exit() {
    ProcessAdapter& state = process_adapter();
    bool has_left = false;
    for (const auto& adapter : state.adapters) {
        if (adapter == nullptr) continue;
        adapter->host().leave();
        has_left = true;
    }
    if (!has_left && state.segment != nullptr) state.segment->leave();
}

}  // namespace

Adapter* adapter() {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    if (state.adapter() != nullptr || !has_segment(state) || state.failed) return state.adapter();
    std::string error;
    state.adapters[state.member] = start(state, &error);
    if (state.adapter() == nullptr) {
        state.failed = true;
        std::fprintf(stderr, "softhca: %s\n", error.c_str());
    }
    return state.adapter();
}

uint32_t device_count() {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    return has_segment(state) ? state.segment->header().config.devices : 0;
}

bool select_member(uint32_t member) {
    ProcessAdapter& state = process_adapter();
    {
        const std::lock_guard lock(state.mutex);
        if (member >= kMaxProcesses) return false;
        if (member >= state.adapters.size()) state.adapters.resize(member + 1);
        state.member = member;
    }
    // Events name members by their slots.
    return adapter() != nullptr && adapter()->host().slot() == member;
}

Adapter* member_adapter(uint32_t member) {
    const auto& adapters = process_adapter().adapters;
    return member < adapters.size() ? adapters[member].get() : nullptr;
}

void add_context(Context* context) {
    const std::lock_guard lock(process_adapter().mutex);
    process_adapter().contexts.insert(context);
}

void release(Context* context) {
    if (context->users.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    if (!inherited(context->ibv())) {
        const std::lock_guard lock(process_adapter().mutex);
        process_adapter().contexts.erase(context);
    }
    ::close(context->ibv()->cmd_fd);
    delete context;
}

int protect_forks() {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    for (const auto& adapter : state.adapters) {
        if (adapter != nullptr && !state.fork_protected &&
            adapter->host().personality().memory.fork != 0 && adapter->host().key_indices.end() > 1)
            return EINVAL;  // memory was registered before
    }
    state.fork_protected = true;
    return 0;
}

ibv_fork_status fork_protection() {
    ProcessAdapter& state = process_adapter();
    const std::lock_guard lock(state.mutex);
    if (state.segment == nullptr || state.segment->header().config.personality.memory.fork == 0)
        return IBV_FORK_UNNEEDED;
    return state.fork_protected ? IBV_FORK_ENABLED : IBV_FORK_DISABLED;
}

bool copies_shared_memory() {
    return process_adapter().copies_shared_memory;
}

}  // namespace softhca
