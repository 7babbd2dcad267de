// SPDX-License-Identifier: BSD-3-Clause
#include "tern/engine/channels.h"

#include <algorithm>
#include <cerrno>

#include "common/clock.h"
#include "tern/base/shortage.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"
#include "tern/engine/batches.h"
#include "tern/engine/completion_poller.h"
#include "tern/engine/control_frames.h"
#include "tern/engine/device_health.h"
#include "tern/engine/early_sends.h"
#include "tern/engine/idle_channels.h"
#include "tern/engine/offered_blocks.h"
#include "tern/engine/owner.h"
#include "tern/engine/peer_blocks.h"
#include "tern/engine/poller.h"
#include "tern/engine/resources.h"
#include "tern/engine/work_requests.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

void release_users(Channel& channel, EngineOwner& owner, Status status) {
    while (!channel.users.empty()) {
        void* user = channel.users.back();
        channel.users.pop_back();
        owner.closed(user, status);
    }
}

Channels::Channels(const EngineParts& parts)
    : receives_(parts.settings.receive_most),
      poll_(parts.settings.poll),
      cq_(parts.resources.cq.get()),
      max_cqe_(parts.resources.max_cqe),
      connector_(parts.connector),
      requests_(parts.requests),
      control_(parts.control),
      offered_(parts.offered),
      peer_blocks_(parts.peer_blocks),
      early_(parts.early),
      completions_(parts.completions),
      batches_(parts.poller.batches()),
      health_(parts.health),
      idle_(parts.idle),
      budget_(parts.poller.budget()),
      owner_(parts.owner) {}

Channel* Channels::attach(const PeerAddress& peer, void* user, std::string& why) {
    if (health_.has_failed()) {
        why = "the device has failed";
        return nullptr;
    }
    auto* channel = static_cast<Channel*>(connector_.connect(peer, why));
    if (channel == nullptr) return nullptr;
    channel->users.push_back(user);
    connector_.resume(*channel);
    return channel;
}

void Channels::leave(Channel* channel, void* user) {
    connector_.probes().forget(user);
    if (channel == nullptr) return;
    std::erase(channel->users, user);
    if (!channel->users.empty() || channel->failed) return;
    requests_.report_all(*channel);
    connector_.disconnect(*channel);
}

void Channels::leave_at_once(Channel& channel, void* user) {
    connector_.fail(channel, Status::kCanceled, "its last endpoint has gone");
    flush_sends(channel);
    (void)early_.drop_all(channel, Status::kCanceled);
    // While other queue pairs hold the channel, its transfers end with it.
    if (channel.sends.idle() && channel.holds == 0) {
        report_waiters(channel, Status::kCanceled);
        channel.receiving.left = true;
        owner_.left(channel);
    }
    leave(&channel, user);
}

// The queue pair is in error, so the device completes its work requests at once. Completions that
// were taken off the queue before are set aside, or are handled after the present one: they do not
// come again. So all that is outstanding counts as lost, and one more work request, whose
// completion is still to come, marks its end. Other completions are kept for later.
void Channels::flush_sends(Channel& channel) {
    CompletionSink sink{owner_};
    // The call may come from the report of one of several work requests that are complete.
    completions_.settle(channel, channel.sends.failing() ? channel.status : Status::kOk, sink);
    if (channel.sends.idle()) return;
    channel.sends.fail(channel.sends.next() - channel.sends.outstanding());
    WorkRequests::post_marker(channel);
    const uint64_t limit = now() + kDeviceLimit;
    while (!channel.sends.idle() && now() < limit) {
        ibv_wc completion{};
        const int count = ibv_poll_cq(cq_, 1, &completion);
        if (count < 0) return health_.break_down("its completion queue cannot be polled");
        if (count == 0) {
            if (!channel.sends.last_is_signaled()) WorkRequests::post_marker(channel);
        } else if (!work_request_id::is_receive(completion.wr_id) &&
                   connector_.table().find_send(completion.wr_id) == &channel) {
            completions_.flushed(channel, completion, sink);
        } else {
            completions_.late().set_aside(completion);
        }
    }
    if (channel.sends.idle()) return;
    // The device does not flush it. Out of use, it accesses no memory.
    (void)verbs::to_reset(channel.qp.get());
    channel.sends.complete(channel.sends.next() - 1);
    completions_.settle(channel, channel.status, sink);
}

void Channels::cancel(Channel& channel) {
    connector_.fail(channel, Status::kCanceled, "the endpoint is flushed by force");
}

