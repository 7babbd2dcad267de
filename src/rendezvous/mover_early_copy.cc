// SPDX-License-Identifier: BSD-3-Clause

// Beginnings of messages that are copied while the request to send travels. Data path.

#include "rendezvous/mover.h"
#include "rendezvous/staging.h"

namespace tern {

uint64_t Mover::make_early_copy(Channel& channel, const void* from, uint64_t length,
                                const WireKey& key, bool returns) {
    if (!waiting_to_send_.empty()) return 0;
    // Of the other side's memory nothing is known: what comes back here probably does there.
    const BufferState buffer{.pinned = returns, .can_pin = fits(length)};
    if (!policy_.receive(length, buffer, buffer).staged()) return 0;
    RingPool::Ring staging;
    if (early_copies_.full() || !staging_.lend_idle(staging)) {
        const EarlyCopy* old = early_copies_.overtaken(sequence_);
        if (old == nullptr) return 0;
        drop(*old);
        if (!staging_.lend_idle(staging)) return 0;
    }
    const EarlyChunk copy =
        EarlyChunk::of(length, policy_.limits(length, staging.slots, settings_.buffers));
    auto* const at = static_cast<std::byte*>(const_cast<void*>(from));
    const Buffers::Piece piece{.at = at, .length = static_cast<size_t>(length)};
    Buffers memory({&piece, 1});
    StagingMemory(staging.data, staging.slots).fill(copy, memory);
    ++counters_.heads_staged;
    return early_copies_.add({.channel = &channel,
                              .address = reinterpret_cast<uint64_t>(from),
                              .length = length,
                              .key = key,
                              .staged = copy,
                              .staging = staging,
                              .since = sequence_});
}

void Mover::drop_early_copy(uint64_t number) {
    if (const EarlyCopy* copy = early_copies_.numbered(number); copy != nullptr) drop(*copy);
}

void Mover::drop(const EarlyCopy& copy) {
    ++counters_.heads_dropped;
    staging_.give_back(copy.staging);
    early_copies_.remove(copy);
}

// The peer asks for a message, which it has been told of or not.
void Mover::take_early_copy(Outgoing& transfer, const Fetch& frame) {
    const EarlyCopy* copy = early_copies_.of(transfer.channel, frame);
    if (copy == nullptr) return;
    // What is going another way after all does without.
    if (!copy->staged.fits(frame.part.part())) return drop(*copy);
    ++counters_.heads_used;
    transfer.staging = copy->staging;
    transfer.early = copy->staged;
    early_copies_.remove(*copy);
}

}  // namespace tern
