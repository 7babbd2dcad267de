// SPDX-License-Identifier: BSD-3-Clause
// The sender's side of the RDMA writes and messages that wait for the timing model: which of them
// the receiver may place.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/fabric/host.h"

namespace softhca {

class IovList;
class Qp;
struct Outcome;
struct Wqe;

// Where the bytes of a message go that takes a receive.
struct MessageTarget {
    uint32_t process;    // whose memory it is
    uint32_t responder;  // QP number
    // Of a send; nullptr: of an RDMA write with immediate, whose work request says where.
    const RecvWqe* receive;
    uint32_t srq;  // of the receive; 0: the queue pair's own
    uint32_t pd;
    uint64_t offset;  // in the receive's memory
    bool plain;       // its memory is shared with the sender
};

// What from the head of a send queue on waits for its time, and what the receiver may place, in
// order. Under the queue pair's execute_mutex_.
class InboundQueue {
  public:
    // Hands a write to the receiver, if it fits, passes the checks of both ends, and there is
    // room. False if it stays with the sender alone.
    bool push(Qp& qp, Wqe& wqe);
    // Hands the bytes of a message, `local`, to the receiver, before its completion is written.
    // They arrive whatever becomes of the sender. Under the responder's lock. False if there is no
    // room or the message is too long: then nothing has changed. Sets *failed if `local` cannot be
    // read.
    bool push_message(Qp& qp, const Wqe& wqe, const IovList& local, const MessageTarget& target,
                      bool* failed);
    static bool fits_message(const Qp& qp, const Wqe& wqe);
    // Whether the bytes of the delivered message at the head are placed: complete, or when to call
    // again. Places them if they have arrived.
    Outcome finish_message(Qp& qp, const Wqe& wqe, uint64_t now);
    // Places what has arrived by `now`. Whether that is everything.
    bool settle(Qp& qp, uint64_t now);
    // Before a send behind these writes is delivered: makes sure that they arrive whatever becomes
    // of the sender. False if their bytes are not all staged; then no send may overtake them.
    bool commit(Qp& qp);
    // Frees the entry of the write at `position`, the first one, when that write has ended
    // successfully; does nothing if there is none.
    void pop(Host& host, uint32_t qp_number, uint64_t position);
    // Takes back the last one, whose completion could not be written.
    void take_back(Host& host, uint32_t qp_number);
    // Frees all entries, except for committed ones, which are the receiver's then. Writes that are
    // not placed yet stay so.
    void clear(Host& host, uint32_t qp_number);
    bool empty() const { return size_ == 0; }

  private:
    friend class InboundLock;
    static constexpr uint32_t kCapacity = InboundWrite::kMaxQueued;

    struct Entry {
        uint32_t index;  // in the receiver's slot
        uint32_t process;
        uint64_t position;
    };

    Entry& entry(uint32_t at) { return entries_[(first_ + at) % kCapacity]; }
    InboundWrite& shared(Host& host, const Entry& entry) {
        return host.process(entry.process).inbound.entries[entry.index];
    }
    void publish(InboundWrite& write, uint32_t process, Qp& qp, const Wqe& wqe);
    void free_entry(Host& host, uint32_t qp_number, const Entry& entry, bool ended);

    uint32_t first_ = 0;  // index in entries_, which is a ring
    uint32_t size_ = 0;
    uint32_t committed_ = 0;  // how many from the first one on are
    uint32_t staged_ = 0;     // the same for staged ones
    Entry entries_[kCapacity] = {};
};

// The sender's lock on the write at the head of its queue while it places packets itself.
class InboundLock {
  public:
    // Locks the write if it has been handed over, and takes over the receiver's progress.
    InboundLock(Qp& qp, Wqe& wqe);
    ~InboundLock();
    InboundLock(const InboundLock&) = delete;
    InboundLock& operator=(const InboundLock&) = delete;

    // Whether the receiver is placing packets now.
    bool busy() const { return busy_; }
    // The write's next packet arrives at `due` (ns). False if the write has not been handed over.
    bool wait_until(uint64_t due);

  private:
    Wqe& wqe_;
    std::optional<AccessGuard> guard_;  // on the receiver, whose slot holds the write
    InboundWrite* write_ = nullptr;     // locked
    uint32_t receiver_ = 0;             // its slot
    bool busy_ = false;
};

}  // namespace softhca
