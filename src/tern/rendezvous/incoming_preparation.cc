// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming_preparation.h"

#include <utility>

namespace tern {

IncomingPreparation::Result IncomingPreparation::prepare(Incoming& transfer, bool may_lend) {
    // The beginnings of many transfers take time, too.
    if (!transfer.decided && budget_.over()) return Result::kLater;
    if (transfer.reading.rkey != 0) return prepare_reads(transfer, may_lend);
    if (transfer.use != nullptr && transfer.use->revoked()) return fail(transfer);
    if (!transfer.decided) {
        transfer.decided = true;
        transfer.decision = decide_scheme(transfer);
    }
    if (!transfer.decision.staged()) {
        const Result placed = prepare_placed(transfer, may_lend);
        if (placed != Result::kNoRing) return placed;
    }
    return rings_.lend(transfer, may_lend) ? Result::kReady : without_ring(transfer, may_lend);
}

// In pieces, both sides pin their first piece at the same time. If no ring is free for what cannot
// be pinned, all of the buffer is pinned first. kNoRing: it cannot be, and the message is staged
// after all.
IncomingPreparation::Result IncomingPreparation::prepare_placed(Incoming& transfer, bool may_lend) {
    if (transfer.decision.piece != 0 && transfer.pinned.bytes == 0) {
        if (rings_.lend(transfer, may_lend)) return Result::kReady;
        if (rings_.will_come(transfer, may_lend)) return Result::kLater;
    }
    const Result pinned = pin_all(transfer);
    if (pinned != Result::kReady) return pinned;
    return TransferMemory::expose(transfer, true) ? Result::kReady : fail(transfer);
}

// Reads go into the user's memory if it is pinned or worth pinning, else into a ring.
IncomingPreparation::Result IncomingPreparation::prepare_reads(Incoming& transfer, bool may_lend) {
    if (!transfer.decided) {
        note(transfer, Scheme::kRead, transfer.source.readable);
        DecisionInputs inputs{.length = transfer.length, .one_piece = transfer.in_one_piece()};
        // Only once for each transfer, because look_up() counts a use of the buffer.
        if (inputs.one_piece) inputs.own = memory_.look_up(transfer, kLocalWrite);
        transfer.decision = decider_.decide_buffer(inputs);
        if (inputs.own.pinned) transfer.pinned.bytes = transfer.length;
    }
    transfer.decided = true;
    if (transfer.decision.staged() && !rings_.lend(transfer, may_lend))
        return without_ring(transfer, may_lend);
    return Result::kReady;
}

Decision IncomingPreparation::decide_scheme(Incoming& transfer) {
    DecisionInputs inputs{.length = transfer.length,
                          .sender = {.pinned = transfer.source.pinned},
                          .one_piece = transfer.in_one_piece()};
    if (inputs.one_piece) inputs.own = memory_.look_up(transfer, kRemotePut);
    const Decision decision = decider_.decide(inputs);
    note(transfer, decision.scheme, decision.reason);
    if (decision.staged() && transfer.pin != nullptr)
        memory_.release(std::exchange(transfer.pin, nullptr));
    if (transfer.pin != nullptr) transfer.pinned.bytes = transfer.length;
    return decision;
}

// Pins all of the buffer, in several calls of progress if need be.
IncomingPreparation::Result IncomingPreparation::pin_all(Incoming& transfer) {
    while (transfer.pinned.bytes != transfer.length) {
        if (pins_.find(transfer)) continue;
        if (!pins_.may_pin(transfer)) return Result::kLater;
        if (pins_.pin(transfer, kRemotePut)) continue;
        pins_.release_all(transfer);
        decide_again(transfer, {.length = transfer.length, .pin_failed = true});
        return Result::kNoRing;
    }
    return Result::kReady;
}

// How a transfer goes on that needs a ring and has got none.
IncomingPreparation::Result IncomingPreparation::without_ring(Incoming& transfer, bool may_lend) {
    if (rings_.cannot_register()) return fail_without_rings(transfer);
    return rings_.will_come(transfer, may_lend) ? Result::kLater : Result::kNoRing;
}

void IncomingPreparation::on_rings_taken(Incoming& transfer) {
    if (transfer.decision.staged())
        decide_again(transfer, {.length = transfer.length, .rings_taken = true});
}

void IncomingPreparation::note(Incoming& transfer, Scheme scheme, Reason reason) {
    transfer.trace_decision(scheme, reason);
    ++counters_.reasons[static_cast<size_t>(reason)];
    Channel::Tally& tally = transfer.channel->tally;
    ++(scheme == Scheme::kRead     ? tally.read
       : scheme == Scheme::kPlaced ? tally.placed
                                   : tally.staged);
    tally.bytes += transfer.length;
}

// What was decided first has failed: the message counts by that, and the reason for this one.
void IncomingPreparation::decide_again(Incoming& transfer, const DecisionInputs& inputs) {
    transfer.set_decision(decider_.decide(inputs));
    ++counters_.reasons[static_cast<size_t>(transfer.decision.reason)];
}

IncomingPreparation::Result IncomingPreparation::fail_without_rings(Incoming& transfer) {
    accounts_.warn_of_limit();
    return fail(transfer);
}

// Nothing has been written to the memory.
IncomingPreparation::Result IncomingPreparation::fail(const Incoming& transfer) {
    if (!transfer.asked_here) {
        ++counters_.refused;
        refusals_.add(*transfer.channel, {.what = Refuse::kDeliver, .number = transfer.sender});
    }
    return Result::kFailed;
}

}  // namespace tern
