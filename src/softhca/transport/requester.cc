// SPDX-License-Identifier: BSD-3-Clause
// The requester: executes work requests in order, retries them, completes and flushes them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "softhca/core/qp_state.h"
#include "softhca/transport/adapter.h"
#include "softhca/transport/cq.h"
#include "softhca/transport/execute.h"
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

}  // namespace

Requester::Requester(Qp& qp)
    : qp_(qp),
      adapter_(qp.adapter()),
      host_(adapter_.host()),
      queue_(std::max<uint32_t>(qp.attributes().max_send_wr, 1), qp.attributes().max_send_sge,
             qp.attributes().max_inline, qp.attributes().allocator) {}

void Requester::start() {
    if ((adapter_.thread_executor() || is_virtual_time()) && qp_.state() == QpState::kRts) {
        if (!scheduled_.exchange(true, std::memory_order_acq_rel))
            adapter_.engine().schedule_qp(qp_.number(), now_ns());
        return;
    }
    const std::lock_guard lock(qp_.execute_mutex);
    run(host_.models_time() || wait_until_ != 0 ? now_ns() : 0, kNoLimit);
}

void Requester::after_transition(QpState state) {
    if (state == QpState::kRts)
        run(now_ns(), kNoLimit);
    else if (state == QpState::kSqd && !head_started_)
        report_drained();
}

void Requester::run_scheduled(uint64_t now) {
    // Before the queue is read: whoever posts after that schedules it again; see start().
    scheduled_.exchange(false, std::memory_order_acq_rel);
    if (flush_at_ != 0 && now >= flush_at_) {
        flush_at_ = 0;
        flush();
    }
    if (!run(now, kMaxStepsPerRun)) adapter_.engine().schedule_qp(qp_.number(), now_ns());
}

void Requester::report_drained() {
    if (std::exchange(attributes_.drained_event, false))
        adapter_.sink().qp_event(qp_, QpEvent::kDrained);
}

// Runs the send queue until it is empty or must wait, at most for `steps` steps. False if it can
// go on.
bool Requester::run(uint64_t now, uint32_t steps) {
    while (executed_ != queue_.posted()) {
        const QpState current = qp_.state();
        if (current == QpState::kErr || current == QpState::kSqe) {
            end();
            return true;
        }
        if (current != QpState::kRts && !(current == QpState::kSqd && head_started_)) return true;
        const bool has_come = disorder_.until != 0 && executed_ + 1 != queue_.posted();
        if (wait_until_ != 0 && now < wait_until_ && !has_come) {
            run_ahead(now);
            return true;  // it is scheduled for that time
        }
        Wqe& head = queue_.at(executed_);
        if (!head.departed) return true;  // it waits for its turn at the port
        if (steps-- == 0) return false;
        wait_until_ = 0;
        if (!execute_head(head, now)) {
            run_ahead(now);
            return true;
        }
    }
    return true;
}

// Continues behind a read or atomic that waits for its answer, because an adapter sends one request
// behind the other. What does not succeed is tried again at the head.
void Requester::run_ahead(uint64_t now) {
    if (!queue_.at(executed_).state.acted || qp_.state() != QpState::kRts) return;
    const uint64_t end = queue_.posted();
    for (ahead_ = std::max(ahead_, executed_ + 1); ahead_ != end; ++ahead_) {
        Wqe& wqe = queue_.at(ahead_);
        const bool left = wqe.reads() ? wqe.departed.has_value() : wqe.has_left();
        if (!left || wqe.state.attempted || !start_ahead(wqe, now)) return;
    }
}

// Whether the responder has done its part of a request that is not at the head.
bool Requester::start_ahead(Wqe& wqe, uint64_t now) {
    // A message that finds no receive is refused at the head.
    const bool finds_none = host_.header().faults.rnr.load(std::memory_order_relaxed) != 0;
    const bool waits = (wqe.flags & send_flag::kFence) != 0 || wqe.is_local() ||
                       (wqe.reads() ? !acts_early(qp_, wqe) : finds_none) ||
                       names_paged_region(host_, wqe);
    if (waits) return false;
    const Outcome outcome = wqe.reads() ? act_at_responder(qp_, wqe, now) : execute(qp_, wqe, now);
    switch (outcome.kind) {
        case Outcome::Kind::kComplete:
            if (!wqe.state.acted) wqe.state.delivered = outcome.status;
            wqe.state.attempted = outcome.status != WcStatus::kSuccess;
            break;
        case Outcome::Kind::kAgain:
            if (std::exchange(ahead_again_, outcome.time) != outcome.time || outcome.time == 0)
                adapter_.engine().schedule_qp(qp_.number(), outcome.time);
            return false;
        default:
            wqe.state.attempted = true;
    }
    return outcome.kind == Outcome::Kind::kComplete && outcome.status == WcStatus::kSuccess;
}

