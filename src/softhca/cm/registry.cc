// SPDX-License-Identifier: BSD-3-Clause
// The identifiers of a process, and what comes to them through their sockets.
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include "softhca/cm/address.h"
#include "softhca/cm/objects.h"
#include "softhca/cm/port.h"
#include "softhca/verbs/process_adapter.h"

namespace softhca::cm {

namespace {

// For the request of a connection, which its process sends when it has connected.
constexpr auto kArrivalTimeout = std::chrono::seconds(10);
// For a process that has no descriptors left.
constexpr auto kDescriptorWait = std::chrono::milliseconds(100);

uint32_t random_psn() {
    static std::mt19937 generator{std::random_device{}()};
    return generator() & 0xffffff;
}

Input input_of(const Message& message, bool datagram) {
    switch (message.kind) {
        case MessageKind::kRequest:
            return Input::kRequest;
        case MessageKind::kReply:
            return datagram ? Input::kReplyDatagram : Input::kReply;
        case MessageKind::kReject:
            return datagram ? Input::kRejectedDatagram : Input::kRejected;
        case MessageKind::kReady:
            return Input::kReady;
        case MessageKind::kDisconnect:
            return Input::kDisconnectRequest;
        case MessageKind::kDisconnectReply:
            break;
    }
    return Input::kDisconnectReply;
}

// The peer's part of the connection. What it answers with is the other side of what this one asks.
void take_peer(Id& id, const Message& message) {
    id.peer = message;
    id.answered = true;
    id.own.initiator_depth = message.responder_resources;
    id.own.responder_resources = message.initiator_depth;
    if (message.kind == MessageKind::kRequest) id.own.retry_count = message.retry_count;
    describe_path(id, message.address);
}

// What a new identifier has of the request that made it. False if it cannot use the device.
bool take_request(Id& id, const Message& request) {
    id.source() = request.destination;
    id.destination() = request.source;
    const Location location = locate(request.destination);
    if (!use_device(id, location.port)) return false;
    take_peer(id, request);
    return true;
}

}  // namespace

Registry& Registry::instance() {
    // Never destroyed: the thread uses it while the process exits.
    static Registry* registry = [] {
        auto* made = new Registry;
        adapter();  // whose lock is taken after this one, here as elsewhere
        pthread_atfork([] { instance().lock(); }, [] { instance().unlock(); },
                       [] {
                           instance().after_fork_in_child();
                           instance().unlock();
                       });
        return made;
    }();
    return *registry;
}

// The parent's connections are not the child's: if the parent ends, its peers must see it.
void Registry::after_fork_in_child() {
    for (const auto& [key, id] : ids_) {
        if (id->fd >= 0) ::close(id->fd);
        id->fd = -1;
        id->state = State::kFailed;
    }
    watcher_.reset();
    forget_devices();
}

Id* Registry::find(uint64_t key) {
    const auto found = ids_.find(key);
    return found == ids_.end() ? nullptr : found->second;
}

Id* Registry::create(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                     ibv_qp_type type) {
    auto id = std::make_unique<Id>();
    id->key = next_key_++;
    id->rdma.channel = channel;
    id->rdma.context = context;
    id->rdma.ps = port_space;
    id->rdma.qp_type = type;
    id->own.psn = random_psn();
    ids_.emplace(id->key, id.get());
    return id.release();
}

void Registry::close_socket(Id& id) {
    if (id.fd < 0) return;
    watcher_.forget(id.fd);
    ::close(id.fd);
    id.fd = -1;
}

template <typename Matches>
void Registry::remove_all(Matches&& matches) {
    for (auto next = ids_.begin(); next != ids_.end();) {
        Id* id = (next++)->second;
        if (!matches(*id)) continue;
        remove(*id);
        delete id;
    }
}

void Registry::remove(Id& id) {
    if (id.state == State::kListening) {
        remove_all([&](const Id& arriving) {
            return arriving.state == State::kArriving && arriving.listener == id.key;
        });
    }
    if (const auto kind = farewell(id.state); kind && id.fd >= 0) {
        Message message = compose(id, *kind);
        message.reason = reason::kByConsumer;
        send_message(id.fd, message);
    }
    close_socket(id);
    watcher_.clear_deadline(id.key);
    ids_.erase(id.key);
    channel_of(id.rdma.channel)->events.remove_if([&](Event* event) {
        if (event->counted != &id) return false;
        // Nobody knows the identifier of a request that was not read.
        Id* fresh = event->rdma.listen_id != nullptr ? Id::of(event->rdma.id) : nullptr;
        if (fresh != nullptr) {
            fresh->rdma.event = nullptr;
            fresh->listener = id.key;
        }
        delete event;
        return true;
    });
    if (id.state != State::kListening) return;
    remove_all([&](const Id& fresh) { return fresh.listener == id.key; });
}

void Registry::accept_all(Id& listener) {
    for (int fd = accept_port(listener.fd); fd >= 0; fd = accept_port(listener.fd)) {
        Id* id = create(listener.rdma.channel, listener.rdma.context, listener.rdma.ps,
                        listener.rdma.qp_type);
        id->fd = fd;
        id->state = State::kArriving;
        id->listener = listener.key;
        set_deadline(*id, kArrivalTimeout);
        if (watch(*id)) continue;
        remove(*id);
        delete id;
    }
    // Without descriptors, looks again when there may be some: the connection stays where it is.
    if (errno != EMFILE && errno != ENFILE) return;
    watcher_.forget(listener.fd);
    set_deadline(listener, kDescriptorWait);
}

// False if nothing more can be read. What is read may end an identifier that the program does not
// know yet.
bool Registry::read_one(Id& id) {
    Message message;
    size_t size = 0;
    const Received received = receive_message(id.fd, message, size);
    if (received == Received::kNothing) return false;
    // A peer that sends nonsense is gone.
    const bool good = received == Received::kMessage && valid(message, size, id.datagram()) &&
                      (message.kind == MessageKind::kRequest) == (id.state == State::kArriving);
    if (id.state == State::kArriving) {
        arrive(id, good ? &message : nullptr);
    } else if (good) {
        if (message.kind == MessageKind::kReply && id.state == State::kConnecting)
            take_peer(id, message);
        apply(id, input_of(message, id.datagram()), nullptr, &message);
    } else {
        close_socket(id);
        apply(id, Input::kHangUp);
    }
    return true;
}

// The first message of a connection makes it known to the program, if it can take one more.
void Registry::arrive(Id& id, const Message* request) {
    Id* listener = find(id.listener);
    const bool wanted = listener != nullptr && request != nullptr &&
                        request->port_space == static_cast<uint32_t>(id.rdma.ps) &&
                        listener->requests.load() < listener->backlog && take_request(id, *request);
    if (wanted) {
        watcher_.clear_deadline(id.key);
        id.listener = 0;
        id.state = step(id.state, Input::kRequest)->next;
        listener->requests.fetch_add(1);
        put_event(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, request, listener);
    } else {
        remove(id);
        delete &id;
    }
}

void Registry::readable(uint64_t key) try {
    for (Id* id = find(key); id != nullptr && id->fd >= 0; id = find(key)) {
        if (id->state == State::kListening) return accept_all(*id);
        if (!read_one(*id)) return;
    }
} catch (const std::bad_alloc&) {
    // The peer sees that its connection ends.
    if (Id* id = find(key); id != nullptr && id->state != State::kListening) close_socket(*id);
}

void Registry::expired(uint64_t key) try {
    Id* id = find(key);
    if (id == nullptr) return;
    if (id->state == State::kArriving) {
        remove(*id);
        delete id;
        return;
    }
    if (id->state == State::kListening) {
        if (!watch(*id)) set_deadline(*id, kDescriptorWait);
        return;
    }
    if (id->request.waits_for_listener) return send_request(*id);
    close_socket(*id);
    apply(*id, Input::kTimeout);
} catch (const std::bad_alloc&) {
}

}  // namespace softhca::cm
