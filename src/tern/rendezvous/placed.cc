// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/placed.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/make_room.h"
#include "tern/base/trace.h"

namespace tern {

// Pieces of a buffer that is used again end at multiples of their length. With several transfers
// the wire is busy anyway, and long pieces save processor time.
uint64_t PiecewisePins::piece_at(const Transfer& transfer, const Decision& decision,
                                 uint64_t offset) const {
    const uint64_t rest = transfer.length - offset;
    const uint64_t piece = decision.piece;
    if (piece == 0) return rest;
    if (decision.reused)
        return std::min(piece - address_of(transfer.memory.data() + offset) % piece, rest);
    const bool alone = accounts_.running() <= 1;
    const uint64_t least = alone ? 0 : std::min(Decider::kLongPiece, decider_.longest_piece());
    return std::min(std::max(piece, least), rest);
}

uint64_t IncomingPins::next_piece(const Incoming& transfer) const {
    const uint64_t rest = transfer.length - transfer.pinned.bytes;
    // The sender accepts only kMostParts parts at a time.
    const uint64_t least = transfer.length / (ChunkSource::kMostParts / 2) + 1;
    const uint64_t piece = piece_at(transfer, transfer.decision, transfer.pinned.bytes);
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

Part IncomingPins::pinned_part(Incoming& transfer) {
    const uint64_t begin = transfer.core->parts_end();
    const auto address = reinterpret_cast<uint64_t>(transfer.memory.data()) + begin;
    if (transfer.pin != nullptr) return {transfer.length, address, transfer.pin->rkey(), true};
    TERN_ASSERT(transfer.pinned.announced < transfer.pins.size());
    const size_t next = transfer.pinned.announced++;
    return {transfer.pinned.ends[next], address, transfer.pins[next]->rkey(), true};
}

unsigned IncomingPins::announce(Incoming& transfer) {
    unsigned count = 0;
    bool found = true;
    while (count < kPartsAtOnce && found &&
           (transfer.parts.due || transfer.core->parts_end() != transfer.length)) {
        if (!transfer.parts.due) {
            if (budget_.over()) break;
            found = transfer.pinned.announced != transfer.pins.size() || find(transfer);
            if (!found && (count != 0 || !may_pin(transfer))) break;
            transfer.parts.next = next_part(transfer);
            transfer.core->add(transfer.parts.next);
            transfer.parts.due = true;
        }
        const MorePart frame{.receiver = transfer.number,
                             .part = WirePart::of(transfer.parts.next)};
        if (!send_frame(engine_, *transfer.channel, TransferId::kPart, frame)) break;
        transfer.parts.due = false;
        ++count;
    }
    return count;
}

bool PlacedWrites::prepare(Outgoing& transfer, uint64_t upto) {
    if (upto == 0 || upto > transfer.length) return false;
    ChunkSource::Chunk chunk{.bytes = upto};
    choose_source(transfer, chunk);
    if (!transfer.source.staged() &&
        (transfer.pin != nullptr || (!budget_.behind() && may_pin(transfer, 0))))
        (void)pin(transfer, chunk);
    return true;
}

void PlacedWrites::choose_source(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
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
bool PlacedWrites::is_of_device(Outgoing& transfer) {
    if (!transfer.source_decided && memory_.is_of_device(transfer)) [[unlikely]] {
        transfer.source_decided = transfer.of_device = true;
        transfer.source = {.scheme = Scheme::kPlaced, .reason = Reason::kPinned};
        transfer.pin_end = transfer.length;
    }
    return transfer.of_device;
}

bool PlacedWrites::post(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    if (!transfer.source_decided) choose_source(transfer, chunk);
    const bool must_pin =
        !transfer.source.staged() && chunk.offset >= transfer.pin_end && transfer.ahead == nullptr;
    if (must_pin && !find_piece(transfer, chunk.offset) && !may_pin(transfer, chunk.offset))
        return false;  // not in this call of progress
    return pin(transfer, chunk) ? post_in_place(transfer, chunk) : post_copied(transfer, chunk);
}

// Has the chunk's bytes pinned; may shorten the chunk. False: they are to be copied.
bool PlacedWrites::pin(Outgoing& transfer, ChunkSource::Chunk& chunk) {
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

// Takes the piece that begins at `offset` if it is pinned. Only of buffers that are used again.
bool PlacedWrites::find_piece(Outgoing& transfer, uint64_t offset) {
    if (!transfer.source.reused) return false;
    const uint64_t piece = piece_at(transfer, transfer.source, offset);
    transfer.ahead = memory_.find(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) return false;
    transfer.ahead_end = offset + piece;
    return true;
}

// Pins the piece that begins at `offset`, if possible.
void PlacedWrites::pin_piece(Outgoing& transfer, uint64_t offset) {
    TERN_ASSERT(transfer.ahead == nullptr);
    Decision& source = transfer.source;
    const uint64_t piece = piece_at(transfer, source, offset);
    transfer.ahead = memory_.pin(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) {
        source.scheme = Scheme::kStaged;
        source.reason = Reason::kPinFailed;
    }
    transfer.ahead_end = offset + piece;
    if (!source.reused) source.piece = decider_.next_piece(source.piece);
}

unsigned PlacedWrites::pin_ahead(Outgoing& transfer) {
    if (transfer.gather.under_way == 0 || transfer.ahead != nullptr || transfer.source.staged() ||
        transfer.source.piece == 0 || transfer.pin_end == transfer.length ||
        transfer.core->sent() != transfer.pin_end)
        return 0;
    if (find_piece(transfer, transfer.pin_end)) return 1;
    if (!may_pin(transfer, transfer.pin_end)) return 0;
    pin_piece(transfer, transfer.pin_end);
    return 1;
}

bool PlacedWrites::post_in_place(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    if (!TransferMemory::expose(transfer, false)) return false;
    std::byte* from = transfer.memory.data() + chunk.offset;
    transfer.memory.skip(chunk.bytes);
    counters_.gathered_bytes += chunk.bytes;
    write(transfer, chunk, from, transfer.pin->lkey(), transfer.gather);
    return true;
}

bool PlacedWrites::post_copied(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    if (!transfer.core->all_acknowledged() || !staging_.lend_or_wait(transfer)) return false;
    const uint64_t half = uint64_t{transfer.staging.slots} * SubBlocks::kSlot / 2;
    const auto free =
        std::find_if(std::begin(transfer.halves), std::end(transfer.halves),
                     [](const Outgoing::Write& write) { return write.under_way == 0; });
    const RegionAccess memory(transfer);
    if (free == std::end(transfer.halves) || !memory || budget_.over()) return false;
    // Chunks grow here too, so that the wire waits for the first copy only.
    const Staging& shape = decider_.settings().staging;
    if (transfer.copy_bytes == 0) transfer.copy_bytes = shape.first;
    transfer.copy_bytes =
        std::min(transfer.copy_bytes, static_cast<double>(std::min(half, decider_.longest_copy())));
    chunk.bytes = std::min(chunk.bytes, static_cast<uint64_t>(transfer.copy_bytes));
    transfer.copy_bytes *= shape.q;
    std::byte* to = transfer.staging.data + half * static_cast<uint64_t>(free - transfer.halves);
    transfer.memory.read(to, chunk.bytes);
    budget_.copied(chunk.bytes);
    counters_.copied_bytes += chunk.bytes;
    write(transfer, chunk, to, transfer.staging.lkey, *free);
    return true;
}

void PlacedWrites::write(Outgoing& transfer, const ChunkSource::Chunk& chunk, const std::byte* from,
                         uint32_t lkey, Outgoing::Write& write) {
    ibv_sge piece{
        .addr = address_of(from), .length = static_cast<uint32_t>(chunk.bytes), .lkey = lkey};
    write.owner = &transfer;
    void* cookie = make_cookie(CookieKind::kWrite, &write);
    if (engine_.one_sided()->write(*transfer.channel, {&piece, 1}, chunk.address, chunk.rkey, 0,
                                   cookie) == Status::kOk)
        ++write.under_way;
}

}  // namespace tern
