// SPDX-License-Identifier: BSD-3-Clause
// The program's part in connections: to listen, to connect, to answer and to disconnect.
#include <algorithm>
#include <optional>

#include "softhca/cm/address.h"
#include "softhca/cm/objects.h"
#include "softhca/cm/port.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

constexpr uint32_t kMaxBacklog = 1024;

uint8_t most_reads(const Id& id) {
    return static_cast<uint8_t>(
        std::min<int32_t>(personality_of(id.rdma.verbs).limits.rd_atomic, RDMA_MAX_RESP_RES - 1));
}

// 0, or EINVAL if the device does not have so many reads.
int check_parameters(const Id& id, const rdma_conn_param* given) {
    if (id.rdma.verbs == nullptr) return EINVAL;
    if (id.rdma.ps != RDMA_PS_TCP) return 0;
    if (given == nullptr) return id.rdma.qp == nullptr ? EINVAL : 0;
    const auto fits = [&](uint8_t number, uint8_t any) {
        return number == any || number <= most_reads(id);
    };
    return fits(given->responder_resources, RDMA_MAX_RESP_RES) &&
                   fits(given->initiator_depth, RDMA_MAX_INIT_DEPTH)
               ? 0
               : EINVAL;
}

void take_queue_pair(Id& id, const rdma_conn_param* given) {
    const ibv_qp* qp = id.rdma.qp;
    if (qp != nullptr) {
        id.own.qp_number = qp->qp_num;
        id.own.srq = qp->srq != nullptr ? 1 : 0;
    } else if (given != nullptr) {
        id.own.qp_number = given->qp_num;
        id.own.srq = given->srq;
    }
    if (given == nullptr) return;
    id.own.flow_control = given->flow_control;
    id.own.rnr_retry_count = given->rnr_retry_count;
}

// What the program says of reads; nothing if it leaves that to the device.
std::optional<uint8_t> resources_of(const rdma_conn_param* given) {
    if (given == nullptr || given->responder_resources == uint8_t{RDMA_MAX_RESP_RES})
        return std::nullopt;
    return given->responder_resources;
}
std::optional<uint8_t> depth_of(const rdma_conn_param* given) {
    if (given == nullptr || given->initiator_depth == uint8_t{RDMA_MAX_INIT_DEPTH})
        return std::nullopt;
    return given->initiator_depth;
}

void take_request_parameters(Id& id, const rdma_conn_param* given) {
    take_queue_pair(id, given);
    id.own.responder_resources = resources_of(given).value_or(most_reads(id));
    id.own.initiator_depth = depth_of(given).value_or(most_reads(id));
    if (given != nullptr) id.own.retry_count = given->retry_count;
}

// What the program says, or what the request asks for and the device has.
void take_reply_parameters(Id& id, const rdma_conn_param* given) {
    take_queue_pair(id, given);
    id.own.responder_resources =
        resources_of(given).value_or(std::min(id.own.responder_resources, most_reads(id)));
    id.own.initiator_depth =
        depth_of(given).value_or(std::min(id.own.initiator_depth, most_reads(id)));
}

bool add_given_data(const Id& id, Message& message, const rdma_conn_param* given) {
    return given == nullptr ||
           add_private_data(id, message, given->private_data, given->private_data_len);
}

// How long a request waits for a listener. On real networks, addresses and routes take this time to
// resolve, and programs that start their two sides at once rely on it.
constexpr auto kListenerWait = std::chrono::milliseconds(500);

// With the lock held. 0 or an errno.
int request(Id& id, const rdma_conn_param* given) {
    const auto next = step(id.state, Input::kConnect);
    if (!next) return EINVAL;
    take_request_parameters(id, given);
    Message message = compose(id, MessageKind::kRequest);
    if (!add_given_data(id, message, given)) return EINVAL;
    if (!Registry::instance().start()) return errno;
    id.state = next->next;
    id.request.message = message;
    id.request.give_up = Watcher::Clock::now() + kListenerWait;
    send_request(id);
    return 0;
}

// The answer to a request, when the queue pair is ready.
int reply(Id& id, const rdma_conn_param* given) {
    const std::lock_guard lock(Registry::instance());
    Message message = compose(id, MessageKind::kReply);
    if (!add_given_data(id, message, given)) return fail_call(EINVAL);
    return apply(id, Input::kAccept, &message) ? 0 : -1;
}

