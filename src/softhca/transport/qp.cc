// SPDX-License-Identifier: BSD-3-Clause
// Creates, modifies and destroys queue pairs.
#include "softhca/transport/qp.h"

#include <new>

#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/responder.h"
#include "softhca/transport/srq.h"

namespace softhca {

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
    shared.pd = attributes.pd;
    shared.recv_cq = attributes.recv_cq == nullptr ? 0 : attributes.recv_cq->number();
    shared.srq = attributes.srq == nullptr ? 0 : attributes.srq->number();
    shared.xrc_domain = attributes.xrc_domain;
    shared.attributes = {};
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
    QpChange reset;
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

void set_responder_fields(QpShared& shared, const QpChange& change) {
    const Setter set(change.mask);
    ResponderAttributes& to = shared.attributes;
    const ResponderAttributes& from = change.responder;
    set(qp_attr::kPort, to.link, from.link);
    set(qp_attr::kAccessFlags, to.access, from.access);
    set(qp_attr::kQkey, to.qkey, from.qkey);
    set(qp_attr::kDestQpn, to.peer_number, from.peer_number);
    set(qp_attr::kAv, to.peer_link, from.peer_link);
    set(qp_attr::kAv, to.paths, from.paths);
    set(qp_attr::kMinRnrTimer, to.min_rnr_timer, from.min_rnr_timer);
    set(qp_attr::kMaxDestRdAtomic, to.max_dest_rd_atomic, from.max_dest_rd_atomic);
    set(qp_attr::kSqPsn, to.send_psn, from.send_psn);
    set(qp_attr::kRqPsn, to.receive_psn, from.receive_psn);
    set(qp_attr::kPathMtu, to.path_mtu, from.path_mtu);
    if (set.has(qp_attr::kState)) shared.state.store(change.state, std::memory_order_seq_cst);
}

void Requester::modify(const QpChange& change) {
    const Setter set(change.mask);
    const RequesterAttributes& from = change.requester;
    set(qp_attr::kMaxQpRdAtomic, attributes_.max_rd_atomic, from.max_rd_atomic);
    set(qp_attr::kRetryCnt, attributes_.retry_count, from.retry_count);
    set(qp_attr::kRnrRetry, attributes_.rnr_retry, from.rnr_retry);
    set(qp_attr::kTimeout, attributes_.timeout, from.timeout);
    set(qp_attr::kEnSqdAsyncNotify, attributes_.drained_event, from.drained_event);
    const Host& host = qp_.adapter().host();
    if (set.has(qp_attr::kMaxQpRdAtomic) && host.models_time())
        bookings_.clock.set_read_depth(attributes_.max_rd_atomic);
    if (!set.has(qp_attr::kRetryCnt | qp_attr::kRnrRetry | qp_attr::kTimeout)) return;
    constexpr uint64_t kMicrosecond = 1000;
    const Personality::Times& times = host.personality().times;
    // Devices have a shortest time-out; 0 switches time-outs off on all of them.
    const uint8_t timeout =
        attributes_.timeout == 0
            ? attributes_.timeout
            : std::max(attributes_.timeout, static_cast<uint8_t>(times.least_timeout));
    retry_.configure(attributes_.retry_count, attributes_.rnr_retry, ack_timeout_ns(timeout),
                     {.step = static_cast<uint64_t>(times.timer_step) * kMicrosecond,
                      .unlimited = times.retry_forever != 0});
}

void Qp::modify(const QpChange& change) {
    Host& host = adapter_.host();
    const bool new_state = (change.mask & qp_attr::kState) != 0;
    {
        const std::lock_guard lock(execute_mutex);
        {
            const AccessGuard guard(host, host.slot());
            const ResponderLock responder_lock(host, *shared_);
            requester.modify(change);
            set_responder_fields(*shared_, change);
        }
        if (new_state) requester.after_transition(change.state);
    }
    if (!new_state || (change.state != QpState::kErr && change.state != QpState::kReset)) return;
    // RDMA takes no lock at the responder: accesses must end before anybody learns of the new
    // state.
    host.wait_for_accesses();
    if (change.state == QpState::kErr)
        flush();
    else
        clear_queues();
}

void Qp::run_scheduled(uint64_t now) {
    const std::lock_guard lock(execute_mutex);
    requester.run_scheduled(now);
    receive_queue.run_scheduled(now);
}

void Qp::flush() {
    const std::lock_guard lock(execute_mutex);
    const QpState current = state();
    if (current == QpState::kErr || current == QpState::kSqe) requester.end();
    if (current == QpState::kErr) receive_queue.end();
}

uint64_t Qp::flush_delay() const {
    constexpr uint64_t kMillisecond = 1'000'000;
    return static_cast<uint64_t>(adapter_.host().personality().times.flush_delay) * kMillisecond;
}

// Makes the queue pair like a new one: no work requests, and no completions in its queues.
void Qp::clear_queues() {
    Host& host = adapter_.host();
    const std::scoped_lock lock(requester.post_mutex, execute_mutex);
    receive_queue.clear();
    // Some devices leave the completions of a destroyed queue pair in its queues.
    const bool removes = !ends_ || host.personality().ordering.destroyed_completions == 0;
    Cq* const shared_cq = attributes_.srq != nullptr ? attributes_.srq->cq() : nullptr;
    for (Cq* cq : {attributes_.send_cq, attributes_.recv_cq, shared_cq})
        if (cq != nullptr) removes ? cq->purge(number_) : cq->disown(number_);
    shared_->ring.drop_all(host.arena());
    requester.clear();
}

}  // namespace softhca
