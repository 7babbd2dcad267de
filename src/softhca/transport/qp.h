// SPDX-License-Identifier: BSD-3-Clause
// The owner's handle of a queue pair: the requester, and the state machine.
#pragma once

#include <mutex>

#include "softhca/core/retry.h"
#include "softhca/fabric/host.h"
#include "softhca/transport/inbound_queue.h"
#include "softhca/transport/read_answers.h"
#include "softhca/transport/wqe.h"

namespace softhca {

class Adapter;
class Cq;
class Srq;
struct Outcome;

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

    // A modification. A field is valid if `mask` (qp_attr bits) names it.
    struct Change {
        uint32_t mask = 0;
        QpState state = QpState::kReset;
        uint32_t link = 0;
        uint32_t access = 0;
        uint32_t qkey = 0;
        uint32_t peer_number = 0;
        uint32_t peer_link = 0;
        uint32_t receive_psn = 0;
        uint32_t send_psn = 0;
        uint8_t min_rnr_timer = 0;
        uint8_t retry_count = 0;
        uint8_t rnr_retry = 0;
        uint8_t timeout = 0;
        uint8_t path_mtu = 0;
        uint8_t max_rd_atomic = 0;
        uint8_t max_dest_rd_atomic = 0;
        bool drained_event = false;
    };

    // A queue pair in state reset; nullptr if there is no number or memory left, or the device has
    // as many as rule `max-qp` says.
    static Qp* create(Adapter& adapter, const Attributes& attributes);
    ~Qp();
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    // Applies a modification that is legal.
    void modify(const Change& change);

    // The send queue's free entry at distance `ahead` from the next one, cleared; nullptr if the
    // queue is full. Under post_mutex.
    Wqe* reserve_send(uint64_t ahead = 0);
    // The time (ns) at which the timing model begins a post, for commit_send(); 0 without model.
    uint64_t post_time() const;
    // Posts the reserved entry. With the timing model, books its time on the links. Under
    // post_mutex.
    void commit_send(Wqe& wqe, uint64_t post_time);
    // Starts posted work requests: executes them now, or schedules them in the progress engine.
    void start_sends();
    std::mutex post_mutex;

    // 0, or the personality's error for a full queue or too many elements.
    int post_receive(uint64_t wr_id, const Sge* sges, uint32_t count);

    // Runs the send queue; called by the progress engine.
    void run_scheduled(uint64_t now);
    // Completes outstanding work requests with the flush status: all in state err, those of the
    // send queue in state sqe.
    void flush();
    // Frees send queue entries below `position`; called when their completion was polled.
    void release_send(uint64_t position) { released_.store(position, std::memory_order_release); }

    QpState state() const { return shared_->state.load(std::memory_order_acquire); }
    uint32_t number() const { return number_; }
    QpShared& shared() { return *shared_; }
    Adapter& adapter() { return adapter_; }
    const Attributes& attributes() const { return attributes_; }
    uint32_t send_capacity() const { return ring_.capacity(); }
    uint8_t max_rd_atomic() const { return max_rd_atomic_; }
    uint32_t mtu() const { return mtu_; }
    InboundQueue& inbound() { return inbound_; }          // under execute_mutex_
    ReadAnswers& answers() { return answers_; }           // likewise
    uint64_t head_position() const { return executed_; }  // of the head; under execute_mutex_

    void* cookie = nullptr;

  private:
    Qp(Adapter& adapter, const Attributes& attributes, QpShared* shared, uint32_t number);
    QueueAmounts amounts() const;
    void set_requester_fields(const Change& change);
    uint8_t effective_timeout(uint8_t code) const;
    void after_transition(QpState state);
    static constexpr uint32_t kMaxStepsPerRun = 16;  // then the engine turns to other queue pairs
    static constexpr uint32_t kNoLimit = ~uint32_t{0};
    bool run_send_queue(uint64_t now, uint32_t steps);
    bool execute_head(Wqe& wqe, uint64_t now);
    Outcome finish_delivered(const Wqe& wqe, uint64_t now);
    void run_ahead(uint64_t now);
    bool start_ahead(Wqe& wqe, uint64_t now);
    bool deliver_ahead(Wqe& wqe, uint64_t now);
    bool act_ahead(Wqe& wqe, uint64_t now);
    bool head_is_under_way();
    bool awaits_answers();
    void run_again_at(uint64_t time);
    void send_again();
    void finish_head(Wqe& wqe, WcStatus status, uint64_t now);
    void enter_error_state(WcStatus status);
    void complete_send(const Wqe& wqe, WcStatus status, uint64_t visible_at);
    void end_sends();
    void flush_sends();
    uint64_t flush_delay() const;  // ns
    void end_receives();
    void flush_receives();
    void clear_queues();
    void release_claim();
    void report_drained();
    uint64_t send_visible_at(const Wqe& wqe, uint64_t now);

    Adapter& adapter_;
    const Attributes attributes_;
    QpShared* shared_;
    const uint32_t number_;
    SendRing ring_;
    RetryState retry_;
    // Indices of the send queue only grow: released_ <= executed_ <= posted_.
    std::atomic<uint64_t> posted_{0};    // stored under post_mutex, with release
    std::atomic<uint64_t> released_{0};  // stored by the thread that polls
    uint64_t last_posted_at_ = 0;        // ns; under post_mutex
    QpClock clock_;                      // of the timing model; under post_mutex
    // ns: before that, no new request starts, because those before it are sent again.
    std::atomic<uint64_t> sent_again_at_{0};
    std::mutex execute_mutex_;  // for the rest; taken after post_mutex and before shared locks
    uint64_t executed_ = 0;
    uint64_t ahead_ = 0;        // the next one to start ahead of the head
    uint64_t ahead_again_ = 0;  // ns: when that is scheduled; 0: not
    uint64_t wait_until_ = 0;
    uint64_t last_visible_ = 0;  // the latest `visible_at` of a send's completion
    InboundQueue inbound_;       // writes from the head on that the receiver may place
    ReadAnswers answers_;        // of reads from the head on
    bool head_started_ = false;  // whether the work request at the head has been executed once
    std::atomic<bool> scheduled_{false};  // scheduled to run at once
    bool drained_event_ = false;
    bool receives_end_ = false;       // in state err; of a shared queue: flush_receives_at_ is set
    uint64_t flush_sends_at_ = 0;     // ns; 0: not scheduled
    uint64_t flush_receives_at_ = 0;  // likewise
    bool last_receive_event_ = false;
    bool ends_ = false;  // is being destroyed
    uint8_t retry_count_ = 0;
    uint8_t rnr_retry_ = 0;
    uint8_t timeout_ = 0;
    uint8_t max_rd_atomic_ = 0;
    uint32_t mtu_ = 4096;
    std::mutex receive_mutex_;
};

// Sets the responder's fields of a modification. Under the queue pair's lock.
void set_responder_fields(QpShared& shared, const Qp::Change& change);

}  // namespace softhca
