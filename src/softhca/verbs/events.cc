// SPDX-License-Identifier: BSD-3-Clause
// Asynchronous events.
#include "softhca/verbs/process_adapter.h"

namespace softhca {

namespace {

// Where acknowledgments of an event are counted; nullptr for events of ports and devices.
struct Account {
    Unacknowledged* unacknowledged = nullptr;
    uint32_t* acknowledged = nullptr;
};

Account account(const ibv_async_event& event) {
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR:
            return {&object_of<CqObject>(event.element.cq)->async_events,
                    &event.element.cq->async_events_completed};
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            return {&object_of<QpObject>(event.element.qp)->async_events,
                    &event.element.qp->events_completed};
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED:
            return {&object_of<SrqObject>(event.element.srq)->async_events,
                    &event.element.srq->events_completed};
        default:
            return {};
    }
}

}  // namespace

void end_events(ibv_context* context, Unacknowledged& of) {
    Context::of(context)->async_events.remove_if(
        [&of](const ibv_async_event& event) { return account(event).unacknowledged == &of; });
    of.wait();
}

SOFTHCA_EXPORT int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
    if (inherited(context)) return fail_call(EINVAL);
    const auto count = [](const ibv_async_event& taken) {
        if (Unacknowledged* unacknowledged = account(taken).unacknowledged) unacknowledged->add();
    };
    return Context::of(context)->async_events.take(event, count) ? 0 : -1;
}

SOFTHCA_EXPORT void ibv_ack_async_event(ibv_async_event* event) {
    const auto [unacknowledged, acknowledged] = account(*event);
    if (unacknowledged != nullptr) unacknowledged->acknowledge(1, *acknowledged);
}

}  // namespace softhca
