// SPDX-License-Identifier: BSD-3-Clause
// Creates, modifies and destroys queue pairs.
#include "softhca/transport/qp.h"

#include <cerrno>
#include <new>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/inbound.h"
#include "softhca/transport/responder.h"
#include "softhca/transport/srq.h"

namespace softhca {

Qp::Qp(Adapter& adapter, const Attributes& attributes, QpShared* shared, uint32_t number)
    : adapter_(adapter),
      attributes_(attributes),
      shared_(shared),
      number_(number),
      ring_(std::max<uint32_t>(attributes.max_send_wr, 1), attributes.max_send_sge,
            attributes.max_inline, attributes.allocator) {}

Qp* Qp::create(Adapter& adapter, const Attributes& attributes) {
    Host& host = adapter.host();
    if (!take_queue_pair(host, attributes.device)) return nullptr;
    const auto index = host.qp_indices.allocate();
    const auto give_up = [&] {
        if (index) host.qp_indices.release(*index);
        return_queue_pair(host, attributes.device);
        return nullptr;
    };
    if (!index) return give_up();
    QpShared& shared = host.tables().qps[*index];
    if (!allocate_ring(host, shared.ring, attributes.max_recv_wr, attributes.max_recv_sge))
        return give_up();
    shared.state.store(QpState::kReset, std::memory_order_relaxed);
    shared.type = attributes.type;
    shared.device = attributes.device;
    shared.pd = attributes.pd;
    shared.recv_cq = attributes.recv_cq == nullptr ? 0 : attributes.recv_cq->number();
    shared.srq = attributes.srq == nullptr ? 0 : attributes.srq->number();
    shared.xrc_domain = attributes.xrc_domain;
    shared.access = 0;
    shared.peer_number = 0;
    shared.established.store(0, std::memory_order_relaxed);
    shared.notices.store(0, std::memory_order_relaxed);
    shared.claim.valid.store(0, std::memory_order_relaxed);
    shared.last_visible = 0;
    shared.uses_srq = 0;
    for (auto& word : shared.openers) word.store(0, std::memory_order_relaxed);
    const uint32_t number = adapter.next_number(*index);
    Qp* qp;
    try {
        qp = new Qp(adapter, attributes, &shared, number);
    } catch (const std::bad_alloc&) {
        host.heap.release(shared.ring.slots);
        return give_up();
    }
    add_queues(host, qp->amounts());
    for (Cq* cq : {attributes.send_cq, attributes.recv_cq})
        if (cq != nullptr) cq->users.fetch_add(1, std::memory_order_relaxed);
    if (attributes.srq != nullptr) attributes.srq->users.fetch_add(1, std::memory_order_relaxed);
    adapter.qps.put(*index, qp);
    shared.number.store(number, std::memory_order_release);
    return qp;
}

Qp::~Qp() {
    Host& host = adapter_.host();
    const uint32_t index = ObjectNumber::index(number_);
    ends_ = true;
    Change reset;
    reset.mask = qp_attr::kState;
    reset.state = QpState::kReset;
    modify(reset);
    {
        const std::lock_guard lock(adapter_.engine().run_mutex());
        shared_->number.store(0, std::memory_order_seq_cst);
        adapter_.qps.drop(index);
    }
    host.wait_for_accesses();
    for (Cq* cq : {attributes_.send_cq, attributes_.recv_cq})
        if (cq != nullptr) cq->users.fetch_sub(1, std::memory_order_relaxed);
    if (attributes_.srq != nullptr) attributes_.srq->users.fetch_sub(1, std::memory_order_relaxed);
    host.heap.release(shared_->ring.slots);
    host.qp_indices.release(index);
    remove_queues(host, amounts());
    return_queue_pair(host, attributes_.device);
}

QueueAmounts Qp::amounts() const {
    return {1, 0, attributes_.max_recv_wr != 0 ? 1u : 0u, attributes_.memory};
}

namespace {

// Sets a field if the mask of a modification names it.
class Setter {
  public:
    explicit Setter(uint32_t mask) : mask_(mask) {}
    bool has(uint32_t bits) const { return (mask_ & bits) != 0; }
    template <typename T>
    void operator()(uint32_t bit, T& field, const T& value) const {
        if (has(bit)) field = value;
    }

