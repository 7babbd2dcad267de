// SPDX-License-Identifier: BSD-3-Clause
// The requester: executes work requests in order, retries them, completes and flushes them.
#include <algorithm>
#include <utility>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/execute.h"
#include "softhca/transport/inbound.h"
#include "softhca/transport/paging.h"
#include "softhca/transport/qp.h"
#include "softhca/transport/responder.h"
#include "softhca/transport/srq.h"

namespace softhca {

namespace {

WcOpcode completion_opcode(WrOpcode opcode) {
    switch (opcode) {
        case WrOpcode::kRdmaWrite:
        case WrOpcode::kRdmaWriteImm:
            return WcOpcode::kRdmaWrite;
        case WrOpcode::kRdmaRead:
            return WcOpcode::kRdmaRead;
        case WrOpcode::kCompareSwap:
            return WcOpcode::kCompareSwap;
        case WrOpcode::kFetchAdd:
            return WcOpcode::kFetchAdd;
        case WrOpcode::kLocalInvalidate:
            return WcOpcode::kLocalInvalidate;
        case WrOpcode::kBindMw:
            return WcOpcode::kBindMw;
        default:
            return WcOpcode::kSend;
    }
}

RequestKind kind_of(const Wqe& wqe) {
    if (wqe.opcode == WrOpcode::kRdmaRead) return RequestKind::kRead;
    if (wqe.reads()) return RequestKind::kAtomic;
    // The completion of a write with immediate is that of a send.
    return wqe.opcode == WrOpcode::kRdmaWrite ? RequestKind::kWrite : RequestKind::kSend;
}

Request request_of(const Wqe& wqe) {
    return {kind_of(wqe), wqe.length, wqe.is_inline, (wqe.flags & send_flag::kFence) != 0};
}

}  // namespace

Wqe* Qp::reserve_send(uint64_t ahead) {
    const uint64_t posted = posted_.load(std::memory_order_relaxed) + ahead;
    if (posted - released_.load(std::memory_order_acquire) >= ring_.capacity()) return nullptr;
    Wqe* wqe = &ring_.at(posted);
    *wqe = Wqe{};
    return wqe;
}

uint64_t Qp::post_time() const {
    return adapter_.host().models_time() ? now_ns() : 0;
}

void Qp::commit_send(Wqe& wqe, uint64_t post_time) {
    Host& host = adapter_.host();
    if (host.models_time() && !wqe.is_local()) {
        const NicParameters& nic = host.header().config.nic;
        const bool datagram = attributes_.type == QpType::kUd;
        const uint32_t peer_link = datagram ? wqe.destination.link : shared_->peer_link;
        // The model has one receiver. That of a multicast message is the sender's own port.
        const uint32_t one_peer = wqe.destination.multicast ? number_ : wqe.remote_qp;
        const uint32_t peer_number = datagram ? one_peer : shared_->peer_number;
        LinkPair& mine = host.links(host.slot())[shared_->link];
        LinkPair& peer =
            host.links(ObjectNumber::process(peer_number))[std::min(peer_link, kMaxLinks - 1)];
        // Another thread may have posted in between: arrivals keep the order of the queue.
        wqe.position = posted_.load(std::memory_order_relaxed);
        wqe.posted_at = last_posted_at_ = std::max(last_posted_at_, post_time);
        const uint64_t begin =
            std::max(wqe.posted_at, sent_again_at_.load(std::memory_order_relaxed));
        wqe.booking = book(nic, request_of(wqe), clock_, mine, peer, begin);
    }
    posted_.store(posted_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

void Qp::start_sends() {
    if (adapter_.thread_executor() && state() == QpState::kRts) {
        if (!scheduled_.exchange(true, std::memory_order_acq_rel))
            adapter_.engine().schedule_qp(number_, now_ns());
        return;
    }
    const std::lock_guard lock(execute_mutex_);
    run_send_queue(adapter_.host().models_time() || wait_until_ != 0 ? now_ns() : 0, kNoLimit);
}

void Qp::run_scheduled(uint64_t now) {
    scheduled_.store(false, std::memory_order_release);
    const std::lock_guard lock(execute_mutex_);
    if (flush_sends_at_ != 0 && now >= flush_sends_at_) {
        flush_sends_at_ = 0;
        flush_sends();
    }
    if (flush_receives_at_ != 0 && now >= flush_receives_at_) {
        flush_receives_at_ = 0;
        flush_receives();
    }
    if (!run_send_queue(now, kMaxStepsPerRun)) adapter_.engine().schedule_qp(number_, now_ns());
}

// Runs the send queue until it is empty or must wait, at most for `steps` steps. False if it can
// go on.
bool Qp::run_send_queue(uint64_t now, uint32_t steps) {
    while (executed_ != posted_.load(std::memory_order_acquire)) {
        const QpState current = state();
        if (current == QpState::kErr || current == QpState::kSqe) {
            end_sends();
            return true;
        }
        if (current != QpState::kRts && !(current == QpState::kSqd && head_started_)) return true;
        if (wait_until_ != 0 && now < wait_until_) {
            run_ahead(now);
            return true;  // it is scheduled for that time
        }
        if (steps-- == 0) return false;
        wait_until_ = 0;
        if (!execute_head(ring_.at(executed_), now)) {
            run_ahead(now);
            return true;
        }
    }
    return true;
}

// Continues behind a request that waits for its arrival or its answer: hands over the writes and
// messages behind it, whose data become visible when they have arrived, and lets the responder act
// on reads and atomics. A NIC sends one request behind the other without the processor; a sender
// that computes would start these requests too late.
void Qp::run_ahead(uint64_t now) {
    if (!head_is_under_way() || state() != QpState::kRts) return;
    const uint64_t end = posted_.load(std::memory_order_acquire);
    for (ahead_ = std::max(ahead_, executed_ + 1); ahead_ != end; ++ahead_) {
        Wqe& wqe = ring_.at(ahead_);
        if (wqe.attempted || !start_ahead(wqe, now)) return;
    }
}

bool Qp::head_is_under_way() {
    const Wqe& head = ring_.at(executed_);
    return !inbound_.empty() || head.acted || head.delivered;
}

// Whether reads or atomics before `ahead_` are not answered yet.
bool Qp::awaits_answers() {
    for (uint64_t i = executed_; i != ahead_; ++i)
        if (ring_.at(i).reads()) return true;
    return false;
}

// Starts a request that is not at the head. If not, it is tried again at some time, or `attempted`:
// it waits until it is at the head.
bool Qp::start_ahead(Wqe& wqe, uint64_t now) {
    if (names_paged_region(adapter_.host(), wqe)) {
        wqe.attempted = true;
        return false;
    }
    const bool fenced = (wqe.flags & send_flag::kFence) != 0 && awaits_answers();
    if (!fenced && wqe.reads() && acts_early(*this, wqe)) return act_ahead(wqe, now);
    const bool started = !fenced && (wqe.opcode == WrOpcode::kRdmaWrite ? inbound_.push(*this, wqe)
                                                                        : deliver_ahead(wqe, now));
    if (!started) wqe.attempted = true;
    return started;
}

bool Qp::deliver_ahead(Wqe& wqe, uint64_t now) {
    const Faults& faults = adapter_.host().header().faults;
    if (!InboundQueue::fits_message(*this, wqe) ||
        faults.rnr.load(std::memory_order_relaxed) != 0 || !receiver_may_place(faults) ||
        !inbound_.commit(*this))
        return false;
    const Outcome outcome = execute(*this, wqe, now);
    if (outcome.kind == Outcome::Kind::kComplete) {
        wqe.delivered = true;
        wqe.delivery_status = outcome.status;
    }
    return wqe.delivered && wqe.delivery_status == WcStatus::kSuccess;
}

// The responder acts on a read or atomic behind others that are not answered yet, when the request
// has arrived there: after what was sent before.
bool Qp::act_ahead(Wqe& wqe, uint64_t now) {
    if (now < wqe.booking.start && now_ns() < wqe.booking.start) {
        run_again_at(wqe.booking.start);
        return false;
    }
    if (!inbound_.settle(*this, now_ns())) {
        run_again_at(now_ns() + InboundWrite::kLockRetryNs);
        return false;
    }
    const Outcome outcome = act_at_responder(*this, wqe, now);
    if (wqe.acted) return true;
    wqe.attempted = true;
    if (outcome.kind == Outcome::Kind::kComplete) {
        wqe.delivered = true;
        wqe.delivery_status = outcome.status;
    }
    return false;
}

void Qp::run_again_at(uint64_t time) {
    if (ahead_again_ == time) return;
    ahead_again_ = time;
    adapter_.engine().schedule_qp(number_, time);
}

// Waits until the bytes of a message are there.
Outcome Qp::finish_delivered(const Wqe& wqe, uint64_t now) {
    if (wqe.delivery_status != WcStatus::kSuccess) return Outcome::complete(wqe.delivery_status);
    return inbound_.finish_message(*this, wqe, now);
}

// Executes the work request at the head once. False if the request must wait.
bool Qp::execute_head(Wqe& wqe, uint64_t now) {
    const Outcome outcome = wqe.delivered ? finish_delivered(wqe, now) : execute(*this, wqe, now);
    head_started_ = true;
    switch (outcome.kind) {
        case Outcome::Kind::kComplete:
            finish_head(wqe, outcome.status, now);
            return true;
        case Outcome::Kind::kAgain:
            if (outcome.time == 0) return true;
            wait_until_ = outcome.time;
            break;
        case Outcome::Kind::kRnr:
            adapter_.host().self().counters.rnr_naks.fetch_add(1, std::memory_order_relaxed);
            if (retry_.on_rnr(now_ns(), outcome.time, &wait_until_) ==
                RetryState::Verdict::kExhausted) {
                finish_head(wqe, WcStatus::kRnrRetryExceeded, now);
                return true;
            }
            send_again();
            break;
        case Outcome::Kind::kNoResponse:
            adapter_.host().self().counters.retransmissions.fetch_add(1, std::memory_order_relaxed);
            if (retry_.on_no_response(now_ns(), &wait_until_) == RetryState::Verdict::kExhausted) {
                finish_head(wqe, WcStatus::kRetryExceeded, now);
                return true;
            }
            send_again();
            break;
    }
    adapter_.engine().schedule_qp(number_, wait_until_);
    return false;
}

// A request that is retried at `wait_until_` takes the time of the wire again, and so do those
// behind it, which the responder has ignored. Links are not booked again.
void Qp::send_again() {
    if (!adapter_.host().models_time()) return;
    const Wqe& head = ring_.at(executed_);
    const uint64_t way =
        head.reads() ? request_ns(adapter_.host().header().config.nic, kind_of(head)) : 0;
    const uint64_t sent_at = head.booking.start - way;
    if (wait_until_ <= sent_at) return;
    sent_again_at_.store(wait_until_, std::memory_order_relaxed);
    const uint64_t end = posted_.load(std::memory_order_acquire);
    for (uint64_t i = executed_; i != end; ++i) {
        Wqe& wqe = ring_.at(i);
        if (!wqe.is_local()) wqe.booking = later(wqe.booking, wait_until_ - sent_at);
    }
}

uint64_t Qp::send_visible_at(const Wqe& wqe, uint64_t now) {
    if (!adapter_.delays_completions()) return 0;
    Host& host = adapter_.host();
    const NicParameters& nic = host.header().config.nic;
    const uint64_t delay =
        host.header().faults.delay_completions_ns.load(std::memory_order_relaxed);
    // The acknowledgment of a write or send takes the latency again. A read ends with its response.
    const bool acknowledged =
        !wqe.reads() && (attributes_.type == QpType::kRc || attributes_.type == QpType::kXrcSend);
    const uint64_t end =
        wqe.booking.arrival_end + (acknowledged ? nic.latency_ns : 0) + nic.completion_ns;
    return std::max(end, delay != 0 && now == 0 ? now_ns() : now) + delay;
}

void Qp::finish_head(Wqe& wqe, WcStatus status, uint64_t now) {
    retry_.progress();
    wait_until_ = 0;
    ++executed_;
    head_started_ = executed_ < ahead_;
    if (status == WcStatus::kSuccess) {
        inbound_.pop(adapter_.host(), number_, executed_ - 1);
    } else {
        inbound_.clear(adapter_.host(), number_);
        enter_error_state(status);
        complete_send(wqe, status, send_visible_at(wqe, now));
        return;
    }
    Counters& counters = adapter_.host().self().counters;
    counters.messages.store(counters.messages.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
    counters.bytes.store(counters.bytes.load(std::memory_order_relaxed) + wqe.length,
                         std::memory_order_relaxed);
    if (attributes_.signal_all || (wqe.flags & send_flag::kSignaled) != 0)
        complete_send(wqe, status, send_visible_at(wqe, now));
    if (state() == QpState::kSqd && !head_started_) report_drained();
}

void Qp::complete_send(const Wqe& wqe, WcStatus status, uint64_t visible_at) {
    Completion wc;
    wc.wr_id = wqe.wr_id;
    wc.visible_at = visible_at == 0 ? 0 : last_visible_ = std::max(last_visible_, visible_at);
    wc.byte_len = wqe.length;
    wc.qp_num = number_;
    wc.owner = number_;
    wc.status = status;
    wc.opcode = completion_opcode(wqe.opcode);
    wc.releases = Releases::kSendQueue;
    if (!write_completion(adapter_, attributes_.send_cq->shared(), wc, executed_)) {
        lock_qp(adapter_.host(), *shared_);
        fail_responder(adapter_, *shared_, number_, Notice::kQpFatal);
        shared_->lock.unlock();
    }
}

// After a failed work request, a UD or UC queue pair stops its send queue; others stop altogether.
void Qp::enter_error_state(WcStatus status) {
    if (status == WcStatus::kFlushed) return;
    adapter_.host().self().counters.errors.fetch_add(1, std::memory_order_relaxed);
    const bool datagram = attributes_.type == QpType::kUd || attributes_.type == QpType::kUc;
    lock_qp(adapter_.host(), *shared_);
    QpState expected = QpState::kRts;
    if (datagram) {
        shared_->state.compare_exchange_strong(expected, QpState::kSqe, std::memory_order_acq_rel);
        shared_->lock.unlock();
        return;
    }
    fail_responder(adapter_, *shared_, number_, 0);
    shared_->lock.unlock();
}

// In state err or sqe. Nothing of the send queue is executed any more; some devices flush it later.
void Qp::end_sends() {
    inbound_.clear(adapter_.host(), number_);
    answers_.clear();
    head_started_ = false;
    wait_until_ = 0;
    if (adapter_.host().personality().flush_delay == 0) return flush_sends();
    if (flush_sends_at_ != 0 || executed_ == posted_.load(std::memory_order_acquire)) return;
    flush_sends_at_ = now_ns() + flush_delay();
    adapter_.engine().schedule_qp(number_, flush_sends_at_);
}

void Qp::flush_sends() {
    const QpState current = state();
    if (current != QpState::kErr && current != QpState::kSqe) return;
    const uint64_t visible_at = visible_now(adapter_);
    while (executed_ != posted_.load(std::memory_order_acquire)) {
        const Wqe& wqe = ring_.at(executed_);
        ++executed_;
        complete_send(wqe, WcStatus::kFlushed, visible_at);
    }
}

uint64_t Qp::flush_delay() const {
    constexpr uint64_t kMillisecond = 1'000'000;
    return static_cast<uint64_t>(adapter_.host().personality().flush_delay) * kMillisecond;
}

// In state err. Devices that take receives of a shared queue ahead flush them later.
void Qp::end_receives() {
    Host& host = adapter_.host();
    const Personality& personality = host.personality();
    if (attributes_.srq != nullptr && !receives_end_ && personality.receive_ahead != 0) {
        const AccessGuard guard(host, host.slot());  // before the lock, as senders do
        lock_qp(host, *shared_);
        if (state() == QpState::kErr) claim_ahead(adapter_, *shared_);
        shared_->lock.unlock();
    }
    if (attributes_.srq == nullptr || personality.flush_delay == 0) {
        receives_end_ = true;
        return flush_receives();
    }
    if (std::exchange(receives_end_, true)) return;
    flush_receives_at_ = now_ns() + flush_delay();
    adapter_.engine().schedule_qp(number_, flush_receives_at_);
}

void Qp::flush_receives() {
    Host& host = adapter_.host();
    const AccessGuard guard(host, host.slot());  // before the lock, as senders do
    lock_qp(host, *shared_);
    if (state() != QpState::kErr) {
        shared_->lock.unlock();
        return;
    }
    if (shared_->claim.valid.load(std::memory_order_acquire) != 0)
        flush_claim(adapter_, *shared_, number_);
    while (claim_own_receive(host, *shared_)) flush_claim(adapter_, *shared_, number_);
    shared_->lock.unlock();
    if (attributes_.srq != nullptr && !last_receive_event_ &&
        host.personality().last_receive_event != 0) {
        last_receive_event_ = true;
        adapter_.sink().qp_event(*this, QpEvent::kLastReceive);
    }
}

void Qp::flush() {
    const std::lock_guard lock(execute_mutex_);
    const QpState current = state();
    if (current == QpState::kErr || current == QpState::kSqe) end_sends();
    if (current == QpState::kErr) end_receives();
}

}  // namespace softhca
