// SPDX-License-Identifier: BSD-3-Clause
// The sender's side of the RDMA writes that wait for the timing model: which of them the receiver
// may place.
#pragma once

#include <cstdint>
#include <optional>

#include "softhca/fabric/host.h"

namespace softhca {

class Qp;
struct Wqe;

// The writes from the head of a send queue on that wait for their time, and that the receiver may
// place, in order. Under the queue pair's execute_mutex_.
class InboundQueue {
  public:
    // Hands a write to the receiver, if it fits, passes the checks of both ends, and there is
    // room. Its next packet arrives at `due` (ns). False if it stays with the sender alone.
    bool push(Qp& qp, Wqe& wqe, uint64_t position, uint64_t due);
    // Before a send behind these writes is delivered: makes sure that they arrive whatever becomes
    // of the sender. False if their bytes are not all staged; then no send may overtake them.
    bool commit(Qp& qp);
    // Frees the entry of the write at `position`, the first one, when that write has ended
    // successfully; does nothing if there is none.
    void pop(Host& host, uint32_t qp_number, uint64_t position);
    // Frees all entries, except for committed ones, which are the receiver's then. Writes that are
    // not placed yet stay so.
    void clear(Host& host, uint32_t qp_number);
    bool empty() const { return size_ == 0; }

  private:
    friend class InboundLock;
    static constexpr uint32_t kCapacity = InboundWrite::kMaxQueued;

    struct Entry {
        uint32_t index;  // in the receiver's slot
        uint64_t position;
    };

    Entry& entry(uint32_t at) { return entries_[(first_ + at) % kCapacity]; }
    void free_entry(Host& host, uint32_t qp_number, uint32_t index, bool ended);

    uint32_t first_ = 0;  // index in entries_, which is a ring
    uint32_t size_ = 0;
    uint32_t committed_ = 0;  // how many from the first one on are
    uint32_t staged_ = 0;     // the same for staged ones
    uint32_t process_ = 0;
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
    bool busy_ = false;
};

}  // namespace softhca
