// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/outgoing_pins.h"

#include <algorithm>
#include <utility>

#include "tern/base/trace.h"

namespace tern {

bool OutgoingPins::prepare(Outgoing& transfer, uint64_t upto) {
    if (upto == 0 || upto > transfer.length) return false;
    ChunkSource::Chunk chunk{.bytes = upto};
    choose_source(transfer, chunk);
    if (!transfer.source.staged() &&
        (transfer.pin != nullptr || (!budget_.behind() && may_pin(transfer, 0))))
        (void)pin(transfer, chunk);
    return true;
}

void OutgoingPins::choose_source(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    transfer.source_decided = true;
    DecisionInputs inputs{.length = transfer.length - chunk.offset,
                          .one_piece = transfer.memory.contiguous()};
    if (inputs.one_piece) inputs.own = memory_.look_up(transfer, kLocalRead);
    transfer.of_device = inputs.own.of_device;
    if (inputs.own.pinned) transfer.pin_end = transfer.length;
    transfer.source = decider_.decide_buffer(inputs);
    TERN_TRACE(
        "outgoing transfer %u of %lu bytes to %s: %s, because %s", transfer.number,
        static_cast<unsigned long>(transfer.length), transfer.channel->peer.to_string().c_str(),
        transfer.source.staged() ? "copied" : "sent in place", text_of(transfer.source.reason));
}

// Other memory is looked at when its first placed chunk is due, because that counts a use of it.
bool OutgoingPins::is_of_device(Outgoing& transfer) {
    if (!transfer.source_decided && memory_.is_of_device(transfer)) [[unlikely]] {
        transfer.source_decided = transfer.of_device = true;
        transfer.source = {.scheme = Scheme::kPlaced, .reason = Reason::kPinned};
        transfer.pin_end = transfer.length;
    }
    return transfer.of_device;
}

bool OutgoingPins::may_send(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    if (!transfer.source_decided) choose_source(transfer, chunk);
    const bool must_pin =
        !transfer.source.staged() && chunk.offset >= transfer.pin_end && transfer.ahead == nullptr;
    return !must_pin || find_piece(transfer, chunk.offset) || may_pin(transfer, chunk.offset);
}

bool OutgoingPins::pin(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    if (transfer.source.staged()) return false;
    if (chunk.offset >= transfer.pin_end) {
        if (transfer.ahead == nullptr) pin_piece(transfer, chunk.offset);
        if (transfer.ahead == nullptr) return false;
        if (transfer.pin != nullptr) transfer.pins.push_back(transfer.pin);
        transfer.pin = std::exchange(transfer.ahead, nullptr);
        transfer.pin_end = transfer.ahead_end;
    }
    TERN_ASSERT(transfer.pin != nullptr && chunk.offset < transfer.pin_end);
    chunk.bytes = std::min(chunk.bytes, transfer.pin_end - chunk.offset);
    return true;
}

// The length of the piece to be pinned that begins at `offset`.
uint64_t OutgoingPins::piece_at(const Outgoing& transfer, uint64_t offset) const {
    return memory_.piece_of(transfer.source.piece, transfer.source.reused,
                            transfer.memory.data() + offset, transfer.length - offset,
                            accounts_.running() <= 1);
}

bool OutgoingPins::may_pin(const Outgoing& transfer, uint64_t offset) {
    return budget_.may_register(piece_at(transfer, offset));
}

// Takes the piece that begins at `offset` if it is pinned. Only of buffers that are used again.
bool OutgoingPins::find_piece(Outgoing& transfer, uint64_t offset) {
    if (!transfer.source.reused) return false;
    const uint64_t piece = piece_at(transfer, offset);
    transfer.ahead = memory_.find(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) return false;
    transfer.ahead_end = offset + piece;
    return true;
}

// Pins the piece that begins at `offset`, if possible.
void OutgoingPins::pin_piece(Outgoing& transfer, uint64_t offset) {
    TERN_ASSERT(transfer.ahead == nullptr);
    Decision& source = transfer.source;
    const uint64_t piece = piece_at(transfer, offset);
    transfer.ahead = memory_.pin(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) {
        source.scheme = Scheme::kStaged;
        source.reason = Reason::kPinFailed;
    }
    transfer.ahead_end = offset + piece;
    if (!source.reused) source.piece = decider_.next_piece(source.piece);
}

unsigned OutgoingPins::pin_ahead(Outgoing& transfer) {
    if (transfer.gather.under_way == 0 || transfer.ahead != nullptr || transfer.source.staged() ||
        transfer.source.piece == 0 || transfer.pin_end == transfer.length ||
        transfer.core->sent() != transfer.pin_end)
        return 0;
    if (find_piece(transfer, transfer.pin_end)) return 1;
    if (!may_pin(transfer, transfer.pin_end)) return 0;
    pin_piece(transfer, transfer.pin_end);
    return 1;
}

}  // namespace tern
