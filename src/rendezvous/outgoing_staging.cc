// SPDX-License-Identifier: BSD-3-Clause

// Staging memory: which transfer has it, and early copies.

#include "rendezvous/outgoing.h"

#include <algorithm>

#include "rendezvous/staging.h"

namespace tern {

// Lends staging memory to a transfer that has none, in the order of the requests. False: it waits.
bool Sends::stage(Outgoing& transfer) {
    if (transfer.staging.slots != 0) return true;
    if (waiting_.empty() && lend_staging(transfer)) return true;
    transfer.state = Outgoing::State::kWaiting;
    waiting_.push_back(&transfer);
    context_.counters.ring_waits += !staging_.may_grow();  // else for the next turn
    return false;
}

bool Sends::lend_staging(Outgoing& transfer) {
    if (!context_.lend(staging_, transfer.staging)) {
        // No transfer waits for an early copy that may never be fetched.
        if (staging_.may_grow() || early_copies_.empty()) return false;
        drop(early_copies_.oldest());
        (void)staging_.lend(transfer.staging);
    }
    transfer.core->set_staging(transfer.staging.slots);
    return true;
}

unsigned Sends::lend_to_waiting() {
    unsigned count = 0;
    while (!waiting_.empty() && lend_staging(*waiting_.front())) {
        waiting_.front()->state = Outgoing::State::kWriting;
        waiting_.pop_front();
        ++count;
    }
    if (!waiting_.empty() && !staging_.may_grow()) reclaim_staging();
    // No staging memory can be registered, now or later.
    while (staging_.cannot_register() && !waiting_.empty()) {
        Outgoing& transfer = *waiting_.front();
        if (transfer.under_way() != 0) break;
        context_.warn_of_limit();
        if (!transfer.alone())
            context_.add_refusal(*transfer.channel, {.number = transfer.receiver});
        over(transfer, Status::kDevice);
        ++count;
    }
    return count;
}

// Takes staging memory from transfers that have nothing to write now, be it for good or until the
// receiver has freed slots of its ring. Staging memory is free when the writes from it are
// complete, however late the receiver looks.
void Sends::reclaim_staging() {
    for (Outgoing* transfer : running_) {
        Sender::Chunk chunk;
        if (transfer->staging.slots == 0 || transfer->reclaim.under_way != 0 ||
            transfer->channel->failed || transfer->core->next(kLongestWrite, chunk))
            continue;
        transfer->reclaim.owner = transfer;
        transfer->reclaim_at = transfer->core->staged();
        void* cookie = make_cookie(CookieKind::kWrite, &transfer->reclaim);
        const Status status = context_.engine.flush(*transfer->channel, {cookie});
        if (status == Status::kInProgress)
            ++transfer->reclaim.under_way;
        else if (status == Status::kOk)
            take_staging_back(*transfer);
    }
}

void Sends::take_staging_back(Outgoing& transfer) {
    if (transfer.staging.slots == 0 || transfer.core->staged() != transfer.reclaim_at ||
        transfer.halves[0].under_way + transfer.halves[1].under_way != 0)
        return;
    staging_.give_back(transfer.staging);
    transfer.staging = {};
    transfer.core->forget_early_chunk();
}

uint64_t Sends::make_early_copy(Channel& channel, const Announced& message) {
    if (!early_copies_.empty()) {
        while (const EarlyCopy* old = early_copies_.outdated(&channel, message)) drop(*old);
        early_copies_.renew(message);
    }
    channel.readable = message.readable;
    if (!waiting_.empty() || (message.readable && !channel.fetches)) return 0;
    const uint64_t length = message.length;
    // The receiver's buffer is unknown: it is probably used again if the sender's is.
    const bool returns = message.returns && !message.readable;
    const BufferState buffer{.pinned = returns, .can_pin = context_.fits(length)};
    const DecisionInputs inputs{.length = length, .sender = buffer, .own = buffer};
    if (!expect(inputs, context_.policy, context_.timings).staged()) return 0;
    RingPool::Ring staging;
    if (early_copies_.full() || !staging_.lend(staging)) {
        const EarlyCopy* old = early_copies_.dead();
        if (old == nullptr) old = early_copies_.overtaken(context_.begun);
        if (old == nullptr) return 0;
        drop(*old);
        if (!staging_.lend(staging)) return 0;
    }
    const EarlyChunk copy = EarlyChunk::of(
        length, context_.policy.limits(length, staging.slots, context_.settings.chunks_per_ring));
    auto* const at = reinterpret_cast<std::byte*>(message.address);
    const Buffers::Piece piece{.at = at, .length = static_cast<size_t>(length)};
    Buffers memory({&piece, 1});
    StagingMemory(staging.data, staging.slots).fill(copy, memory);
    ++context_.counters.early_copies_made;
    return early_copies_.add({.channel = &channel,
                              .address = message.address,
                              .length = length,
                              .key = message.key(),
                              .region = message.region,
                              .packing = message.packing,
                              .staged = copy,
                              .staging = staging,
                              .since = context_.begun});
}

void Sends::drop_early_copy(uint64_t number) {
    if (const EarlyCopy* copy = early_copies_.numbered(number); copy != nullptr) drop(*copy);
}

void Sends::drop(const EarlyCopy& copy) {
    ++context_.counters.early_copies_dropped;
    copy.channel->fetches = false;
    staging_.give_back(copy.staging);
    early_copies_.remove(copy);
}

// Gives the transfer the early copy of the memory fetched, if there is one.
void Sends::take_early_copy(Outgoing& transfer, const Fetch& frame) {
    const EarlyCopy* copy = early_copies_.of(transfer.channel, frame);
    if (copy == nullptr) return;
    // The region is another message's by now, or the message is fetched in another way.
    if (copy->dead() || !copy->staged.fits(frame.part.part())) return drop(*copy);
    ++context_.counters.early_copies_used;
    transfer.staging = copy->staging;
    transfer.early = copy->staged;
    early_copies_.remove(*copy);
}

}  // namespace tern
