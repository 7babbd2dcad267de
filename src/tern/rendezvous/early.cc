// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/early.h"

namespace tern {

uint64_t EarlyCopier::make(Channel& channel, const Announced& message, bool wanted) {
    if (!copies_.empty()) {
        while (const EarlyCopy* old = copies_.outdated(&channel, message)) drop(*old);
        copies_.renew(message);
    }
    transfers_on(channel).readable = message.readable;
    if (wanted || (message.readable && !transfers_on(channel).fetches)) return 0;
    const uint64_t length = message.length;
    // The receiver's buffer is unknown: it is probably used again if the sender's is.
    const BufferState buffer{.pinned = message.reused && !message.readable,
                             .can_pin = memory_.fits(length)};
    const DecisionInputs inputs{.length = length, .sender = buffer, .own = buffer};
    if (!decider_.decide(inputs).staged()) return 0;
    RingPool::Ring staging;
    if (copies_.full() || !rings_.lend(staging)) {
        const EarlyCopy* old = copies_.dead();
        if (old == nullptr) old = copies_.overtaken(accounts_.begun());
        if (old == nullptr) return 0;
        drop(*old);
        if (!rings_.lend(staging)) return 0;
    }
    const EarlyChunk copy =
        EarlyChunk::of(length, decider_.limits(length, staging.slots, settings_.chunks_per_ring));
    Buffers memory(reinterpret_cast<std::byte*>(message.address), static_cast<size_t>(length));
    StagingMemory(staging.data, staging.slots).fill(copy, memory);
    ++counters_.early_copies_made;
    return copies_.add({.channel = &channel,
                        .address = message.address,
                        .length = length,
                        .key = message.key(),
                        .region = message.region,
                        .packing = message.packing,
                        .staged = copy,
                        .staging = staging,
                        .since = accounts_.begun()});
}

void EarlyCopier::drop(uint64_t number) {
    if (const EarlyCopy* copy = copies_.numbered(number); copy != nullptr) drop(*copy);
}

void EarlyCopier::drop_all(const Channel& channel) {
    while (const EarlyCopy* copy = copies_.of(&channel)) drop(*copy);
}

bool EarlyCopier::give_way() {
    if (copies_.empty()) return false;
    drop(copies_.oldest());
    return true;
}

void EarlyCopier::drop(const EarlyCopy& copy) {
    ++counters_.early_copies_dropped;
    transfers_on(*copy.channel).fetches = false;
    rings_.give_back(copy.staging);
    copies_.remove(copy);
}

bool EarlyCopier::take(Outgoing& transfer, const Fetch& frame) {
    if (copies_.empty()) return false;
    const EarlyCopy* copy = copies_.of(transfer.channel, frame);
    if (copy == nullptr) return false;
    // The region is another message's by now, or the message is fetched in another way.
    if (copy->dead() || !copy->staged.fits(frame.part.part())) {
        drop(*copy);
        return false;
    }
    ++counters_.early_copies_used;
    transfer.staging = copy->staging;
    transfer.early = copy->staged;
    copies_.remove(*copy);
    return true;
}

}  // namespace tern
