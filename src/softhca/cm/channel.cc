// SPDX-License-Identifier: BSD-3-Clause
// Event channels, and the events that programs read from them.
#include <memory>
#include <mutex>

#include "softhca/cm/objects.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

// The reply to a connection's request reaches the program when its queue pair is connected; if the
// program has the queue pair to itself, it does that, and calls rdma_establish().
void connect_queue_pair(Id& id, rdma_cm_event& event) {
    if (id.rdma.qp == nullptr) return;
    bool connected = modify_to_rtr(id) == 0 && modify_to_rts(id) == 0;
    int error = connected ? 0 : errno;
    if (connected) {
        const std::lock_guard lock(Registry::instance());
        connected = apply(id, Input::kEstablish);
        if (!connected) error = ECONNRESET;
    }
    event.event = connected ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
    if (connected) return;
    event.status = -error;
    id.failed_to_connect = true;
    modify_to_error(id);
}

// A new identifier has the channel that its listener has now; with a listener without a channel of
// the program, one of its own.
void give_channel(Id& id, const Event& request) {
    rdma_event_channel* const channel = request.rdma.listen_id->channel;
    if (request.counted->sync)
        rdma_migrate_id(&id.rdma, nullptr);
    else if (id.rdma.channel != channel)
        rdma_migrate_id(&id.rdma, channel);
}

// Whether the program is to see the event.
bool process(Id& id, rdma_cm_event& event) {
    switch (event.event) {
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
            connect_queue_pair(id, event);
            return true;
        case RDMA_CM_EVENT_REJECTED:
            if (!id.failed_to_connect) modify_to_error(id);
            return !id.failed_to_connect;
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            return !id.failed_to_connect;
        default:
            return true;
    }
}

}  // namespace

SOFTHCA_EXPORT rdma_event_channel* rdma_create_event_channel() try {
    if (adapter() == nullptr) return fail(ENODEV);
    // A thread of this process answers peers in real time. UCX takes this error for no device.
    if (adapter()->host().header().config.virtual_time != 0) return fail(ENODEV);
    auto channel = std::make_unique<Channel>();
    channel->rdma.fd = channel->events.fd();
    if (channel->rdma.fd < 0) return fail(EMFILE);
    return &channel.release()->rdma;
} catch (const std::bad_alloc&) {
    return fail(ENOMEM);
}

SOFTHCA_EXPORT void rdma_destroy_event_channel(rdma_event_channel* channel) {
    delete channel_of(channel);
}

SOFTHCA_EXPORT int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
    if (event == nullptr) return fail_call(EINVAL);
    const auto count = [](Event* taken) {
        taken->counted->unacknowledged.add();
        if (taken->rdma.event == RDMA_CM_EVENT_CONNECT_REQUEST)
            taken->counted->requests.fetch_sub(1);
    };
    for (;;) {
        Event* taken = nullptr;
        if (!channel_of(channel)->events.take(&taken, count)) return -1;
        Id& id = *Id::of(taken->rdma.id);
        if (process(id, taken->rdma)) {
            if (taken->rdma.event == RDMA_CM_EVENT_CONNECT_REQUEST) give_channel(id, *taken);
            *event = &taken->rdma;
            return 0;
        }
        rdma_ack_cm_event(&taken->rdma);
    }
}

SOFTHCA_EXPORT int rdma_ack_cm_event(rdma_cm_event* event) {
    if (event == nullptr) return fail_call(EINVAL);
    auto* acknowledged = reinterpret_cast<Event*>(event);
    Id* id = acknowledged->counted;
    delete acknowledged;
    id->unacknowledged.acknowledge(1, id->acknowledged);
    return 0;
}

int complete(Id& id) {
    if (!id.sync) return 0;
    if (id.rdma.event != nullptr) {
        rdma_ack_cm_event(id.rdma.event);
        id.rdma.event = nullptr;
    }
    if (rdma_get_cm_event(id.rdma.channel, &id.rdma.event) != 0) return -1;
    const int status = id.rdma.event->status;
    if (status == 0) return 0;
    if (id.rdma.event->event == RDMA_CM_EVENT_REJECTED) return fail_call(ECONNREFUSED);
    return fail_call(status < 0 ? -status : status);
}

// Events that were not read yet move along. The call waits for those that were read and not
// acknowledged.
SOFTHCA_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
    Id& object = *Id::of(id);
    if (object.sync && channel == nullptr) return fail_call(EINVAL);
    const bool sync = channel == nullptr;
    if (sync) {
        channel = rdma_create_event_channel();
        if (channel == nullptr) return -1;
    }
    rdma_event_channel* const before = id->channel;
    {
        const std::lock_guard lock(Registry::instance());
        id->channel = channel;
        channel_of(before)->events.remove_if([&](Event* event) {
            if (event->counted != &object) return false;
            channel_of(channel)->events.put(event);
            return true;
        });
    }
    if (object.sync) {
        if (id->event != nullptr) rdma_ack_cm_event(id->event);
        id->event = nullptr;
        rdma_destroy_event_channel(before);
    }
    object.sync = sync;
    object.unacknowledged.wait();
    return 0;
}

SOFTHCA_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
    static constexpr const char* kNames[] = {
        "RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
        "RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
        "RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
        "RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
        "RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
        "RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
        "RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
        "RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
    };
    const auto index = static_cast<size_t>(event);
    return index < std::size(kNames) ? kNames[index] : "UNKNOWN EVENT";
}

SOFTHCA_REFUSES(int, rdma_write_cm_event, fail_call(EOPNOTSUPP))

}  // namespace softhca::cm