void Channels::on_last_transfer(Channel& channel) {
    if (channel.carries() && !channel.up()) requests_.report_all(channel);
    connector_.finish_if_idle(channel);
}

std::unique_ptr<Connection> Channels::make_connection(uint32_t index, const PeerAddress& peer,
                                                      const Handshake& handshake) {
    idle_.on_begin(peer);
    auto channel = std::make_unique<Channel>(index, peer, handshake);
    const size_t channels = connector_.table().size() + 1;
    control_.make_room(channels);
    batches_.make_room(channels);
    peer_blocks_.make_room(channels);
    channel->receiving.activity.owner = channel.get();
    offered_.begin(*channel);
    return channel;
}

bool Channels::reserve_completions(uint32_t sends) {
    errno = EIO;
    if (health_.has_failed()) return false;
    const uint64_t needed = uint64_t{receives_} + sends;
    if (static_cast<uint64_t>(cq_->cqe) >= needed) return true;
    errno = ENOMEM;
    if (needed > max_cqe_) return false;
    const int error =
        ibv_resize_cq(cq_, static_cast<int>(engine_limits::resized_completions(needed, max_cqe_)));
    if (error == 0) return true;
    errno = error;
    return false;
}

void Channels::waits(const PeerAddress& peer, const std::string& why) {
    if (health_.has_failed()) return;  // which has been reported
    owner_.warn("connections have to wait, the first one to " + peer.to_string() + ": " + why +
                ". Idle ones end instead; " + scarce::kConnection.remedy());
}

bool Channels::wanted(const Connection& connection) const {
    return !static_cast<const Channel&>(connection).backlog.empty() || connection.transfers != 0;
}

bool Channels::used(const Connection& connection) const {
    return wanted(connection) || !static_cast<const Channel&>(connection).users.empty();
}

void Channels::established(Connection& connection) {
    auto& channel = static_cast<Channel&>(connection);
    channel.sends.reserve(engine_limits::control_places(channel.sends.depth()));
    channel.transfer_reserve = channel.sends.reserved();
    batches_.begin(channel);
    channel.receiving.polls_memory =
        poll_ == PollMode::kMemory ||
        (poll_ == PollMode::kAuto && verbs::writes_in_order(channel.qp.get()));
    peer_blocks_.begin(channel);
    TERN_DEBUG(
        "the connection to %s is up; %u sends have waited, and its writes into blocks are "
        "found %s",
        channel.peer.to_string().c_str(), channel.backlog.sends(),
        channel.receiving.polls_memory ? "in memory" : "by completions");
    early_.send_all(channel);
    for (void* user : channel.users) owner_.connected(user);
}

void Channels::draining(Connection& connection) {
    requests_.report_all(static_cast<Channel&>(connection));
}

void Channels::spare(Connection& connection) {
    idle_.on_spare(static_cast<Channel&>(connection));
}

void Channels::post_marker(Connection& connection) {
    WorkRequests::post_marker(static_cast<Channel&>(connection));
}

SentFrames Channels::sent(const Connection& connection) const {
    const SendPath& path = static_cast<const Channel&>(connection).sending.path;
    return {.hot = path.sequence(), .cold = path.cold_count()};
}

bool Channels::has_taken(const Connection& connection, const SentFrames& sent) const {
    const Channel::Receiving& receiving = static_cast<const Channel&>(connection).receiving;
    return receiving.deaf || receiving.path.has_taken(sent.hot, sent.cold);
}

// Transfers may wait, too: so before they end.
void Channels::report_waiters(Channel& channel, Status status) {
    void* cookie = nullptr;
    while (channel.sends.take_waiter(cookie)) owner_.completed(cookie, status);
}

void Channels::closed(Connection& connection, Status status, const std::string& why) {
    auto& channel = static_cast<Channel&>(connection);
    // The death of a peer is an error for those who use it.
    const bool unused = status == Status::kTimedOut && channel.users.empty();
    if (unused && channel.established && !channel.sends.users_lost()) status = Status::kOk;
    offered_.forget(channel);
    control_.forget(channel);
    peer_blocks_.forget(channel);
    idle_.on_over(channel.peer);
    report_waiters(channel, status);
    status = early_.drop_all(channel, owner_.ended(channel, status));
    // All errors but such a death are logged.
    if (!health_.has_failed() && status != Status::kOk && !unused)
        owner_.lost(channel.peer, status, why);
    release_users(channel, owner_, status);
}

uint64_t Channels::now() {
    return base::monotonic_ns();
}

}  // namespace tern
