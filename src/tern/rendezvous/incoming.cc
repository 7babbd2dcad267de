// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tern/base/trace.h"
#include "tern/connection/little_endian.h"

namespace tern {

IncomingTransfers::IncomingTransfers(const RendezvousParts& parts)
    : RendezvousPart(parts),
      rings_(parts),
      pins_(parts),
      preparation_(parts, rings_, pins_),
      writes_(parts, pins_),
      reads_(parts, pins_, rings_),
      requests_(accounts_),
      without_ring_(parts.settings.ring_patience),
      running_(budget_) {}

IncomingTransfers::~IncomingTransfers() {
    table_.for_each([this](Incoming& transfer) { memory_.release(transfer); });
}

// How transfers begin.

void IncomingTransfers::get(Channel& channel, const Buffers& to, uint64_t from, const WireKey& key,
                            uint32_t rkey, Source source, const Waiter& waiter,
                            const Reply* reply) {
    Incoming* transfer = take();
    accounts_.begin(*transfer, channel, waiter);
    transfer->memory = to;
    transfer->source = source;
    if (reply != nullptr) transfer->reply = *reply;
    begin_get(*transfer, from, key, rkey);
}

void IncomingTransfers::get_owned(Channel& channel, std::unique_ptr<std::byte[]> memory,
                                  size_t length, uint64_t from, const WireKey& key, uint32_t rkey,
                                  Unpack unpack, void* argument, const Waiter& waiter) {
    Incoming* transfer = take();
    accounts_.begin(*transfer, channel, waiter);
    const Buffers::Piece piece{.at = memory.get(), .length = length};
    transfer->memory = Buffers({&piece, 1});
    transfer->owned.memory = std::move(memory);
    transfer->owned.unpack = unpack;
    transfer->owned.argument = argument;
    begin_get(*transfer, from, key, rkey);
}

// If memory is exhausted, the call fails; so its completion must not be reported, too.
void IncomingTransfers::begin_get(Incoming& transfer, uint64_t from, const WireKey& key,
                                  uint32_t rkey) try {
    accounts_.begin_operation(transfer, from, key);
    ++counters_.gets;
    transfer.reading.rkey = rkey;
    begin(transfer);
} catch (const std::bad_alloc&) {
    transfer.waiter = {};
    throw;
}

// A peer asks to put.
bool IncomingTransfers::deliver(Channel& channel, const std::byte* data, uint32_t length) {
    Deliver offer;
    if (!unpack(offer, data, length)) return false;
    if (!requests_.empty() || !may_serve(channel)) [[unlikely]]
        return requests_.add(channel, offer);
    return serve(channel, offer);
}

bool IncomingTransfers::serve(Channel& channel, const Deliver& offer) {
    RegionUse* use = memory_.open(offer.key, offer.address, offer.length, kRemotePut);
    if (use == nullptr) return refusals_.refuse(channel, Refuse::kDeliver, offer.sender);
    Incoming* transfer = take();
    accounts_.begin(*transfer, channel, {});
    accounts_.begin_service(*transfer, use, offer.address, offer.length);
    ++transfers_on(channel).incoming;
    transfer->sender = offer.sender;
    begin(*transfer);
    return true;
}

// Serves the requests that have waited for a place.
unsigned IncomingTransfers::serve_waiting() {
    unsigned count = 0;
    for (; !budget_.over(); ++count) {
        const auto [channel, offer] =
            requests_.take([this](const Channel& each) { return may_serve(each); });
        if (channel == nullptr) break;
        if (!channel->failed && !serve(*channel, offer))
            engine_.fail(*channel, Status::kProtocol, "too many puts are invalid");
    }
    return count;
}

// There must be room.
Incoming* IncomingTransfers::take() {
    Incoming* transfer = table_.take();
    TERN_ASSERT(transfer != nullptr);
    transfer->move_to(Incoming::State::kWaiting);
    return transfer;
}

void IncomingTransfers::begin(Incoming& transfer) {
    // No ring is lent while the peer may never answer.
    if (transfer.asked_here && !transfer.channel->up()) {
        waiting_.for_connection.push(*transfer.channel, &transfer);
        return;
    }
    // Transfers that an earlier call of progress had no time for come first.
    if (budget_.behind() || !waiting_.for_budget.empty()) {
        waiting_.for_budget.push(*transfer.channel, &transfer);
        return;
    }
    // A transfer that needs no ring does not wait for those that do.
    proceed(transfer, preparation_.prepare(transfer, !rings_.any_waits()));
}

// Lets a transfer begin, wait or end.
void IncomingTransfers::proceed(Incoming& transfer, Prepared how) {
    switch (how) {
        case Prepared::kReady:
            return run(transfer);
        case Prepared::kNoRing:
            return wait_for_ring(transfer);
        case Prepared::kLater:
            waiting_.for_budget.push(*transfer.channel, &transfer);
            break;
        case Prepared::kFailed:
            waiting_.failed.push_back(&transfer);
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

// Most transfers do not wait when they end; those that do may be many.
void IncomingTransfers::Waiting::remove(Incoming& transfer) {
    std::erase(failed, &transfer);
    if (transfer.state != Incoming::State::kWaiting) return;
    for_connection.remove(*transfer.channel, &transfer);
    for_budget.remove(*transfer.channel, &transfer);
}

unsigned IncomingTransfers::begin_waiting() {
    unsigned count = 0;
    if (!requests_.empty()) [[unlikely]]
        count += serve_waiting();
    if (!waiting_.for_connection.empty()) [[unlikely]]
        count += waiting_.for_connection.move_firsts([this](Incoming* transfer) {
            if (!transfer->channel->up()) return false;
            waiting_.for_connection.remove(*transfer->channel, transfer);
            begin(*transfer);
            return true;
        });
    for (auto& later = waiting_.for_budget; !later.empty() && !budget_.over(); ++count) {
        Incoming& transfer = *later.front();
        const Prepared now = preparation_.prepare(transfer, !rings_.any_waits());
        if (now == Prepared::kLater) break;
        (void)later.pop(*transfer.channel);
        proceed(transfer, now);
    }
    const unsigned lent = lend_rings();
    if (lent != 0 || !rings_.any_waits())
        without_ring_.end();
    else if (without_ring_.count())
        count += do_without_rings();
    count += lent;
    while (!waiting_.failed.empty()) {
        Incoming* transfer = waiting_.failed.back();
        waiting_.failed.pop_back();
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
            const Prepared now = preparation_.prepare(*transfer, true);
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
        preparation_.on_rings_taken(transfer);
        // It tries to pin its memory again.
        if (transfer.state == Incoming::State::kReading) {
            running_.wake(transfer);
            return true;
        }
        const Prepared now = preparation_.prepare(transfer, false);
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
        proceed(transfer, preparation_.fail_without_rings(transfer));
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
    if (!waiting_.failed.empty() || !waiting_.for_budget.empty()) return Status::kInProgress;
    if (requests_.any([this](const Channel& each) { return may_serve(each); }))
        return Status::kInProgress;
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
    accounts_.stopped(running_.remove(transfer));
    waiting_.remove(transfer);
    rings_.queue().remove(transfer);
    if (transfer.core) engine_.expect_notifications(-transfer.core->notifications());
    rings_.give_back(transfer);
    const bool awaited = transfer.awaited();
    void* cookie = transfer.waiter.cookie;
    Channel& channel = *transfer.channel;
    transfers_on(channel).incoming -= !transfer.asked_here;
    const Incoming::Owned owned = std::move(transfer.owned);
    const auto length = static_cast<size_t>(transfer.length);
    accounts_.end(transfer);
    table_.put_back(transfer);
    if (owned.memory && status == Status::kOk)
        owned.unpack(owned.argument, owned.memory.get(), length);
    accounts_.complete(awaited, cookie, channel, status);
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
    if (channel != nullptr) requests_.forget(*channel);
    table_.for_each([&](Incoming& transfer) {
        if (channel == nullptr || transfer.channel == channel) end(transfer, status);
    });
}

void IncomingTransfers::request_reports() const {
    table_.for_each([this](const Incoming& transfer) {
        engine_.flushing()->request_report(*transfer.channel);
    });
}

}  // namespace tern
