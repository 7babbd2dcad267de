// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/device_health.h"

#include "tern/base/trace.h"
#include "tern/connection/connector.h"
#include "tern/engine/batches.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/owner.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"

namespace tern {

DeviceHealth::DeviceHealth(const EngineParts& parts)
    : events_(parts.resources.device_events.get()),
      cq_(parts.resources.cq.get()),
      srq_(parts.resources.receives->srq()),
      port_(parts.resources.port.number),
      connector_(parts.connector),
      completions_(parts.completions),
      batches_(parts.poller.batches()),
      owner_(parts.owner) {}

// Outstanding work requests count as failed: no completion will report them.
void DeviceHealth::break_down(const std::string& why) {
    if (failed_) return;
    failed_ = true;
    TERN_DEBUG("the device has failed: %s", why.c_str());
    CompletionSink sink{owner_};
    connector_.close();
    connector_.adopt();
    connector_.fail_all(Status::kDevice, why);
    connector_.table().for_each([&](Connection& connection) {
        auto& channel = static_cast<Channel&>(connection);
        channel.to_mark = false;  // nothing completes any more
        batches_.drop(channel);
        if (channel.sends.idle()) return;
        channel.sends.fail(channel.sends.next() - channel.sends.outstanding());
        channel.sends.complete(channel.sends.next() - 1);
        completions_.settle(channel, channel.status, sink);
    });
    owner_.broken(why);
}

bool DeviceHealth::take_events() {
    bool any = false;
    while (events_ != nullptr) {
        const auto event = events_->take();
        if (!event) break;
        on_device_event(*event);
        any = true;
    }
    return any;
}

void DeviceHealth::on_device_event(const verbs::DeviceEvent& event) {
    const std::string what = ibv_event_type_str(event.type);
    switch (event.type) {
        case IBV_EVENT_DEVICE_FATAL:
            return break_down("the device reports: " + what);
        case IBV_EVENT_CQ_ERR:
            if (event.identity == cq_->cq_context || connector_.datagrams().is(event.identity))
                return break_down("the device reports of its completion queue: " + what);
            return owner_.queue_failed(event.identity, what);
        case IBV_EVENT_SRQ_ERR:
            if (event.identity == srq_->srq_context)
                return break_down("the device reports of its shared receive queue: " + what);
            return owner_.queue_failed(event.identity, what);
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            return on_queue_pair_event(event, what);
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE:
            if (event.port == port_) owner_.note("the device reports of the port: " + what);
            return;
        default:
            return;
    }
}

void DeviceHealth::on_queue_pair_event(const verbs::DeviceEvent& event, const std::string& what) {
    if (event.identity == connector_.datagrams().identity())
        return break_down("the device reports of its datagram queue pair: " + what);
    const bool last_receive = event.type == IBV_EVENT_QP_LAST_WQE_REACHED;
    if (last_receive && connector_.ended().retired().on_last_receive(event.identity)) return;
    Channel* channel = completions_.receiver(event.qp_num);
    if (channel == nullptr || channel->qp->qp_context != event.identity) return;
    // Completions, perhaps not polled yet, report why the queue pair has failed.
    if (last_receive) {
        channel->last_receive = true;
        return;
    }
    // QP_FATAL is an error of this device. The other two report a bad request of the peer, which
    // gets an error too and drops the connection.
    const bool own = event.type == IBV_EVENT_QP_FATAL;
    connector_.fail(*channel, own ? Status::kDevice : Status::kConnectionReset,
                    "the device reports of the queue pair: " + what);
}

}  // namespace tern
