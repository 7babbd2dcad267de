// SPDX-License-Identifier: BSD-3-Clause
// The owner's handle of a queue pair: its life, and its states.
#pragma once

#include <mutex>

#include "softhca/core/qp_state.h"
#include "softhca/fabric/host.h"
#include "softhca/transport/receive_queue.h"
#include "softhca/transport/requester.h"

namespace softhca {

class Adapter;
class Cq;
class Srq;

class Qp {
  public:
    struct Attributes {
        QpType type = QpType::kRc;
        uint32_t device = 0;
        uint32_t pd = 0;
        Cq* send_cq = nullptr;
        Cq* recv_cq = nullptr;
        Srq* srq = nullptr;
        uint32_t xrc_domain = 0;
        uint32_t operations = 0;   // bit WrOpcode: whether sends may have that opcode
        uint32_t max_message = 0;  // bytes
        uint32_t max_send_wr = 0;
        uint32_t max_recv_wr = 0;
        uint32_t max_send_sge = 0;
        uint32_t max_read_sge = 0;
        uint32_t max_recv_sge = 0;
        uint32_t max_inline = 0;
        bool signal_all = false;
        uint64_t memory = 0;       // bytes that a driver takes for the queues
        QueueAllocator allocator;  // for the memory of the send queue
    };

    // A queue pair in state reset; nullptr if there is no number or memory left, or the device has
    // as many as rule `max-qp` says.
    static Qp* create(Adapter& adapter, const Attributes& attributes);
    ~Qp();
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    // Applies a modification that is legal.
    void modify(const QpChange& change);
    // Runs what is due at `now`; called by the progress engine.
    void run_scheduled(uint64_t now);
    // Completes outstanding work requests with the flush status: all in state err, those of the
    // send queue in state sqe.
    void flush();
    uint64_t flush_delay() const;  // ns: of the personality

    QpState state() const { return shared_->state.load(std::memory_order_acquire); }
    uint32_t number() const { return number_; }
    QpShared& shared() { return *shared_; }
    Adapter& adapter() { return adapter_; }
    const Attributes& attributes() const { return attributes_; }

    void* cookie = nullptr;
    std::mutex execute_mutex;  // taken after post_mutex of the requester, before shared locks

  private:
    Qp(Adapter& adapter, const Attributes& attributes, QpShared* shared, uint32_t number)
        : adapter_(adapter), attributes_(attributes), shared_(shared), number_(number) {}
    QueueAmounts amounts() const;
    void clear_queues();

    Adapter& adapter_;
    const Attributes attributes_;
    QpShared* shared_;
    const uint32_t number_;
    bool ends_ = false;  // is being destroyed

  public:
    Requester requester{*this};
    ReceiveQueue receive_queue{*this};
};

// Sets the responder's fields of a modification. Under the queue pair's lock.
void set_responder_fields(QpShared& shared, const QpChange& change);

}  // namespace softhca
