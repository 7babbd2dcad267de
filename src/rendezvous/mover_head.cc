// SPDX-License-Identifier: BSD-3-Clause

// Beginnings of messages that are copied while the request to send travels. Data path.

#include "rendezvous/mover.h"
#include "rendezvous/staging.h"

namespace tern {

uint64_t Mover::stage_head(Channel& channel, const void* from, uint64_t length, const WireKey& key,
                           bool returns) {
    if (!waiting_to_send_.empty()) return 0;
    // Of the other side's memory nothing is known: what comes back here probably does there.
    const BufferState buffer{.pinned = returns, .can_pin = fits(length)};
    const uint64_t staged = policy_.receive(length, buffer, buffer).head;
    if (staged == 0) return 0;
    WindowPool::Window window;
    if (heads_.full() || !staging_.lend_idle(window)) {
        const Head* old = heads_.overtaken(sequence_);
        if (old == nullptr) return 0;
        drop(*old);
        if (!staging_.lend_idle(window)) return 0;
    }
    const StagedHead head =
        StagedHead::of(staged, policy_.limits(length, window.slots, settings_.buffers));
    auto* const at = static_cast<std::byte*>(const_cast<void*>(from));
    const Buffers::Piece piece{.at = at, .length = static_cast<size_t>(length)};
    Buffers memory({&piece, 1});
    StagingMemory(window.data, window.slots).fill(head, memory);
    ++counters_.heads_staged;
    return heads_.add({.channel = &channel,
                       .address = reinterpret_cast<uint64_t>(from),
                       .length = length,
                       .key = key,
                       .staged = head,
                       .window = window,
                       .since = sequence_});
}

void Mover::drop_head(uint64_t number) {
    if (const Head* head = heads_.numbered(number); head != nullptr) drop(*head);
}

void Mover::drop(const Head& head) {
    ++counters_.heads_dropped;
    staging_.give_back(head.window);
    heads_.remove(head);
}

// The peer asks for a message, which it has been told of or not.
void Mover::take_head(Outgoing& transfer, const Fetch& frame) {
    const Head* head = heads_.of(transfer.channel, frame);
    if (head == nullptr) return;
    // What is going another way after all does without.
    if (!head->staged.fits(frame.part.part())) return drop(*head);
    ++counters_.heads_used;
    transfer.window = head->window;
    transfer.head = head->staged;
    heads_.remove(*head);
}

}  // namespace tern
