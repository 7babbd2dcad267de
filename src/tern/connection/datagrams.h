// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tern/base/tunables.h"
#include "tern/connection/address_handles.h"
#include "tern/connection/packet.h"
#include "tern/verbs/handles.h"
#include "tern/verbs/memory.h"
#include "tern/verbs/port.h"

namespace tern {

class Acceptor;

// Handshake packets.
struct DatagramCounts {
    uint64_t sent = 0;
    uint64_t received = 0;
    // By this side, because too many wait; what the device drops is not known.
    uint64_t dropped = 0;
};

// The unreliable datagram queue pair over which an interface makes its connections. Control path.
//
// Two threads may use it: the interface's own, and a background thread, which answers while the
// interface's thread computes. The mutex protects all members below it.
class Datagrams final : AddressHandles::Owner {
  public:
    // Null on failure; `why` has the reason.
    static std::unique_ptr<Datagrams> create(const verbs::Device& device, const verbs::Port& port,
                                             std::string& why);
    ~Datagrams();

    uint32_t qp_num() const { return qp_->qp_num; }
    // The contexts of the queue pair and the completion queue (verbs::next_identity()).
    const void* identity() const { return qp_->qp_context; }
    bool is(const void* cq_identity) const { return cq_identity == cq_->cq_context; }
    // Whether polling the completion queue has failed. For any thread.
    bool failed() const { return failed_.load(std::memory_order_relaxed); }
    size_t registered_bytes() const;
    DatagramCounts counts() const;
    // Sets the own address, which answer() sends.
    void set_self(const PeerAddress& self) { self_ = self; }

    // Sends a packet to the interface that it names, at the port `to`, perhaps when the address has
    // been resolved, or when sends have completed. Drops it if many wait already: a side that needs
    // an answer repeats its packet.
    void send(const Packet& packet, const PortAddress& to);
    // Waits, for a few milliseconds at most, until all sends are complete. Drops packets that come
    // meanwhile.
    void complete_sends();
    // Takes the next received packet, and skips malformed ones. False: there is none.
    bool receive(Packet& packet);
    // Takes a port to which nothing can be sent, and the reason, an errno value. False: there is
    // none.
    bool take_unreachable(PortAddress& to, int& error);

    // Readable when a completion has come since arm() or answer() was called last.
    int event_fd() const { return events_->fd; }
    // Readable when answer() has put a packet aside, or accepted a connection, or when a port is
    // unreachable.
    int aside_fd() const { return aside_fd_; }
    // Requests an event. False: a packet or an unreachable port is there already, or the request
    // has failed.
    bool arm();
    // For the background thread: lets `acceptor` accept connections, answers other requests with
    // kAlive, and puts packets other than pings aside for receive(). `now`: for handshakes.
    void answer(Acceptor& acceptor, uint64_t now);

    static constexpr uint32_t kReceiveSize = 128;

  private:
    static constexpr uint32_t kGrh = 40;
    static constexpr uint32_t kKey = 0x1ee7;  // Q_Key; below 2^31, so not privileged

    static_assert(kReceiveSize >= kGrh + Packet::kMaxSize);

    explicit Datagrams(const verbs::Port& port)
        : port_(port), address_handles_(port, mutex_, *this) {}
    bool open(const verbs::Device& device);
    void take_events();
    // AddressHandles::Owner
    void on_made(const PortAddress& to, const AddressHandles::Handle& handle) override;
    void on_refused(const PortAddress& to, int error) override;

    void send_locked(const Packet& packet, const PortAddress& to);
    void send_or_wait(const Packet& packet, const AddressHandles::Handle& handle);
    // False: all places are taken.
    bool post(const Packet& packet, const AddressHandles::Handle& handle);
    void post_waiting();
    bool sends_under_way() const;
    bool poll(Packet& packet);
    void on_failed(bool send, uint32_t slot);
    bool recover();
    // More receives, a multiple of kDatagramReceives. False and errno: no memory can be registered.
    bool add_receives(uint32_t count);
    void grow();
    void put_aside(const Packet& packet);
    void signal_aside();
    void clear_aside();
    // False and errno: the device refuses.
    bool post_receive(uint32_t slot);
    std::byte* receive_slot(uint32_t slot) const {
        return receives_.memory[slot / kDatagramReceives].data() +
               size_t{slot % kDatagramReceives} * kReceiveSize;
    }
    std::byte* send_slot(uint32_t slot) { return memory_.data() + size_t{slot} * Packet::kMaxSize; }

    static constexpr size_t kMostAside = 1024;
    static constexpr size_t kMostUnsent = 1024;

    struct Receives {
        uint32_t count() const { return static_cast<uint32_t>(memory.size()) * kDatagramReceives; }

        std::vector<verbs::RegisteredMemory> memory;  // of kDatagramReceives each
        uint32_t most = kDatagramReceives;
        uint32_t in_a_row = 0;             // packets received since the queue was empty
        std::vector<uint32_t> not_posted;  // those that have failed
    };
    // A packet that waits for its address handle.
    struct Unsent {
        Packet packet;
        PortAddress to;
    };
    // A packet that waits for a place in the send queue.
    struct Waiting {
        Packet packet;
        AddressHandles::Handle handle;
    };
    struct Unreachable {
        PortAddress port;
        int error;
    };

    verbs::Port port_;
    PeerAddress self_;
    verbs::RegisteredMemory memory_;  // of sends
    verbs::CompletionChannel events_;
    verbs::CompletionQueue cq_;
    int aside_fd_ = -1;
    std::atomic<bool> failed_ = false;  // written by the thread that polls

    mutable std::mutex mutex_;
    DatagramCounts counts_;
    Receives receives_;
    std::deque<Packet> aside_;
    bool aside_signaled_ = false;  // aside_fd_ is readable
    std::deque<Unsent> unsent_;
    std::deque<Waiting> waiting_;
    std::vector<Unreachable> unreachable_;
    std::atomic<bool> any_unreachable_ = false;  // written under the mutex; orders no other data
    AddressHandles address_handles_;
    std::array<AddressHandles::Handle, kDatagramSends> handles_;  // of sends under way; null: free
    verbs::QueuePair qp_;
    bool broken_ = false;  // a work request has failed, and recover() has not succeeded
};

}  // namespace tern