bool is_plain_write(const Wqe& wqe) {
    return wqe.opcode == WrOpcode::kRdmaWrite;
}

// With the fault `swap-writes`, executes the write behind the head first. If there is none yet, the
// head waits for it a little.
std::optional<Outcome> Requester::swap_with_next(const Wqe& head, uint64_t now) {
    constexpr uint64_t kWaitNs = 50'000;   // for the request behind
    constexpr uint64_t kApartNs = 20'000;  // between the two, for whoever looks
    if (host_.header().faults.swap_writes.load(std::memory_order_relaxed) == 0 ||
        disorder_.swapped > executed_ || host_.models_time() || !is_plain_write(head) ||
        head.state.progress != 0 || head.state.delivered)
        return std::nullopt;
    const bool alone = executed_ + 1 == queue_.posted();
    if (alone) {
        if (disorder_.until == 0) disorder_.until = now_ns() + kWaitNs;
        if (now_ns() < disorder_.until) return Outcome::again(disorder_.until);
    }
    disorder_.until = 0;
    disorder_.swapped = executed_ + 1;
    if (!alone) {
        Wqe& next = queue_.at(executed_ + 1);
        if (is_plain_write(next)) {
            const Outcome outcome = execute(qp_, next, now);
            // One that fails does so again at the head.
            if (outcome.kind == Outcome::Kind::kComplete && outcome.status == WcStatus::kSuccess) {
                next.state.delivered = WcStatus::kSuccess;
                return Outcome::again(now_ns() + kApartNs);
            }
        }
    }
    return std::nullopt;
}

// With the fault `replay-write`, `done` is executed, and may be placed again behind the next one.
void Requester::replay(Wqe& done) {
    if (const auto again = std::exchange(disorder_.again, nullptr))
        (void)execute(qp_, *reinterpret_cast<Wqe*>(again.get()), now_ns());
    if (!is_plain_write(done) || host_.models_time() ||
        !take_failure(host_.header().faults.replay_write))
        return;
    const AccessGuard guard(host_, host_.slot());
    IovList from;
    if (!build_gather_list(qp_, done, 0, &from)) return;
    disorder_.again = std::make_unique<char[]>(sizeof done + done.length);
    auto& again = *new (disorder_.again.get()) Wqe(done);
    again.state = {};
    again.is_inline = true;
    char* to = again.inline_data();
    for (uint32_t i = 0; i < from.count(); ++i)
        to = static_cast<char*>(mempcpy(to, from.data()[i].iov_base, from.data()[i].iov_len));
}

// Executes the work request at the head once. False if the request must wait.
bool Requester::execute_head(Wqe& wqe, uint64_t now) {
    const auto attempt = [&] {
        if (const auto waits = swap_with_next(wqe, now)) return *waits;
        return wqe.state.delivered ? Outcome::complete(*wqe.state.delivered)
                                   : execute(qp_, wqe, now);
    };
    const Outcome outcome = attempt();
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
            host_.self().counters.rnr_naks.fetch_add(1, std::memory_order_relaxed);
            if (!retry_.on_rnr(now_ns(), outcome.time, &wait_until_)) {
                finish_head(wqe, WcStatus::kRnrRetryExceeded, now);
                return true;
            }
            send_again();
            break;
        case Outcome::Kind::kNoResponse:
            host_.self().counters.retransmissions.fetch_add(1, std::memory_order_relaxed);
            if (!retry_.on_no_response(now_ns(), &wait_until_)) {
                finish_head(wqe, WcStatus::kRetryExceeded, now);
                return true;
            }
            send_again();
            break;
    }
    if (wait_until_ != kNever) adapter_.engine().schedule_qp(qp_.number(), wait_until_);
    return false;
}