int establish(Id& id) {
    const std::lock_guard lock(Registry::instance());
    return apply(id, Input::kEstablish) ? 0 : -1;
}

int reject(rdma_cm_id* id, const void* data, uint8_t size, int why) {
    Id& object = *Id::of(id);
    const std::lock_guard lock(Registry::instance());
    Message message = compose(object, MessageKind::kReject);
    message.reason = static_cast<uint32_t>(object.datagram() ? reason::kDatagramRejected : why);
    if (!add_private_data(object, message, data, size)) return fail_call(EINVAL);
    return apply(object, Input::kReject, &message) ? 0 : -1;
}

State state_of(const Id& id) {
    const std::lock_guard lock(Registry::instance());
    return id.state;
}

}  // namespace

SOFTHCA_EXPORT int rdma_listen(rdma_cm_id* id, int backlog) {
    Id& object = *Id::of(id);
    if (state_of(object) == State::kIdle) {
        sockaddr_in any{};
        any.sin_family = AF_INET;
        if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)) != 0) return -1;
    }
    const std::lock_guard lock(Registry::instance());
    if (!step(object.state, Input::kListen)) return fail_call(EINVAL);
    if (listen_port(object.fd) != 0 || !Registry::instance().watch(object)) return -1;
    object.backlog =
        backlog > 0 ? std::min(static_cast<uint32_t>(backlog), kMaxBacklog) : kMaxBacklog;
    apply(object, Input::kListen);
    return 0;
}

SOFTHCA_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* given) try {
    Id& object = *Id::of(id);
    if (const int error = check_parameters(object, given)) return fail_call(error);
    {
        const std::lock_guard lock(Registry::instance());
        if (const int error = request(object, given)) return fail_call(error);
    }
    return complete(object);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* given) try {
    Id& object = *Id::of(id);
    const State state = state_of(object);
    if (state == State::kReplied) return establish(object);
    if (state != State::kRequested) return fail_call(EINVAL);
    if (const int error = check_parameters(object, given)) return fail_call(error);
    take_reply_parameters(object, given);
    if (!object.datagram() && (modify_to_rtr(object) != 0 || modify_to_rts(object) != 0)) return -1;
    if (reply(object, given) != 0) {
        const int error = errno;
        modify_to_error(object);
        return fail_call(error);
    }
    if (!object.datagram()) return complete(object);
    if (object.sync && id->event != nullptr) {
        rdma_ack_cm_event(id->event);
        id->event = nullptr;
    }
    return 0;
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT int rdma_establish(rdma_cm_id* id) {
    if (id->qp != nullptr) return fail_call(EINVAL);
    return establish(*Id::of(id));
}

SOFTHCA_EXPORT int rdma_reject(rdma_cm_id* id, const void* data, uint8_t size) {
    return reject(id, data, size, reason::kByConsumer);
}

SOFTHCA_EXPORT int rdma_reject_ece(rdma_cm_id* id, const void* data, uint8_t size) {
    return reject(id, data, size, reason::kVendorOption);
}

SOFTHCA_EXPORT int rdma_notify(rdma_cm_id* id, ibv_event_type event) try {
    if (event != IBV_EVENT_COMM_EST) return fail_call(EINVAL);
    const std::lock_guard lock(Registry::instance());
    return apply(*Id::of(id), Input::kNotify) ? 0 : -1;
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT int rdma_disconnect(rdma_cm_id* id) try {
    Id& object = *Id::of(id);
    if (id->verbs == nullptr) return fail_call(EINVAL);
    if (modify_to_error(object) != 0) return -1;
    {
        const std::lock_guard lock(Registry::instance());
        if (!apply(object, Input::kDisconnect)) return -1;
        if (object.state != State::kDisconnecting && object.state != State::kDisconnected) return 0;
    }
    return complete(object);
} catch (const std::bad_alloc&) {
    return fail_call(ENOMEM);
}

SOFTHCA_EXPORT int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
    if (ece == nullptr || ece->comp_mask != 0) return fail_call(EINVAL);
    Id::of(id)->own.ece = *ece;
    return 0;
}

SOFTHCA_EXPORT int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
    if (id->qp != nullptr || ece == nullptr) return fail_call(EINVAL);
    *ece = {Id::of(id)->peer.ece_vendor, Id::of(id)->peer.ece_options, 0};
    return 0;
}

}  // namespace softhca::cm
