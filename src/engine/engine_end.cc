// SPDX-License-Identifier: BSD-3-Clause

// Ends that do not wait for the peer: of endpoints with operations under way, and of all
// connections when the device fails.

#include <string>

#include "engine/engine_poll.h"

namespace tern {

namespace {

// The sink for a channel that has failed: only tells completions.
struct Completions {
    EngineOwner& owner;

    void completed(void* cookie, Status status) const { owner.completed(cookie, status); }
    static void message(uint32_t, const void*, uint32_t) {}
    static bool tagged(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
};

}  // namespace

// The queue pair is in error, so the device completes its work requests at once. Other completions
// are kept for later.
void Engine::flush_sends(Channel& channel) {
    Completions completions{owner_};
    const uint64_t limit = now() + kFlushLimit;
    while (!channel.sends.idle() && now() < limit) {
        ibv_wc completion{};
        const int count = ibv_poll_cq(cq_.get(), 1, &completion);
        if (count < 0) return break_down("its completion queue cannot be polled");
        if (count == 0) {
            if (!channel.sends.last_is_signaled()) post_marker(channel);
        } else if (!work_request_id::is_receive(completion.wr_id) &&
                   connector_->find_send(completion.wr_id) == &channel) {
            sent(completion, completions);
        } else {
            late_.set_aside(completion);
        }
    }
}

// Outstanding work requests count as failed: no completion will report them.
void Engine::break_down(const std::string& why) {
    if (broken_) return;
    broken_ = true;
    Completions completions{owner_};
    connector_->adopt();
    connector_->for_each(
        [&](Connection& connection) { connector_->fail(connection, Status::kDevice, why); });
    connector_->for_each([&](Connection& connection) {
        auto& channel = static_cast<Channel&>(connection);
        if (channel.sends.idle()) return;
        channel.sends.fail(channel.sends.next() - channel.sends.outstanding());
        channel.sends.complete(channel.sends.next() - 1);
        settle(channel, channel.status, completions);
    });
    owner_.broken(why);
}

bool Engine::take_device_events() {
    bool any = false;
    while (device_events_) {
        const auto event = device_events_->take();
        if (!event) break;
        on_device_event(*event);
        any = true;
    }
    return any;
}

void Engine::on_device_event(const verbs::DeviceEvent& event) {
    const std::string what = ibv_event_type_str(event.type);
    switch (event.type) {
        case IBV_EVENT_DEVICE_FATAL:
            return break_down("the device reports: " + what);
        case IBV_EVENT_CQ_ERR:
            if (event.queue == cq_.get() || connector_->datagrams().is(event.queue))
                break_down("the device reports of its completion queue: " + what);
            return;
        case IBV_EVENT_SRQ_ERR:
            if (event.queue == receives_->srq())
                break_down("the device reports of its shared receive queue: " + what);
            return;
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR: {
            if (event.qp_num == connector_->datagrams().qp_num())
                return break_down("the device reports of its datagram queue pair: " + what);
            Channel* channel = receiver(event.qp_num);
            if (channel == nullptr) return;
            // QP_FATAL is an error of this device. The other two report a bad request of the peer,
            // which gets an error too and drops the connection.
            const bool own = event.type == IBV_EVENT_QP_FATAL;
            return connector_->fail(*channel, own ? Status::kDevice : Status::kConnectionReset,
                                    "the device reports of the queue pair: " + what);
        }
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_PORT_ACTIVE:
            if (event.port == port_.number) owner_.note("the device reports of the port: " + what);
            return;
        default:
            return;
    }
}

void Engine::leave_at_once(Channel& channel, void* user) {
    connector_->fail(channel, Status::kCanceled, "its last endpoint has gone");
    flush_sends(channel);
    (void)drop_backlog(channel, Status::kCanceled);
    // While other queue pairs hold the channel, closed() calls ended() later.
    if (channel.sends.idle() && channel.holds == 0) (void)owner_.ended(channel, Status::kCanceled);
    leave(&channel, user);
}

void Engine::cancel_flushes(Channel& channel, const void* user) {
    void* cookie = nullptr;
    while (channel.sends.drop_waiter(user, cookie) || channel.backlog.drop_flush(user, cookie))
        owner_.completed(cookie, Status::kCanceled);
}

}  // namespace tern
