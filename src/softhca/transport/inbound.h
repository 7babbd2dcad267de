// SPDX-License-Identifier: BSD-3-Clause
// RDMA writes that wait for their time under the model can be placed by the process that they are
// for, too: a card does not wait until the sender's processor has time for it.
#pragma once

#include <cstdint>

namespace softhca {

class Adapter;
class Host;
class Qp;
struct InboundWrite;
struct Wqe;

/// The sender's hold of the write at the head of its queue, while it places some of it itself.
class InboundLock {
  public:
    /// Takes over what the receiver has placed meanwhile.
    InboundLock(Qp& qp, Wqe& wqe);
    ~InboundLock();
    InboundLock(const InboundLock&) = delete;
    InboundLock& operator=(const InboundLock&) = delete;

    /// The receiver is placing right now.
    bool busy() const { return busy_; }
    /// More can be placed at `due`. Leaves the write with the receiver, if it has room for it.
    void hand_over(uint64_t due);

  private:
    Qp& qp_;
    Wqe& wqe_;
    bool busy_ = false;
};

/// What a queue pair has left with a receiver.
class InboundHandle {
  public:
    /// The write at the head is over, however it ended.
    void retire(Host& host, uint32_t qp_number);

  private:
    friend class InboundLock;
    InboundWrite* write_ = nullptr;
    uint32_t process_ = 0;
};

/// Places what is due of the writes to this process's memory.
void place_inbound_writes(Adapter& adapter, uint64_t now);

}  // namespace softhca