  private:
    const uint32_t mask_;
};

}  // namespace

namespace {
constexpr uint32_t kPsnMask = 0xffffff;
}

void set_responder_fields(QpShared& shared, const Qp::Change& change) {
    const Setter set(change.mask);
    set(qp_attr::kPort, shared.link, change.link);
    set(qp_attr::kAccessFlags, shared.access, change.access);
    set(qp_attr::kQkey, shared.qkey, change.qkey);
    set(qp_attr::kDestQpn, shared.peer_number, change.peer_number);
    set(qp_attr::kAv, shared.peer_link, change.peer_link);
    set(qp_attr::kMinRnrTimer, shared.min_rnr_timer, change.min_rnr_timer);
    set(qp_attr::kMaxDestRdAtomic, shared.max_dest_rd_atomic, change.max_dest_rd_atomic);
    set(qp_attr::kSqPsn, shared.send_psn, change.send_psn);
    if (set.has(qp_attr::kRqPsn)) shared.receive_psn = change.receive_psn & kPsnMask;
    if (set.has(qp_attr::kPathMtu)) shared.path_mtu = change.path_mtu;
    if (set.has(qp_attr::kState)) shared.state.store(change.state, std::memory_order_seq_cst);
}

// Devices have a shortest time-out; 0 switches time-outs off on all of them.
uint8_t Qp::effective_timeout(uint8_t code) const {
    const auto least = static_cast<uint8_t>(adapter_.host().personality().least_timeout);
    return code == 0 ? code : std::max(code, least);
}

void Qp::set_requester_fields(const Change& change) {
    const Setter set(change.mask);
    set(qp_attr::kMaxQpRdAtomic, max_rd_atomic_, change.max_rd_atomic);
    if ((change.mask & qp_attr::kMaxQpRdAtomic) != 0 && adapter_.host().models_time())
        clock_.set_read_depth(max_rd_atomic_);
    set(qp_attr::kRetryCnt, retry_count_, change.retry_count);
    set(qp_attr::kRnrRetry, rnr_retry_, change.rnr_retry);
    set(qp_attr::kTimeout, timeout_, change.timeout);
    set(qp_attr::kEnSqdAsyncNotify, drained_event_, change.drained_event);
    if (set.has(qp_attr::kPathMtu)) mtu_ = mtu_bytes(change.path_mtu);
    if (!set.has(qp_attr::kRetryCnt | qp_attr::kRnrRetry | qp_attr::kTimeout)) return;
    constexpr uint64_t kMicrosecond = 1000;
    const Personality& personality = adapter_.host().personality();
    retry_.configure(retry_count_, rnr_retry_, ack_timeout_ns(effective_timeout(timeout_)),
                     {.step = static_cast<uint64_t>(personality.timer_step) * kMicrosecond,
                      .unlimited = personality.retry_forever != 0});
}

void Qp::modify(const Change& change) {
    const bool new_state = (change.mask & qp_attr::kState) != 0;
    {
        const std::lock_guard lock(execute_mutex_);
        {
            const AccessGuard guard(adapter_.host(), adapter_.host().slot());
            lock_qp(adapter_.host(), *shared_);
            set_requester_fields(change);
            set_responder_fields(*shared_, change);
            shared_->lock.unlock();
        }
        if (new_state && (change.state == QpState::kRts || change.state == QpState::kSqd))
            after_transition(change.state);
    }
    if (!new_state || (change.state != QpState::kErr && change.state != QpState::kReset)) return;
    // RDMA takes no lock at the responder: accesses must end before anybody learns of the new
    // state.
    adapter_.host().wait_for_accesses();
    if (change.state == QpState::kErr)
        flush();
    else
        clear_queues();
}

void Qp::after_transition(QpState state) {
    if (state == QpState::kRts)
        run_send_queue(now_ns(), kNoLimit);
    else if (!head_started_)
        report_drained();
}

void Qp::report_drained() {
    if (drained_event_) {
        drained_event_ = false;
        adapter_.sink().qp_event(*this, QpEvent::kDrained);
    }
}

// Under the queue pair's lock: releases a claimed receive of a shared queue, which completes
// nowhere. Some devices never release it.
void Qp::release_claim() {
    Host& host = adapter_.host();
    if (host.personality().receive_ahead != 0) {
        if (!receives_end_) claim_ahead(adapter_, *shared_);
        shared_->claim.valid.store(0, std::memory_order_release);
        return;
    }
    if (shared_->claim.valid.exchange(0, std::memory_order_acq_rel) == 0 || shared_->claim.srq == 0)
        return;
    const uint32_t owner = ObjectNumber::process(shared_->claim.srq);
    const AccessGuard guard(host, owner);
    SrqShared* srq = host.alive(owner) ? srq_of_claim(host, *shared_) : nullptr;
    if (srq != nullptr) {
        lock_srq(host, *srq);
        srq->ring.release_slot(host.arena(owner), shared_->claim.slot);
        srq->lock.unlock();
    }
}

// Makes the queue pair like a new one: no work requests, and no completions in its queues.
void Qp::clear_queues() {
    Host& host = adapter_.host();
    const std::scoped_lock lock(post_mutex, execute_mutex_);
    {
        const AccessGuard guard(host, host.slot());  // before the lock, as senders do
        lock_qp(host, *shared_);
        release_claim();
        shared_->ring.head.store(shared_->ring.tail.load(std::memory_order_relaxed),
                                 std::memory_order_release);
        shared_->established.store(0, std::memory_order_relaxed);
        shared_->uses_srq = 0;
        shared_->lock.unlock();
    }
    // Some devices leave the completions of a destroyed queue pair in its queues.
    const bool removes = !ends_ || host.personality().destroyed_completions == 0;
    Cq* const shared_cq = attributes_.srq != nullptr ? attributes_.srq->cq() : nullptr;
    for (Cq* cq : {attributes_.send_cq, attributes_.recv_cq, shared_cq})
        if (cq != nullptr) removes ? cq->purge(number_) : cq->disown(number_);
    shared_->ring.drop_all(host.arena());
    inbound_.clear(host, number_);
    answers_.clear();
    // Those of an XRC receiver have completions in queues of others.
    drop_inbound(host, number_, removes && attributes_.type != QpType::kXrcRecv);
    executed_ = posted_.load(std::memory_order_relaxed);
    released_.store(executed_, std::memory_order_release);
    retry_.progress();
    wait_until_ = 0;
    head_started_ = false;
    receives_end_ = false;
    flush_sends_at_ = 0;
    flush_receives_at_ = 0;
    last_receive_event_ = false;
}

int Qp::post_receive(uint64_t wr_id, const Sge* sges, uint32_t count) {
    const std::lock_guard lock(receive_mutex_);
    const int error = post_to_ring(adapter_.host(), shared_->ring, wr_id, sges, count);
    if (error == 0) [[likely]]
        return 0;
    const Personality& personality = adapter_.host().personality();
    return error == ENOMEM ? personality.recv_full_error : personality.recv_sge_error;
}

}  // namespace softhca