uint64_t Requester::visible_at(const Wqe& wqe, uint64_t now) {
    if (!adapter_.delays_completions()) return 0;
    const NicParameters& nic = host_.header().config.nic;
    const uint64_t delay =
        host_.header().faults.delay_completions_ns.load(std::memory_order_relaxed);
    // The acknowledgment of a write or send takes the latency again. A read ends with its response.
    const bool acknowledged = !wqe.reads() && is_reliable(qp_.attributes().type);
    const uint64_t end =
        wqe.booking.arrival_end + (acknowledged ? nic.latency_ns : 0) + nic.completion_ns;
    return std::max(end, delay != 0 && now == 0 ? now_ns() : now) + delay;
}

void Requester::finish_head(Wqe& wqe, WcStatus status, uint64_t now) {
    retry_.progress();
    wait_until_ = 0;
    ++executed_;
    head_started_ = executed_ < ahead_ ||
                    (executed_ != queue_.posted() && queue_.at(executed_).state.progress != 0);
    if (status == WcStatus::kSuccess) {
        replay(wqe);
    } else {
        fail();
        complete(wqe, status, visible_at(wqe, now));
        return;
    }
    Counters& counters = host_.self().counters;
    counters.messages.store(counters.messages.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
    counters.bytes.store(counters.bytes.load(std::memory_order_relaxed) + wqe.length,
                         std::memory_order_relaxed);
    if (qp_.attributes().signal_all || (wqe.flags & send_flag::kSignaled) != 0)
        complete(wqe, status, visible_at(wqe, now));
    if (qp_.state() == QpState::kSqd && !head_started_) report_drained();
}

void Requester::complete(const Wqe& wqe, WcStatus status, uint64_t visible_at) {
    Completion wc;
    wc.wr_id = wqe.wr_id;
    wc.visible_at = visible_at == 0 ? 0 : last_visible_ = std::max(last_visible_, visible_at);
    wc.byte_len = wqe.length;
    wc.qp_num = qp_.number();
    wc.owner = qp_.number();
    wc.status = status;
    wc.opcode = completion_opcode(wqe.opcode);
    wc.releases = Releases::kSendQueue;
    if (!write_completion(adapter_, qp_.attributes().send_cq->shared(), wc, executed_)) {
        const ResponderLock lock(host_, qp_.shared());
        fail_responder(adapter_, qp_.shared(), qp_.number(), Notice::kQpFatal);
    }
}

// After a failed work request, a UD or UC queue pair stops its send queue; others stop altogether.
void Requester::fail() {
    host_.self().counters.errors.fetch_add(1, std::memory_order_relaxed);
    const ResponderLock lock(host_, qp_.shared());
    if (is_reliable(qp_.attributes().type))
        return fail_responder(adapter_, qp_.shared(), qp_.number(), 0);
    QpState expected = QpState::kRts;
    qp_.shared().state.compare_exchange_strong(expected, QpState::kSqe, std::memory_order_acq_rel);
}

void Requester::end() {
    answers_.clear();
    withdraw();
    head_started_ = false;
    wait_until_ = disorder_.until = 0;
    if (host_.personality().times.flush_delay == 0) return flush();
    if (flush_at_ != 0 || executed_ == queue_.posted()) return;
    flush_at_ = now_ns() + qp_.flush_delay();
    adapter_.engine().schedule_qp(qp_.number(), flush_at_);
}

void Requester::flush() {
    const QpState current = qp_.state();
    if (current != QpState::kErr && current != QpState::kSqe) return;
    const uint64_t visible_at = visible_now(adapter_);
    while (executed_ != queue_.posted()) {
        const Wqe& wqe = queue_.at(executed_);
        ++executed_;
        complete(wqe, WcStatus::kFlushed, visible_at);
    }
}

void Requester::clear() {
    answers_.clear();
    withdraw();
    disorder_.again.reset();
    disorder_.until = 0;
    executed_ = queue_.posted();
    queue_.release(executed_);
    retry_.progress();
    wait_until_ = 0;
    head_started_ = false;
    flush_at_ = 0;
}

}  // namespace softhca
