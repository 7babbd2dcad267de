// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/outgoing_staging.h"

#include <algorithm>

#include "tern/base/trace.h"
#include "tern/rendezvous/outgoing_writes.h"
#include "tern/rendezvous/staging.h"

namespace tern {

OutgoingStaging::OutgoingStaging(const RendezvousParts& parts)
    : engine_(parts.engine),
      memory_(parts.memory),
      accounts_(parts.accounts),
      decider_(parts.decider),
      settings_(parts.settings),
      counters_(parts.counters),
      budget_(parts.budget),
      rings_(engine_.pd(), settings_.ring_slots(), settings_.most_rings(),
             [&memory = parts.memory](uint64_t bytes) { return memory.make_room(bytes); }) {}

bool OutgoingStaging::lend_or_wait(Outgoing& transfer) {
    if (transfer.staging.slots != 0) return true;
    if (waiting_.empty() && lend(transfer)) return true;
    transfer.move_to(Outgoing::State::kWaiting);
    waiting_.push_back(&transfer);
    counters_.ring_waits += !rings_.may_grow();  // else for the next call of progress
    return false;
}

bool OutgoingStaging::lend(Outgoing& transfer) {
    TERN_ASSERT(transfer.staging.slots == 0);
    if (!rings_.lend(transfer.staging, budget_)) {
        // No transfer waits for an early copy that may never be fetched.
        if (rings_.may_grow() || early_copies_.empty()) return false;
        drop(early_copies_.oldest());
        (void)rings_.lend(transfer.staging);
    }
    transfer.core->set_staging(transfer.staging.slots);
    return true;
}

unsigned OutgoingStaging::lend_to_waiting(std::span<Outgoing* const> running) {
    unsigned count = 0;
    while (!waiting_.empty() && lend(*waiting_.front())) {
        waiting_.front()->move_to(Outgoing::State::kWriting);
        waiting_.pop_front();
        ++count;
    }
    if (!waiting_.empty() && !rings_.may_grow()) reclaim(running);
    return count;
}

Outgoing* OutgoingStaging::starved() const {
    if (!rings_.cannot_register() || waiting_.empty()) return nullptr;
    return waiting_.front()->under_way() == 0 ? waiting_.front() : nullptr;
}

// Takes staging memory from transfers that have nothing to write now, be it for good or until the
// receiver has freed slots of its ring. Staging memory is free when the writes from it are
// complete, however late the receiver polls.
void OutgoingStaging::reclaim(std::span<Outgoing* const> running) {
    for (Outgoing* transfer : running) {
        ChunkSource::Chunk chunk;
        if (transfer->staging.slots == 0 || transfer->reclaim.under_way != 0 ||
            transfer->channel->failed || transfer->core->next(OutgoingWrites::kLongestWrite, chunk))
            continue;
        transfer->reclaim.owner = transfer;
        transfer->reclaim_at = transfer->core->staged();
        void* cookie = make_cookie(CookieKind::kWrite, &transfer->reclaim);
        const Status status = engine_.flushing()->flush(*transfer->channel, {cookie});
        if (status == Status::kInProgress)
            ++transfer->reclaim.under_way;
        else if (status == Status::kOk)
            take_back(*transfer);
    }
}

void OutgoingStaging::take_back(Outgoing& transfer) {
    if (transfer.staging.slots == 0 || transfer.core->staged() != transfer.reclaim_at ||
        transfer.halves_under_way() != 0)
        return;
    TERN_TRACE("outgoing transfer %u gives its staging memory back", transfer.number);
    rings_.give_back(transfer.staging);
    transfer.staging = {};
    transfer.core->forget_early_chunk();
}

void OutgoingStaging::give_back(Outgoing& transfer) {
    if (transfer.staging.slots != 0) rings_.give_back(transfer.staging);
    transfer.staging = {};
}

uint64_t OutgoingStaging::make_early_copy(Channel& channel, const Announced& message) {
    if (!early_copies_.empty()) {
        while (const EarlyCopy* old = early_copies_.outdated(&channel, message)) drop(*old);
        early_copies_.renew(message);
    }
    channel.readable = message.readable;
    if (!waiting_.empty() || (message.readable && !channel.fetches)) return 0;
    const uint64_t length = message.length;
    // The receiver's buffer is unknown: it is probably used again if the sender's is.
    const BufferState buffer{.pinned = message.reused && !message.readable,
                             .can_pin = memory_.fits(length)};
    const DecisionInputs inputs{.length = length, .sender = buffer, .own = buffer};
    if (!decider_.expect(inputs).staged()) return 0;
    RingPool::Ring staging;
    if (early_copies_.full() || !rings_.lend(staging)) {
        const EarlyCopy* old = early_copies_.dead();
        if (old == nullptr) old = early_copies_.overtaken(accounts_.begun());
        if (old == nullptr) return 0;
        drop(*old);
        if (!rings_.lend(staging)) return 0;
    }
    const EarlyChunk copy =
        EarlyChunk::of(length, decider_.limits(length, staging.slots, settings_.chunks_per_ring));
    auto* const at = reinterpret_cast<std::byte*>(message.address);
    const Buffers::Piece piece{.at = at, .length = static_cast<size_t>(length)};
    Buffers memory({&piece, 1});
    StagingMemory(staging.data, staging.slots).fill(copy, memory);
    ++counters_.early_copies_made;
    return early_copies_.add({.channel = &channel,
                              .address = message.address,
                              .length = length,
                              .key = message.key(),
                              .region = message.region,
                              .packing = message.packing,
                              .staged = copy,
                              .staging = staging,
                              .since = accounts_.begun()});
}

void OutgoingStaging::drop_early_copy(uint64_t number) {
    if (const EarlyCopy* copy = early_copies_.numbered(number); copy != nullptr) drop(*copy);
}

void OutgoingStaging::drop_early_copies(const Channel& channel) {
    while (const EarlyCopy* copy = early_copies_.of(&channel)) drop(*copy);
}

void OutgoingStaging::drop(const EarlyCopy& copy) {
    ++counters_.early_copies_dropped;
    copy.channel->fetches = false;
    rings_.give_back(copy.staging);
    early_copies_.remove(copy);
}

void OutgoingStaging::take_early_copy(Outgoing& transfer, const Fetch& frame) {
    if (early_copies_.empty()) return;
    const EarlyCopy* copy = early_copies_.of(transfer.channel, frame);
    if (copy == nullptr) return;
    // The region is another message's by now, or the message is fetched in another way.
    if (copy->dead() || !copy->staged.fits(frame.part.part())) return drop(*copy);
    ++counters_.early_copies_used;
    transfer.staging = copy->staging;
    transfer.early = copy->staged;
    early_copies_.remove(*copy);
}

}  // namespace tern
