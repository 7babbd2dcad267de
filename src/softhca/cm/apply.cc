// SPDX-License-Identifier: BSD-3-Clause
// Carries out the steps of the table of states: messages to the peer, deadlines and events.
#include <algorithm>
#include <cstring>

#include "softhca/cm/address.h"
#include "softhca/cm/objects.h"
#include "softhca/cm/port.h"

namespace softhca::cm {

namespace {

// About as long as InfiniBand's connection manager repeats a request without an answer.
constexpr auto kAnswerTimeout = std::chrono::seconds(70);
// After a connection, until the queue pair may be used again; on a real adapter until no packet of
// it is on its way.
constexpr auto kTimeWait = std::chrono::seconds(1);

void set_deadline(Id& id, Input input) {
    if (input == Input::kDisconnect && id.state != State::kDisconnecting) return;
    switch (id.state) {
        case State::kConnecting:
        case State::kAccepted:
        case State::kDisconnecting:
            return Registry::instance().set_deadline(id, kAnswerTimeout);
        case State::kDisconnected:
            if (input == Input::kTimeout) return;
            return Registry::instance().set_deadline(id, kTimeWait);
        default:
            return Registry::instance().clear_deadline(id);
    }
}

void fill_connection(const Message& message, Event& event) {
    rdma_conn_param& to = event.rdma.param.conn;
    to.responder_resources = message.initiator_depth;
    to.initiator_depth = message.responder_resources;
    to.flow_control = message.flow_control;
    to.retry_count = message.retry_count;
    to.rnr_retry_count = message.rnr_retry_count;
    to.srq = message.srq;
    to.qp_num = message.qp_number;
}

void fill_datagram(const Id& id, const Message& message, Event& event) {
    rdma_ud_param& to = event.rdma.param.ud;
    to.ah_attr = address_vector(id, message.address);
    to.qp_num = message.qp_number;
    to.qkey = message.qkey;
}

// The first two members of both kinds of parameters.
void fill_private_data(bool datagram, const Message& message, Event& event) {
    const uint32_t size = private_data_limit(message.kind, datagram);
    if (size == 0) return;
    std::memcpy(event.private_data, message.private_data, message.private_data_size);
    auto& connection = event.rdma.param.conn;
    auto& service = event.rdma.param.ud;
    (datagram ? service.private_data : connection.private_data) = event.private_data;
    (datagram ? service.private_data_len : connection.private_data_len) =
        static_cast<uint8_t>(size);
}

}  // namespace

std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status) {
    auto event = std::make_unique<Event>();
    event->rdma.id = &id.rdma;
    event->rdma.event = type;
    event->rdma.status = status;
    event->counted = &id;
    return event;
}

void put_event(Id& id, rdma_cm_event_type type, int status, const Message* from_peer,
               Id* listener) {
    auto event = make_event(id, type, status);
    if (listener != nullptr) {
        event->rdma.listen_id = &listener->rdma;
        event->counted = listener;
    }
    if (from_peer != nullptr) {
        if (id.datagram())
            fill_datagram(id, *from_peer, *event);
        else
            fill_connection(*from_peer, *event);
        fill_private_data(id.datagram(), *from_peer, *event);
    }
    put_event(id, std::move(event));
}

void put_event(Id& id, std::unique_ptr<Event> event) {
    channel_of(id.rdma.channel)->events.put(event.get());
    (void)event.release();
}

Message compose(Id& id, MessageKind kind) {
    Message message{};
    message.magic = Message::kMagic;
    message.kind = kind;
    message.port_space = static_cast<uint32_t>(id.rdma.ps);
    message.source = id.source();
    message.destination = id.destination();
    if (id.rdma.verbs != nullptr) message.address = port_address(id);
    message.qp_number = id.own.qp_number;
    message.psn = id.own.psn;
    message.qkey = RDMA_UDP_QKEY;
    message.ece_vendor = id.own.ece.vendor_id;
    message.ece_options = id.own.ece.options;
    message.responder_resources = id.own.responder_resources;
    message.initiator_depth = id.own.initiator_depth;
    message.flow_control = id.own.flow_control;
    message.retry_count = std::min<uint8_t>(id.own.retry_count, 7);
    message.rnr_retry_count = std::min<uint8_t>(id.own.rnr_retry_count, 7);
    message.srq = id.own.srq;
    return message;
}

bool add_private_data(const Id& id, Message& message, const void* data, size_t size) {
    if (data == nullptr) size = 0;
    if (size > private_data_limit(message.kind, id.datagram())) return false;
    if (size != 0) std::memcpy(message.private_data, data, size);
    message.private_data_size = static_cast<uint16_t>(size);
    return true;
}

void send_request(Id& id) {
    constexpr auto kRetry = std::chrono::milliseconds(10);
    Registry& registry = Registry::instance();
    const int error = connect_port(
        id.fd, {fabric_name(), static_cast<uint32_t>(id.rdma.ps), port_number(id.destination())});
    id.request.waits_for_listener = error != 0 && Watcher::Clock::now() < id.request.give_up;
    if (id.request.waits_for_listener)
        registry.set_deadline(id, kRetry);
    else if (error == ECONNREFUSED)
        apply(id, id.datagram() ? Input::kRefusedDatagram : Input::kRefused);
    else if (error != 0)  // a listener that is stopped has more connections than it can keep
        apply(id, Input::kTimeout);
    else if (registry.watch(id) && send_message(id.fd, id.request.message))
        registry.set_deadline(id, kAnswerTimeout);
    else
        apply(id, Input::kHangUp);
}

bool apply(Id& id, Input input, Message* message, const Message* from_peer, int status) {
    const auto next = step(id.state, input, id.datagram());
    if (!next) {
        set_error(EINVAL);
        return false;
    }
    if (next->message) {
        const Message own = message != nullptr ? *message : compose(id, *next->message);
        const bool told = id.fd >= 0 && send_message(id.fd, own);
        // A peer that has gone is no reason not to disconnect.
        const bool disconnects = *next->message == MessageKind::kDisconnect ||
                                 *next->message == MessageKind::kDisconnectReply;
        if (!told && !disconnects) {
            set_error(ECONNRESET);
            return false;
        }
    }
    id.state = next->next;
    set_deadline(id, input);
    if (!next->event) return true;
    if (status == 0) status = next->status;
    if (*next->event == RDMA_CM_EVENT_REJECTED && from_peer != nullptr)
        status = static_cast<int>(from_peer->reason);
    put_event(id, *next->event, status, from_peer);
    return true;
}

}  // namespace softhca::cm
