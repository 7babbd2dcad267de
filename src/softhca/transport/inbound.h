// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes that wait for the timing model. The receiving process can place their packets, too,
// because data must arrive even if the sender computes.
#pragma once

#include <cstdint>

namespace softhca {

class Adapter;
class Host;
class Qp;
struct InboundWrite;
struct Wqe;

/// The sender's lock on the write at the head of its queue while it places packets itself.
class InboundLock {
  public:
    /// Locks the write, and takes over the receiver's progress.
    InboundLock(Qp& qp, Wqe& wqe);
    ~InboundLock();
    InboundLock(const InboundLock&) = delete;
    InboundLock& operator=(const InboundLock&) = delete;

    /// Whether the receiver is placing packets now.
    bool busy() const { return busy_; }
    /// The next packet arrives at `due` (ns). Hands the write to the receiver, if it fits and there
    /// is an entry.
    void hand_over(uint64_t due);

  private:
    Qp& qp_;
    Wqe& wqe_;
    bool busy_ = false;
};

/// The write that a queue pair has handed to a receiver, if any.
class InboundHandle {
  public:
    /// Frees the entry when the write at the head has ended, in whatever way.
    void retire(Host& host, uint32_t qp_number);

  private:
    friend class InboundLock;
    InboundWrite* write_ = nullptr;
    uint32_t process_ = 0;
};

/// Places packets of writes to this process's memory that have arrived.
void place_inbound_writes(Adapter& adapter, uint64_t now);

}  // namespace softhca
