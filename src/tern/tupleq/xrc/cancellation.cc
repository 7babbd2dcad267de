// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/cancellation.h"

#include "common/clock.h"
#include "tern/base/trace.h"
#include "tern/base/tunables.h"

namespace tern {

Cancellation::Cancel Cancellation::cancel(TupleReceive& receive) {
    const Cancel result = parts_.matcher.cancel(TupleTable::handle(&receive), receive.tag,
                                                parts_.table.is_keyed(receive));
    parts_.actor.act();
    return result;
}

void Cancellation::on_read(void* cookie, Status status) {
    if (status != Status::kOk) return;
    const uint16_t queue = Revoker::queue_of(cookie);
    revoked(queue, Revoker::count_of(cookie), parts_.actor.revoker().announced(queue));
}

void Cancellation::revoked(uint16_t queue, uint32_t count, uint64_t announced) {
    parts_.matcher.revoked(queue, count, static_cast<uint16_t>(announced));
    TERN_TRACE("tuple %u: grants are taken back; %u remain, %u are void", queue,
               parts_.matcher.queue(queue).granted(), parts_.matcher.queue(queue).void_entries());
    parts_.memory.lend_void(queue, parts_.matcher.queue(queue));
    if (parts_.matcher.undecided(queue)) remember(queue);
    parts_.binder.free_if_unused(queue);
    parts_.actor.act();
}

void Cancellation::remember(uint16_t queue) {
    for (const Undecided& each : undecided_)
        if (each.queue == queue) return;
    undecided_.push_back({queue, base::monotonic_ns()});
}

// The sender has announced a message that has not come. The message is on its way, or was
// withdrawn, or the sender was stopped between announcing and sending, or violates the protocol. If
// something waits for the message, the queue is destroyed after the limit.
void Cancellation::ask_again() {
    const uint64_t now = base::monotonic_ns();
    for (size_t i = 0; i < undecided_.size();) {
        Undecided& each = undecided_[i];
        if (!parts_.matcher.undecided(each.queue) || is_overdue(each, now)) {
            each = undecided_.back();
            undecided_.pop_back();
        } else {
            parts_.matcher.ask_again(each.queue);
            ++i;
        }
    }
    parts_.actor.act();
}

bool Cancellation::is_overdue(Undecided& each, uint64_t now) {
    if (!parts_.matcher.awaited(each.queue)) each.since = now;
    if (now - each.since < announced_limit_) return false;
    parts_.queues.stopper(each.queue).stop();
    parts_.actor.fail_tuple(
        each.queue, Status::kTimedOut,
        "a direct message has been announced and does not come, and its receive "
        "is to be canceled or is awaited by another peer's message");
    return true;
}

bool Cancellation::cancel_now(TupleReceive& receive) {
    const uint16_t queue = parts_.matcher.tuples().lookup(receive.tag);
    if (queue == TupleIndex::kNone || parts_.actor.acting()) return false;
    const uint64_t limit = base::monotonic_ns() + kDeviceLimit;
    // Waits while the read of the announced number is posted and may complete.
    while (parts_.matcher.tuple(queue).revoking &&
           parts_.actor.is_up_to_date(parts_.matcher.tuple(queue).peer) &&
           base::monotonic_ns() < limit) {
        const uint64_t announced = parts_.actor.revoker().announced(queue);
        if (announced != Revoker::kNothingRead)
            revoked(queue, parts_.matcher.tuple(queue).revoke_count, announced);
        else
            parts_.engine.keep_completion();
    }
    return !receive.posted;
}

}  // namespace tern
