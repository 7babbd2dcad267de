// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/placed.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/make_room.h"
#include "tern/base/trace.h"

namespace tern {

// Pieces of a buffer that is used again end at multiples of their length. With several transfers
// the wire is busy anyway, and long pieces save processor time. The sender accepts only kMostParts
// parts at a time.
uint64_t PiecewisePins::next_piece(const Transfer& transfer) const {
    const uint64_t offset = transfer.pinned.bytes;
    const uint64_t rest = transfer.length - offset;
    const uint64_t piece = transfer.decision.piece;
    if (piece == 0) return rest;
    uint64_t wanted = piece;
    if (transfer.decision.reused)
        wanted -= address_of(transfer.memory.data() + offset) % piece;
    else if (accounts_.running() > 1)
        wanted = std::max(piece, std::min(kLongPiece, decider_.longest_piece()));
    return std::min(std::max(wanted, transfer.length / (ChunkSource::kMostParts / 2) + 1), rest);
}

bool PiecewisePins::find(Transfer& transfer, unsigned access) {
    if (!transfer.decision.reused) return false;
    const uint64_t piece = next_piece(transfer);
    make_room(transfer, piece);
    Pin* pin = memory_.find(transfer.memory.data() + transfer.pinned.bytes, piece, access);
    if (pin != nullptr) take(transfer, piece, pin);
    return pin != nullptr;
}

bool PiecewisePins::pin(Transfer& transfer, unsigned access) {
    const uint64_t piece = next_piece(transfer);
    make_room(transfer, piece);
    Pin* pin = memory_.pin(transfer.memory.data() + transfer.pinned.bytes, piece, access);
    if (pin != nullptr) take(transfer, piece, pin);
    return pin != nullptr;
}

// For what take() enters: an exception there would lose the pin.
void PiecewisePins::make_room(Transfer& transfer, uint64_t piece) {
    if (piece == transfer.length) return;
    base::make_room(transfer.pinned.pins, transfer.pinned.pins.size() + 1);
    base::make_room(transfer.pinned.ends, transfer.pinned.ends.size() + 1);
}

void PiecewisePins::take(Transfer& transfer, uint64_t piece, Pin* pin) {
    TERN_ASSERT(transfer.pin == nullptr && piece != 0 &&
                transfer.pinned.bytes + piece <= transfer.length);
    Decision& decision = transfer.decision;
    transfer.pinned.bytes += piece;
    if (piece == transfer.length) {
        transfer.pin = pin;
        return;
    }
    transfer.pinned.pins.push_back(pin);
    transfer.pinned.ends.push_back(transfer.pinned.bytes);
    if (!decision.reused) decision.piece = decider_.next_piece(decision.piece);
}

void IncomingPins::release_all(Incoming& transfer) {
    TERN_ASSERT(transfer.pin == nullptr && transfer.pinned.used == 0);
    for (Pin* pin : transfer.pinned.pins) memory_.release(pin);
    transfer.pinned.pins.clear();
    transfer.pinned.ends.clear();
    transfer.pinned.bytes = 0;
}

Part IncomingPins::next_part(Incoming& transfer) {
    const Part rest{.upto = transfer.length};
    if (transfer.pinned.used == transfer.pinned.pins.size() && !pin(transfer, kRemotePut))
        return rest;
    return TransferMemory::expose(transfer, true) ? pinned_part(transfer) : rest;
}

Part IncomingPins::pinned_part(Incoming& transfer) {
    const uint64_t begin = transfer.core->parts_end();
    const auto address = reinterpret_cast<uint64_t>(transfer.memory.data()) + begin;
    if (transfer.pin != nullptr) return {transfer.length, address, transfer.pin->rkey(), true};
    TERN_ASSERT(transfer.pinned.used < transfer.pinned.pins.size());
    const size_t next = transfer.pinned.used++;
    return {transfer.pinned.ends[next], address, transfer.pinned.pins[next]->rkey(), true};
}

unsigned IncomingPins::announce(Incoming& transfer) {
    unsigned count = 0;
    bool found = true;
    while (count < kPartsAtOnce && found &&
           (transfer.parts.due || transfer.core->parts_end() != transfer.length)) {
        if (!transfer.parts.due) {
            if (budget_.over()) break;
            found =
                transfer.pinned.used != transfer.pinned.pins.size() || find(transfer, kRemotePut);
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
    choose_source(transfer, {.bytes = upto});
    if (!transfer.decision.staged() && transfer.pin == nullptr && !budget_.behind() &&
        may_pin(transfer))
        (void)pin_next(transfer);
    return true;
}

void PlacedWrites::choose_source(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    transfer.decided = true;
    DecisionInputs inputs{.length = transfer.length - chunk.offset,
                          .one_piece = transfer.memory.contiguous()};
    if (inputs.one_piece) inputs.own = memory_.look_up(transfer, kLocalRead);
    transfer.of_device = inputs.own.of_device;
    if (inputs.own.pinned) transfer.pinned.bytes = transfer.length;
    transfer.decision = decider_.decide_buffer(inputs);
    TERN_TRACE(
        "outgoing transfer %u of %lu bytes to %s: %s, because %s", transfer.number,
        static_cast<unsigned long>(transfer.length), transfer.channel->peer.to_string().c_str(),
        transfer.decision.staged() ? "copied" : "sent in place", text_of(transfer.decision.reason));
}

// Other memory is looked at when its first placed chunk is due, because that counts a use of it.
bool PlacedWrites::is_of_device(Outgoing& transfer) {
    if (!transfer.decided && memory_.is_of_device(transfer)) [[unlikely]] {
        transfer.decided = transfer.of_device = true;
        transfer.decision = {.scheme = Scheme::kPlaced, .reason = Reason::kPinned};
        transfer.pinned.bytes = transfer.length;
    }
    return transfer.of_device;
}

bool PlacedWrites::post(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    if (!transfer.decided) choose_source(transfer, chunk);
    if (!transfer.decision.staged() && chunk.offset >= transfer.pinned.bytes) {
        transfer.pinned.bytes = chunk.offset;  // a part before may have been staged
        if (!find(transfer, kLocalRead) && !may_pin(transfer))
            return false;  // not in this call of progress
    }
    const Pin* const pin = pin_of(transfer, chunk);
    return pin != nullptr ? post_in_place(transfer, chunk, *pin) : post_copied(transfer, chunk);
}

// The pin of the chunk's bytes; may shorten the chunk. Null: they are to be copied.
const Pin* PlacedWrites::pin_of(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    Pinned& pinned = transfer.pinned;
    if (transfer.decision.staged()) return nullptr;
    if (chunk.offset >= pinned.bytes && !pin_next(transfer)) return nullptr;
    if (transfer.pin != nullptr) return transfer.pin;
    while (pinned.ends[pinned.used] <= chunk.offset) ++pinned.used;
    chunk.bytes = std::min(chunk.bytes, pinned.ends[pinned.used] - chunk.offset);
    return pinned.pins[pinned.used];
}

// Pins the next piece, or else has the rest copied.
bool PlacedWrites::pin_next(Outgoing& transfer) {
    if (pin(transfer, kLocalRead)) return true;
    transfer.decision.scheme = Scheme::kStaged;
    transfer.decision.reason = Reason::kPinFailed;
    return false;
}

unsigned PlacedWrites::pin_ahead(Outgoing& transfer) {
    if (transfer.gather.under_way == 0 || transfer.decision.staged() ||
        transfer.decision.piece == 0 || transfer.pinned.bytes == transfer.length ||
        transfer.core->sent() != transfer.pinned.bytes)
        return 0;
    if (find(transfer, kLocalRead)) return 1;
    if (!may_pin(transfer)) return 0;
    (void)pin_next(transfer);
    return 1;
}

bool PlacedWrites::post_in_place(Outgoing& transfer, const ChunkSource::Chunk& chunk,
                                 const Pin& pin) {
    if (!TransferMemory::expose(transfer, false)) return false;
    std::byte* from = transfer.memory.data() + chunk.offset;
    transfer.memory.skip(chunk.bytes);
    counters_.gathered_bytes += chunk.bytes;
    write(transfer, chunk, from, pin.lkey(), transfer.gather);
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
