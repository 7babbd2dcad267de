// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming_pins.h"

#include <algorithm>

#include "common/make_room.h"

namespace tern {

uint64_t IncomingPins::next_piece(const Incoming& transfer) const {
    const uint64_t rest = transfer.length - transfer.pinned.bytes;
    // The sender accepts only kMostParts parts at a time.
    const uint64_t least = transfer.length / (ChunkSource::kMostParts / 2) + 1;
    const uint64_t piece = piece_at(transfer, transfer.pinned.bytes, rest);
    return std::min(std::max(piece, least), rest);
}

bool IncomingPins::find(Incoming& transfer) {
    if (!transfer.decision.reused) return false;
    const uint64_t piece = next_piece(transfer);
    make_room(transfer);
    Pin* pin = memory_.find(transfer.memory.data() + transfer.pinned.bytes, piece, kRemotePut);
    if (pin != nullptr) take(transfer, piece, pin);
    return pin != nullptr;
}

bool IncomingPins::pin(Incoming& transfer, unsigned access) {
    const uint64_t piece = next_piece(transfer);
    make_room(transfer);
    Pin* pin = memory_.pin(transfer.memory.data() + transfer.pinned.bytes, piece, access);
    if (pin != nullptr) take(transfer, piece, pin);
    return pin != nullptr;
}

// For what take() enters: an exception there would lose the pin.
void IncomingPins::make_room(Incoming& transfer) {
    base::make_room(transfer.pins, transfer.pins.size() + 1);
    base::make_room(transfer.pinned.ends, transfer.pinned.ends.size() + 1);
}

void IncomingPins::take(Incoming& transfer, uint64_t piece, Pin* pin) {
    TERN_ASSERT(transfer.pin == nullptr && piece != 0 &&
                transfer.pinned.bytes + piece <= transfer.length);
    Decision& decision = transfer.decision;
    transfer.pinned.bytes += piece;
    if (piece == transfer.length) {
        transfer.pin = pin;
        return;
    }
    transfer.pins.push_back(pin);
    transfer.pinned.ends.push_back(transfer.pinned.bytes);
    if (!decision.reused) decision.piece = decider_.next_piece(decision.piece);
}

void IncomingPins::release_all(Incoming& transfer) {
    TERN_ASSERT(transfer.pin == nullptr && transfer.pinned.announced == 0);
    for (Pin* pin : transfer.pins) memory_.release(pin);
    transfer.pins.clear();
    transfer.pinned.ends.clear();
    transfer.pinned.bytes = 0;
}

Part IncomingPins::next_part(Incoming& transfer) {
    const Part rest{.upto = transfer.length};
    if (transfer.pinned.announced == transfer.pins.size() && !pin(transfer, kRemotePut))
        return rest;
    return TransferMemory::expose(transfer, true) ? pinned_part(transfer) : rest;
}

Part IncomingPins::pinned_part(Incoming& transfer) const {
    const uint64_t begin = transfer.core->parts_end();
    const auto address = reinterpret_cast<uint64_t>(transfer.memory.data()) + begin;
    if (transfer.pin != nullptr) return {transfer.length, address, transfer.pin->rkey(), true};
    TERN_ASSERT(transfer.pinned.announced < transfer.pins.size());
    const size_t next = transfer.pinned.announced++;
    return {transfer.pinned.ends[next], address, transfer.pins[next]->rkey(), true};
}

}  // namespace tern
