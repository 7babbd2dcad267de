// SPDX-License-Identifier: BSD-3-Clause
// The requester of a queue pair: executes the send queue in order, retries, completes and flushes.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "softhca/core/port_turns.h"
#include "softhca/core/qp_state.h"
#include "softhca/core/retry.h"
#include "softhca/fabric/host.h"
#include "softhca/transport/wqe.h"

namespace softhca {

class Adapter;
class Qp;
struct Outcome;

// With the timing model, the answers on their way to reads that the responder has acted on, in the
// order of the send queue. Under the queue pair's execute_mutex.
class ReadAnswers {
  public:
    // Longer answers are copied when they arrive.
    static constexpr uint64_t kMaxBytes = 64 << 10;

    // Room for the next answer; nullptr if there is no memory.
    char* add(uint64_t bytes) {
        std::unique_ptr<char[]> answer(new (std::nothrow) char[bytes]);
        if (answer == nullptr) return nullptr;
        answers_.push_back(std::move(answer));
        return answers_.back().get();
    }
    void take_back() { answers_.pop_back(); }
    char* first() { return answers_.front().get(); }
    void pop() { answers_.pop_front(); }
    void clear() { answers_.clear(); }

  private:
    std::deque<std::unique_ptr<char[]>> answers_;
};

class Requester {
  public:
    explicit Requester(Qp& qp);

    // Posts, under `post_mutex`: fill an entry of the queue, and commit it. The time (ns) at which
    // the timing model begins a post is that of post_time(), 0 without model; at it, the links are
    // booked, or in virtual time the request begins to wait for its turn.
    std::mutex post_mutex;
    SendQueue& queue() { return queue_; }
    uint64_t post_time() const;
    void commit(Wqe& wqe, uint64_t post_time);
    // Starts what was posted: executes it now, or schedules it in the progress engine.
    void start();

    // All that follows is under the queue pair's execute_mutex.
    void modify(const QpChange& change);
    void after_transition(QpState state);
    // What is due at `now`; called by the progress engine.
    void run_scheduled(uint64_t now);
    // In state err or sqe: nothing is executed any more, and all is flushed, by some devices later.
    void end();
    // Forgets all work requests. Also under `post_mutex`.
    void clear();

    const RequesterAttributes& attributes() const { return attributes_; }
    ReadAnswers& answers() { return answers_; }
    // In virtual time: a part of a request leaves a port.
    void take_turn(const PortTurns::Packet& packet);

  private:
    static constexpr uint32_t kMaxStepsPerRun = 16;  // then the engine turns to other queue pairs
    static constexpr uint32_t kNoLimit = ~uint32_t{0};
    static constexpr uint64_t kNever = Wqe::kNever;  // until the request has left
    bool run(uint64_t now, uint32_t steps);
    bool execute_head(Wqe& wqe, uint64_t now);
    void run_ahead(uint64_t now);
    bool start_ahead(Wqe& wqe, uint64_t now);
    std::optional<Outcome> swap_with_next(const Wqe& head, uint64_t now);
    void replay(Wqe& done);
    void send_again();
    void book(Wqe& wqe);
    void line_up();
    void leave(Wqe& wqe, const Part& part);
    void withdraw();
    void finish_head(Wqe& wqe, WcStatus status, uint64_t now);
    void fail();
    void complete(const Wqe& wqe, WcStatus status, uint64_t visible_at);
    void flush();
    void report_drained();
    uint64_t visible_at(const Wqe& wqe, uint64_t now);

    Qp& qp_;
    Adapter& adapter_;
    Host& host_;
    SendQueue queue_;
    // Of the timing model; under post_mutex.
    struct Bookings {
        uint64_t last_posted_at = 0;  // ns
        QpClock clock;
        uint64_t lined_up = 0;  // in virtual time: requests that have been added to ports
    } bookings_;
    // ns: before that, no new request starts, because those before it are sent again.
    std::atomic<uint64_t> sent_again_at_{0};
    std::atomic<bool> scheduled_{false};  // to run at once
    RequesterAttributes attributes_;
    RetryState retry_;
    uint64_t executed_ = 0;     // the index of the head
    uint64_t ahead_ = 0;        // the next one to start ahead of the head
    uint64_t ahead_again_ = 0;  // ns: when that is scheduled; 0: not
    uint64_t wait_until_ = 0;
    struct Disorder {
        // Of the fault `swap-writes`: until when the head waits for the request behind it, and the
        // index behind the last one that need not.
        uint64_t until = 0;  // ns; 0: it does not wait
        uint64_t swapped = 0;
        std::unique_ptr<char[]> again;  // of `replay-write`: to be placed behind the next request
    } disorder_;
    uint64_t last_visible_ = 0;  // the latest `visible_at` of a completion
    uint64_t flush_at_ = 0;      // ns; 0: not scheduled
    ReadAnswers answers_;        // of reads from the head on
    bool head_started_ = false;  // whether the work request at the head has been executed once
};

}  // namespace softhca
