// SPDX-License-Identifier: BSD-3-Clause
// The objects of rdma_cm to which programs hold pointers, and what a process has of them.
#pragma once

#include <infiniband/sa.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "softhca/cm/message.h"
#include "softhca/cm/state.h"
#include "softhca/cm/watcher.h"
#include "softhca/verbs/event_queue.h"
#include "softhca/verbs/objects.h"

namespace softhca::cm {

struct Id;

// An event, from when it happens until the program acknowledges it.
struct Event {
    rdma_cm_event rdma{};
    Id* counted = nullptr;  // whose destruction waits for the acknowledgment
    uint8_t private_data[private_data::kMost]{};
};

struct Channel {
    rdma_event_channel rdma{};
    EventQueue<Event*> events;
};

// What the program gave for the queue pair, or what librdmacm's default is.
struct Parameters {
    uint32_t qp_number = 0;
    uint32_t psn = 0;  // of the first message that this side sends
    uint8_t responder_resources = 0;
    uint8_t initiator_depth = 0;
    uint8_t flow_control = 0;
    uint8_t retry_count = 7;
    uint8_t rnr_retry_count = 7;
    uint8_t srq = 0;
    ibv_ece ece{};
};

// A multicast group that an identifier has joined.
struct Joined {
    SocketAddress address;  // that the program gave
    PortAddress group;
    bool attached;  // the queue pair
};

struct Id {
    rdma_cm_id rdma{};
    uint64_t key = 0;
    State state = State::kIdle;
    int fd = -1;        // the socket: of a port, and later of the connection
    bool sync = false;  // calls wait for their event, which comes to a channel of its own
    Unacknowledged unacknowledged;
    uint32_t acknowledged = 0;
    Parameters own;
    Message peer{};  // the request or the reply; zero before
    bool answered = false;
    bool failed_to_connect = false;  // the queue pair: later events of the connection are dropped
    uint8_t timeout = 18;            // of acknowledgments, as ibv_qp_attr::timeout
    ibv_sa_path_rec path{};
    struct Request {
        Message message{};
        bool waits_for_listener = false;  // to be sent, and until when:
        Watcher::Clock::time_point give_up{};
    } request;
    std::vector<Joined> groups;

    // of a listening identifier
    uint64_t listener = 0;                   // of an arriving connection: the listener's key
    std::atomic<uint32_t> requests{0};       // events that wait to be read
    uint32_t backlog = 0;                    // the most of them
    std::unique_ptr<ibv_qp_init_attr> make;  // for the queue pairs of rdma_get_request()

    static Id* of(rdma_cm_id* id) { return reinterpret_cast<Id*>(id); }
    bool datagram() const { return rdma.qp_type == IBV_QPT_UD; }
    SocketAddress& source() { return *reinterpret_cast<SocketAddress*>(&rdma.route.addr.src_addr); }
    SocketAddress& destination() {
        return *reinterpret_cast<SocketAddress*>(&rdma.route.addr.dst_addr);
    }
};

inline Channel* channel_of(rdma_event_channel* channel) {
    return reinterpret_cast<Channel*>(channel);
}

// All identifiers of the process. The lock protects them, and is taken by the thread that watches
// their sockets. Nobody calls verbs that may wait while holding it.
class Registry : private Watcher::Sink {
  public:
    static Registry& instance();

    void lock() override { mutex_.lock(); }
    void unlock() override { mutex_.unlock(); }

    // With the lock held. The identifier is idle.
    Id* create(rdma_event_channel* channel, void* context, rdma_port_space port_space,
               ibv_qp_type type);
    // Ends the connection, tells the peer, and removes the identifier and its events. The caller
    // frees it when its events are acknowledged.
    void remove(Id& id);
    void close_socket(Id& id);
    bool start() { return watcher_.start(); }
    bool watch(Id& id) { return watcher_.watch(id.fd, id.key); }
    void set_deadline(Id& id, Watcher::Clock::duration after) {
        watcher_.set_deadline(id.key, after);
    }
    void clear_deadline(Id& id) { watcher_.clear_deadline(id.key); }

  private:
    Registry() : watcher_(*this) {}
    Id* find(uint64_t key);
    template <typename Matches>
    void remove_all(Matches&& matches);
    void accept_all(Id& listener);
    bool read_one(Id& id);
    void arrive(Id& id, const Message* request);
    void readable(uint64_t key) override;
    void expired(uint64_t key) override;
    void after_fork_in_child();

    std::mutex mutex_;
    uint64_t next_key_ = 1;
    std::map<uint64_t, Id*> ids_;
    Watcher watcher_;
};

// What follows from an input: the state, the event and the message to the peer, which has what the
// caller has put into *message. `from_peer`: what the event is about. False if the input does not
// fit the state, or if the peer cannot be told. With the lock held.
bool apply(Id& id, Input input, Message* message = nullptr, const Message* from_peer = nullptr,
           int status = 0);
// Sends the request of an identifier that connects. While nobody listens, the registry calls it
// again. With the lock held.
void send_request(Id& id);
// A message that says who this side is and what its queue pair is.
Message compose(Id& id, MessageKind kind);
// Copies the private data. False if it is too long for the message.
bool add_private_data(const Id& id, Message& message, const void* data, size_t size);

// Puts an event into the channel of an identifier.
void put_event(Id& id, rdma_cm_event_type type, int status, const Message* from_peer,
               Id* listener = nullptr);
// Makes and puts an event in two steps, for events about something else.
std::unique_ptr<Event> make_event(Id& id, rdma_cm_event_type type, int status);
void put_event(Id& id, std::unique_ptr<Event> event);

// nullptr with errno set on failure. Without a channel, calls on the identifier wait.
rdma_cm_id* make_id(rdma_event_channel* channel, void* context, rdma_port_space port_space,
                    ibv_qp_type type);

// The states of an identifier's queue pair. They do nothing without one, and return 0, or -1 with
// errno set.
int modify_to_rtr(Id& id);
int modify_to_rts(Id& id);
int modify_to_error(Id& id);

// For an identifier without a channel of the program: waits for the event of what has begun.
int complete(Id& id);

}  // namespace softhca::cm
