// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tern/base/trace.h"
#include "tern/connection/little_endian.h"

namespace tern {

IncomingTransfers::IncomingTransfers(const RendezvousPart& part)
    : TransferHalf(part),
      rings_(part),
      pins_(part),
      writes_(part, pins_),
      reads_(part, pins_, rings_),
      without_ring_(settings_.ring_patience) {}

// How transfers begin.

// If memory is exhausted, the call fails; so its completion must not be reported, too.
void IncomingTransfers::get(Incoming& transfer, uint64_t from, const WireKey& key,
                            uint32_t rkey) try {
    accounts_.begin_operation(transfer, from, key);
    ++counters_.gets;
    transfer.reading.rkey = rkey;
    transfer.move_to(Incoming::State::kWaiting);
    begin(transfer);
} catch (const std::bad_alloc&) {
    transfer.waiter = {};
    throw;
}

// A peer asks to put.
bool IncomingTransfers::deliver(Channel& channel, const std::byte* data, uint32_t length) {
    Deliver offer;
    return unpack(offer, data, length) &&
           serve_or_wait(channel, offer, [this](Channel& from, const Deliver& frame) {
               return serve(from, frame);
           });
}

bool IncomingTransfers::serve(Channel& channel, const Deliver& offer) {
    RegionUse* use = memory_.open(offer.key, offer.address, offer.length, kRemotePut);
    if (use == nullptr) return refusals_.refuse(channel, Refuse::kDeliver, offer.sender);
    Incoming& transfer = begin_service(channel, use, offer);
    transfer.sender = offer.sender;
    transfer.move_to(Incoming::State::kWaiting);
    begin(transfer);
    return true;
}

void IncomingTransfers::begin(Incoming& transfer) {
    // No ring is lent while the peer may never answer.
    if (transfer.asked_here && !transfer.channel->up()) {
        unconnected_.push(*transfer.channel, &transfer);
        return;
    }
    // Transfers that an earlier call of progress had no time for come first.
    if (budget_.behind() || !later_.empty()) {
        later_.push(*transfer.channel, &transfer);
        return;
    }
    // A transfer that needs no ring does not wait for those that do.
    proceed(transfer, prepare(transfer, !rings_.any_waits()));
}

// Prepares a waiting transfer as far as possible; may be called again until kReady. `may_lend`: the
// transfer may get a ring now.
IncomingTransfers::Prepared IncomingTransfers::prepare(Incoming& transfer, bool may_lend) {
    // The beginnings of many transfers take time, too.
    if (!transfer.decided && budget_.over()) return Prepared::kLater;
    const bool reads = transfer.reading.rkey != 0;
    if (!reads && transfer.use != nullptr && transfer.use->revoked()) return fail(transfer);
    if (!transfer.decided) decide(transfer);
    if (!transfer.decision.staged()) {
        const Prepared placed = reads ? Prepared::kReady : prepare_placed(transfer, may_lend);
        if (placed != Prepared::kNoRing) return placed;
    }
    if (rings_.lend(transfer, may_lend)) return Prepared::kReady;
    if (rings_.cannot_register()) return fail_without_rings(transfer);
    return rings_.will_come(transfer, may_lend) ? Prepared::kLater : Prepared::kNoRing;
}

// Only once for each transfer, because look_up() counts a use of the buffer. Reads go into the
// user's memory if it is pinned or worth pinning, else into a ring.
void IncomingTransfers::decide(Incoming& transfer) {
    const bool reads = transfer.reading.rkey != 0;
    if (reads) note(transfer, Scheme::kRead, transfer.source.readable);
    DecisionInputs inputs{.length = transfer.length,
                          .sender = {.pinned = transfer.source.pinned},
                          .one_piece = transfer.in_one_piece()};
    if (inputs.one_piece) inputs.own = memory_.look_up(transfer, reads ? kLocalWrite : kRemotePut);
    transfer.decision = reads ? decider_.decide_buffer(inputs) : decider_.decide(inputs);
    transfer.decided = true;
    if (!reads) {
        note(transfer, transfer.decision.scheme, transfer.decision.reason);
        if (transfer.decision.staged() && transfer.pin != nullptr)
            memory_.release(std::exchange(transfer.pin, nullptr));
    }
    if (transfer.pin != nullptr) transfer.pinned.bytes = transfer.length;
}

// In pieces, both sides pin their first piece at the same time. If no ring is free for what cannot
// be pinned, all of the buffer is pinned first, in several calls of progress if need be. kNoRing:
// it cannot be, and the message is staged after all.
IncomingTransfers::Prepared IncomingTransfers::prepare_placed(Incoming& transfer, bool may_lend) {
    if (transfer.decision.piece != 0 && transfer.pinned.bytes == 0) {
        if (rings_.lend(transfer, may_lend)) return Prepared::kReady;
        if (rings_.will_come(transfer, may_lend)) return Prepared::kLater;
    }
    while (transfer.pinned.bytes != transfer.length) {
        if (pins_.find(transfer, kRemotePut)) continue;
        if (!pins_.may_pin(transfer)) return Prepared::kLater;
        if (pins_.pin(transfer, kRemotePut)) continue;
        pins_.release_all(transfer);
        decide_again(transfer, {.length = transfer.length, .pin_failed = true});
        return Prepared::kNoRing;
    }
    return TransferMemory::expose(transfer, true) ? Prepared::kReady : fail(transfer);
}

void IncomingTransfers::note(Incoming& transfer, Scheme scheme, Reason reason) {
    transfer.trace_decision(scheme, reason);
    ++counters_.reasons[static_cast<size_t>(reason)];
    Channel::Tally& tally = transfer.channel->tally;
    ++(scheme == Scheme::kRead     ? tally.read
       : scheme == Scheme::kPlaced ? tally.placed
                                   : tally.staged);
    tally.bytes += transfer.length;
}

// What was decided first has failed: the message counts by that, and the reason for this one.
void IncomingTransfers::decide_again(Incoming& transfer, const DecisionInputs& inputs) {
    transfer.set_decision(decider_.decide(inputs));
    ++counters_.reasons[static_cast<size_t>(transfer.decision.reason)];
}

// Not even a small ring can be registered.
IncomingTransfers::Prepared IncomingTransfers::fail_without_rings(Incoming& transfer) {
    accounts_.warn_of_limit();
    return fail(transfer);
}

// Nothing has been written to the memory.
IncomingTransfers::Prepared IncomingTransfers::fail(const Incoming& transfer) {
    if (!transfer.asked_here) {
        ++counters_.refused;
        refusals_.add(*transfer.channel, {.what = Refuse::kDeliver, .number = transfer.sender});
    }
    return Prepared::kFailed;
}

// Lets a transfer begin, wait or end.
void IncomingTransfers::proceed(Incoming& transfer, Prepared how) {
    switch (how) {
        case Prepared::kReady:
            return run(transfer);
        case Prepared::kNoRing:
            return wait_for_ring(transfer);
        case Prepared::kLater:
            later_.push(*transfer.channel, &transfer);
            break;
        case Prepared::kFailed:
            failed_.push_back(&transfer);
            break;
    }
}

void IncomingTransfers::run(Incoming& transfer) {
    const bool reads = transfer.reading.rkey != 0;
    if (!reads) {
        rings_.prepare_for_writes(transfer);
        writes_.open(transfer);
    }
    transfer.move_to(reads ? Incoming::State::kReading : Incoming::State::kAsking);
    if (!reads && writes_.ask_sender(transfer)) transfer.move_to(Incoming::State::kRunning);
    running_.add(transfer);
    accounts_.started();
    if (reads) running_.move(transfer, [this](Incoming& each) { return step_reading(each); });
}

void IncomingTransfers::wait_for_ring(Incoming& transfer) {
    ++counters_.ring_waits;
    rings_.queue().push(transfer);
}

unsigned IncomingTransfers::begin_waiting() {
    unsigned count = 0;
    if (!requests_.empty()) [[unlikely]]
        count += serve_waiting(
            [this](Channel& channel, const Deliver& offer) { return serve(channel, offer); });
    if (!unconnected_.empty()) [[unlikely]]
        count += begin_connected([this](Incoming& transfer) { begin(transfer); });
    for (; !later_.empty() && !budget_.over(); ++count) {
        Incoming& transfer = *later_.front();
        const Prepared now = prepare(transfer, !rings_.any_waits());
        if (now == Prepared::kLater) break;
        (void)later_.pop(*transfer.channel);
        proceed(transfer, now);
    }
    const unsigned lent = lend_rings();
    if (lent != 0 || !rings_.any_waits())
        without_ring_.end();
    else if (without_ring_.count())
        count += do_without_rings();
    count += lent;
    while (!failed_.empty()) {
        Incoming* transfer = failed_.back();
        failed_.pop_back();
        end(*transfer, Status::kDevice);
        ++count;
    }
    return count;
}

unsigned IncomingTransfers::lend_rings() {
    unsigned count = 0;
    for (; Incoming* const transfer = rings_.next(); ++count) {
        if (transfer->state == Incoming::State::kReading) {
            // It has begun, and its memory could not be pinned.
            if (!rings_.lend(*transfer, true) && !rings_.cannot_register()) break;
            rings_.queue().pop(*transfer);
            running_.wake(*transfer);
        } else {
            const Prepared now = prepare(*transfer, true);
            if (now == Prepared::kNoRing) break;
            rings_.queue().pop(*transfer);
            proceed(*transfer, now);
        }
    }
    return count;
}

// The rings are lent to peers that do nothing, perhaps for minutes. Transfers whose memory can be
// pinned go in place.
unsigned IncomingTransfers::do_without_rings() {
    return static_cast<unsigned>(rings_.queue().erase_if([this](Incoming& transfer) {
        if (!transfer.in_one_piece()) return false;
        if (transfer.decision.staged())
            decide_again(transfer, {.length = transfer.length, .rings_taken = true});
        // It tries to pin its memory again.
        if (transfer.state == Incoming::State::kReading) {
            running_.wake(transfer);
            return true;
        }
        const Prepared now = prepare(transfer, false);
        if (now == Prepared::kNoRing) return false;
        proceed(transfer, now);
        // If it needs a ring after all, its next step finds that it is not in the queue any more.
        running_.wake(transfer);
        return true;
    }));
}

// How transfers go on.

unsigned IncomingTransfers::advance() {
    return running_.advance([this](Incoming& transfer) { return step(transfer); });
}

Step IncomingTransfers::step(Incoming& transfer) {
    if (transfer.channel->failed) return {.next = Next::kOnEvent};
    if (transfer.state == Incoming::State::kReading) return step_reading(transfer);
    const Step done = writes_.step(transfer);
    if (done.next == Next::kOver)
        end(transfer, transfer.failed ? Status::kRemoteAccess : Status::kOk);
    return done;
}

Step IncomingTransfers::step_reading(Incoming& transfer) {
    const unsigned count = reads_.take(transfer);
    if (transfer.taken == transfer.length) {
        end(transfer, Status::kOk);
        return {count + 1, Next::kOver};
    }
    const Reads::Posted posted = reads_.post(transfer, !rings_.any_waits());
    if (posted.no_rings)
        proceed(transfer, fail_without_rings(transfer));
    else if (posted.needs_ring && !transfer.waits_for_ring)
        wait_for_ring(transfer);
    return {count + posted.count, budget_.over() ? Next::kAgain : posted.next};
}

// Reads complete in the order in which they were posted.
void IncomingTransfers::have_read(Incoming::Read& read, Status status) {
    Incoming& transfer = *read.owner;
    TERN_ASSERT(transfer.state == Incoming::State::kReading && !read.arrived);
    --transfer.channel->replies;
    // The channel ends, and the transfer with it. After a flush by force, its memory may be gone.
    const Channel& channel = *transfer.channel;
    if (status != Status::kOk || (channel.failed && channel.status == Status::kCanceled)) return;
    read.arrived = true;
    running_.move_now(transfer, [this](Incoming& each) { return step_reading(each); });
}

bool IncomingTransfers::finish(Channel& channel, const std::byte* data, uint32_t length) {
    Finish frame;
    if (!unpack(frame, data, length)) return false;
    Incoming* transfer = table_.find(channel, frame.receiver);
    if (transfer == nullptr || !transfer->core || !transfer->core->finished()) return false;
    running_.wake(*transfer);
    return true;
}

bool IncomingTransfers::notified(Channel& channel, uint32_t immediate) {
    Incoming* transfer = table_.find_index(channel, immediate >> 16);
    if (transfer == nullptr || !transfer->core || !transfer->core->arrived(immediate & 0xffff))
        return false;
    running_.wake(*transfer);
    return true;
}

// The sender refuses a fetch, or the rest of one. Nothing was asked of it in another state; reads
// that are under way still need the transfer.
bool IncomingTransfers::refused(Channel& channel, const Refuse& frame) {
    Incoming* transfer = table_.find(channel, frame.number);
    if (transfer == nullptr || transfer->state != Incoming::State::kRunning) return false;
    TERN_TRACE("incoming transfer %u is refused by the sender", transfer->number);
    // Confirmed, and the ring lent to another transfer, when all earlier writes have arrived and
    // are known: a frame in a block overtakes completions.
    if (!transfer->core->withdrawn(frame.blocks)) return false;
    transfer->failed = true;
    transfer->refused = frame.what == Refuse::kFetch;
    if (transfer->refused && transfer->core->withdrawn_completely())
        end(*transfer, Status::kRemoteAccess);
    else
        running_.wake(*transfer);
    return true;
}

// All transfers have been moved on. Besides the flags, they wait only for completions and frames.
Status IncomingTransfers::arm(std::vector<Watched>& words) {
    if (!failed_.empty() || !later_.empty()) return Status::kInProgress;
    if (may_serve()) return Status::kInProgress;
    bool arrived = false;
    running_.for_each_ready([&](Incoming& transfer) {
        if (!transfer.core || transfer.channel->failed) return;
        RingReader& core = *transfer.core;
        // Read the flag before next(): a value written after that differs from `was`.
        Watched flag;
        if (core.polls_memory()) {
            flag.at = core.flag(transfer.ring.data);
            flag.was = __atomic_load_n(flag.at, __ATOMIC_RELAXED);
        }
        RingReader::Block block;
        if (!core.is_withdrawn() && core.next(transfer.ring.data, block)) {
            arrived = true;
            return;
        }
        // The sender may have no room left, and this side does not poll while it sleeps.
        if (core.ack_owed()) {
            if (!core.notified()) core.waited();
            (void)writes_.acknowledge(transfer);
        }
        if (flag.at != nullptr) words.push_back(flag);
    });
    return arrived ? Status::kInProgress : Status::kOk;
}

// How transfers end.

void IncomingTransfers::end(Incoming& transfer, Status status) {
    TERN_TRACE("incoming transfer %u is over, status %u", transfer.number,
               static_cast<unsigned>(status));
    std::erase(failed_, &transfer);
    // Most transfers do not wait when they end; those that do may be many.
    if (transfer.state == Incoming::State::kWaiting) {
        unconnected_.remove(*transfer.channel, &transfer);
        later_.remove(*transfer.channel, &transfer);
    }
    rings_.queue().remove(transfer);
    if (transfer.core) engine_.expect_notifications(-transfer.core->notifications());
    rings_.give_back(transfer);
    const Incoming::Owned owned = std::move(transfer.owned);
    const auto length = static_cast<size_t>(transfer.length);
    end_with(transfer, status, [&] {
        if (owned.memory && status == Status::kOk)
            owned.unpack(owned.argument, owned.memory.get(), length);
    });
}

// What the sender has been asked to write to a ring is still taken from there, and confirmed.
unsigned IncomingTransfers::drop(const Channel& channel, const void* user) {
    unsigned count = 0;
    accounts_.for_each_of<Incoming>(channel, user, [&](Incoming& transfer) {
        if (transfer.exposed()) return;
        ++count;
        if (transfer.state != Incoming::State::kRunning) return end(transfer, Status::kCanceled);
        transfer.failed = true;
        void* const cookie = accounts_.drop(transfer);
        running_.wake(transfer);
        accounts_.complete(true, cookie, *transfer.channel, Status::kCanceled);
    });
    return count;
}

void IncomingTransfers::ended(Channel* channel, Status status) {
    end_all(channel, [&](Incoming& transfer) { end(transfer, status); });
}

}  // namespace tern
