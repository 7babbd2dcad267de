// SPDX-License-Identifier: BSD-3-Clause

// Pinning behind the wire: both halves pin a piece of the user's memory while the one before is
// being sent.

#include <algorithm>
#include <utility>

#include "rendezvous/mover.h"

namespace tern {

// How much of the rest to pin. With several transfers at a time the wire is busy anyway, and it is
// the processor that must not have more to do than necessary.
uint64_t Mover::piece_of(uint64_t planned, uint64_t rest) const {
    if (planned == 0) return rest;
    const bool alone = receiving_.size() + sending_.size() <= 1;
    return std::min(alone ? planned : std::max(planned, Policy::kLongestPiece), rest);
}

// The part behind those told of: pinned, or if that cannot be, all the rest through the ring.
Part Mover::pin_next(Incoming& transfer) {
    const uint64_t begin = transfer.core->told();
    const uint64_t rest = transfer.length - begin;
    // The sender keeps only so many in mind.
    const uint64_t least = transfer.length / (Sender::kMostParts / 2) + 1;
    const uint64_t piece = std::min(std::max(piece_of(transfer.plan.piece, rest), least), rest);
    Pin* pin = this->pin(transfer.memory.data() + begin, piece);
    if (pin == nullptr) return {.upto = transfer.length};
    transfer.pins.push_back(pin);
    if (!lend(transfer, true)) return {.upto = transfer.length};
    transfer.plan.piece = policy_.next_piece(transfer.plan.piece);
    Part part = direct_part(*pin, transfer.memory.data() + begin, piece);
    part.upto = begin + piece;
    return part;
}

Part Mover::direct_part(const Pin& pin, const std::byte* at, uint64_t length) {
    return {.upto = length,
            .address = reinterpret_cast<uint64_t>(at),
            .rkey = pin.rkey(),
            .direct = true};
}

Pin* Mover::pin(std::byte* at, uint64_t length) {
    Pin* pin = pins_.pin(at, static_cast<size_t>(length), kRemotePut);
    if (pin == nullptr) ++counters_.fallbacks;
    return pin;
}

// The receiver is pinning the first part: so does this side, with what goes there. False if there
// is no such part.
bool Mover::prepare(Outgoing& transfer, uint64_t upto) {
    if (upto == 0 || upto > transfer.length) return false;
    Sender::Chunk chunk{.bytes = upto};
    plan_source(transfer, chunk);
    if (transfer.source.gather) (void)pin_source(transfer, chunk);
    return true;
}

void Mover::plan_source(Outgoing& transfer, const Sender::Chunk& chunk) {
    transfer.source_planned = true;
    if (!transfer.memory.contiguous()) return;
    const BufferState own = look_up(transfer, kLocalRead);
    if (own.pinned) transfer.pin_end = transfer.length;
    transfer.source = policy_.send(transfer.length - chunk.offset, own);
    if (own.returned >= settings_.policy.worth_pinning) transfer.source.piece = 0;
}

// The bytes of the chunk are pinned; it may get shorter. False if they cannot be.
bool Mover::pin_source(Outgoing& transfer, Sender::Chunk& chunk) {
    if (chunk.offset >= transfer.pin_end) {
        if (transfer.ahead == nullptr) pin_behind(transfer, chunk.offset);
        if (transfer.ahead == nullptr) return false;
        if (transfer.pin != nullptr) transfer.pins.push_back(transfer.pin);
        transfer.pin = std::exchange(transfer.ahead, nullptr);
        transfer.pin_end = transfer.ahead_end;
    }
    chunk.bytes = std::min(chunk.bytes, transfer.pin_end - chunk.offset);
    return true;
}

// Pins the piece that begins at `offset`, if that can be.
void Mover::pin_behind(Outgoing& transfer, uint64_t offset) {
    SourcePlan& source = transfer.source;
    const uint64_t rest = transfer.length - offset;
    const uint64_t piece = piece_of(source.piece, rest);
    transfer.ahead =
        pins_.pin(transfer.memory.data() + offset, static_cast<size_t>(piece), kLocalRead);
    if (transfer.ahead == nullptr) {
        ++counters_.fallbacks;
        source.gather = false;
    }
    transfer.ahead_end = offset + piece;
    source.piece = policy_.next_piece(source.piece);
}

// While what is pinned is on the wire, and the receiver pins.
unsigned Mover::pin_ahead(Outgoing& transfer) {
    if (transfer.gather.under_way == 0 || transfer.ahead != nullptr || !transfer.source.gather ||
        transfer.source.piece == 0 || transfer.pin_end == transfer.length ||
        transfer.core->sent() != transfer.pin_end)
        return 0;
    pin_behind(transfer, transfer.pin_end);
    return 1;
}

}  // namespace tern
