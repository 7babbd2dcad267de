// SPDX-License-Identifier: BSD-3-Clause
#include "tern/verbs/async_events.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>

namespace tern::verbs {

namespace {

DeviceEvent describe(const ibv_async_event& event) {
    DeviceEvent described{.type = event.event_type};
    switch (event.event_type) {
        case IBV_EVENT_CQ_ERR:
            described.identity = event.element.cq->cq_context;
            break;
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED:
            described.identity = event.element.srq->srq_context;
            break;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PATH_MIG_ERR:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
            // The queue pair exists until the event is acknowledged.
            described.qp_num = event.element.qp->qp_num;
            described.identity = event.element.qp->qp_context;
            break;
        case IBV_EVENT_WQ_FATAL:
        case IBV_EVENT_DEVICE_FATAL:
            break;
        default:
            described.port = event.element.port_num;
            break;
    }
    return described;
}

}  // namespace

void* next_identity() {
    static std::atomic<uintptr_t> last = 0;
    return reinterpret_cast<void*>(++last);
}

AsyncEvents::AsyncEvents(ibv_context* context) : context_(context) {
    const int flags = fcntl(context->async_fd, F_GETFL);
    readable_ = flags >= 0 && fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

void AsyncEvents::read() {
    ibv_async_event event{};
    while (readable_ && ibv_get_async_event(context_, &event) == 0) {
        const DeviceEvent described = describe(event);
        // Acknowledged at once, since destroying the event's object waits for it.
        ibv_ack_async_event(&event);
        for (Inbox* inbox : inboxes_) {
            inbox->pending_.push_back(described);
            const uint64_t one = 1;
            if (inbox->fd_ >= 0) (void)!write(inbox->fd_, &one, sizeof(one));
        }
    }
}

AsyncEvents::Inbox::Inbox(AsyncEvents& events)
    : events_(events), fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const std::lock_guard lock(events_.mutex_);
    events_.inboxes_.push_back(this);
}

AsyncEvents::Inbox::~Inbox() {
    {
        const std::lock_guard lock(events_.mutex_);
        std::erase(events_.inboxes_, this);
    }
    if (fd_ >= 0) close(fd_);
}

std::optional<DeviceEvent> AsyncEvents::Inbox::take() {
    const std::lock_guard lock(events_.mutex_);
    events_.read();
    if (pending_.empty()) return {};
    const DeviceEvent described = pending_.front();
    pending_.pop_front();
    uint64_t count = 0;
    if (pending_.empty() && fd_ >= 0) (void)!::read(fd_, &count, sizeof(count));
    return described;
}

}  // namespace tern::verbs
