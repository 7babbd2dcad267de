// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/cancellation.h"

#include <algorithm>
#include <chrono>

#include "tern/base/trace.h"

namespace tern {

namespace {

uint64_t now_ns() {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count());
}

}  // namespace

Cancellation::Cancel Cancellation::cancel(TupleReceive& receive) {
    const Cancel result =
        matcher_.cancel(TupleTable::handle(&receive), receive.tag, table_.is_keyed(receive));
    actor_.act();
    return result;
}

void Cancellation::on_read(void* cookie, Status status) {
    if (status != Status::kOk) return;
    const uint16_t queue = Revoker::queue_of(cookie);
    revoked(queue, Revoker::count_of(cookie), actor_.revoker().announced(queue));
}

void Cancellation::revoked(uint16_t queue, uint32_t count, uint64_t announced) {
    matcher_.revoked(queue, count, static_cast<uint16_t>(announced));
    TERN_TRACE("tuple %u: grants are taken back; %u remain, %u are void", queue,
               matcher_.queue(queue).granted(), matcher_.queue(queue).void_entries());
    memory_.lend_void(queue, matcher_.queue(queue));
    if (matcher_.undecided(queue)) remember(queue);
    binder_.free_if_unused(queue);
    actor_.act();
}

void Cancellation::remember(uint16_t queue) {
    for (const Undecided& each : undecided_)
        if (each.queue == queue) return;
    undecided_.push_back({queue, now_ns()});
}

// The sender has announced a message that has not come. The message is on its way, or was
// withdrawn, or the sender was stopped between announcing and sending, or violates the protocol. If
// something waits for the message, the queue is destroyed after the limit.
void Cancellation::ask_again() {
    const uint64_t now = now_ns();
    for (size_t i = 0; i < undecided_.size();) {
        Undecided& each = undecided_[i];
        if (!matcher_.undecided(each.queue) || is_overdue(each, now)) {
            each = undecided_.back();
            undecided_.pop_back();
        } else {
            matcher_.ask_again(each.queue);
            ++i;
        }
    }
    actor_.act();
}

bool Cancellation::is_overdue(Undecided& each, uint64_t now) {
    if (!matcher_.awaited(each.queue)) each.since = now;
    if (now - each.since < announced_limit_) return false;
    queues_.stopper(each.queue).stop();
    actor_.fail_tuple(each.queue, Status::kTimedOut,
                      "a direct message has been announced and does not come, and its receive "
                      "is to be canceled or is awaited by another peer's message");
    return true;
}

bool Cancellation::cancel_now(TupleReceive& receive) {
    const uint16_t queue = matcher_.tuples().lookup(receive.tag);
    if (queue == TupleIndex::kNone || actor_.acting()) return false;
    const uint64_t limit = now_ns() + kReadLimit;
    // Waits while the read of the announced number is posted and may complete.
    while (matcher_.tuple(queue).revoking && actor_.is_up_to_date(matcher_.tuple(queue).peer) &&
           now_ns() < limit) {
        const uint64_t announced = actor_.revoker().announced(queue);
        if (announced != Revoker::kNothingRead)
            revoked(queue, matcher_.tuple(queue).revoke_count, announced);
        else
            engine_.keep_completion();
    }
    return !receive.posted;
}

}  // namespace tern
