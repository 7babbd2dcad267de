// SPDX-License-Identifier: BSD-3-Clause

// Gets from memory whose rkey is known: the device reads without the peer.

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "rendezvous/incoming.h"

namespace tern {

bool Receives::reads(std::span<const Buffers::Piece> to, const Source& source) const {
    DecisionInputs inputs{
        .readable = source.readable, .late = source.late, .one_piece = to.size() == 1};
    if (!inputs.one_piece) return false;
    const Buffers::Piece& buffer = to.front();
    inputs.length = buffer.length;
    inputs.own.can_pin = context_.fits(buffer.length);
    if (!source.late) inputs.own.uses = context_.pins.uses(buffer.at, buffer.length);
    if (context_.policy.is_reused(inputs.own))
        inputs.own.keeps = context_.pins.keeps(buffer.at, buffer.length);
    return expect(inputs, context_.policy).scheme == Scheme::kRead;
}

// Reads into the user's memory if it is pinned or worth pinning, else into a ring.
Receives::Start Receives::start_reading(Incoming& transfer, bool may_lend) {
    // Only once for each transfer, because look_up() counts a use of the buffer.
    if (!transfer.decided && transfer.memory.contiguous() && !transfer.owned) {
        const BufferState own = context_.look_up(transfer, kLocalWrite);
        transfer.decision = decide_target(transfer.length, own, context_.policy);
        if (own.pinned) transfer.pinned = transfer.length;
    }
    if (!transfer.decided)
        trace_decision(transfer, Scheme::kRead,
                       reason_to_read(transfer.source.readable, transfer.source.late));
    transfer.decided = true;
    if (transfer.decision.staged() && !lend_ring(transfer, may_lend))
        return without_ring(transfer, may_lend);
    transfer.state = Incoming::State::kReading;
    running_.push_back(&transfer);
    ++context_.running;
    (void)post_reads(transfer);
    return Start::kBegun;
}

// The transfer may be over after this.
unsigned Receives::step_reading(Incoming& transfer) {
    const unsigned count = take_reads(transfer);
    if (transfer.taken != transfer.length) return count + post_reads(transfer);
    over(transfer, Status::kOk);
    return count + 1;
}

// Takes what has been read, in order, and copies it to its place if need be.
unsigned Receives::take_reads(Incoming& transfer) {
    for (unsigned count = 0;; ++count) {
        const auto read = std::find_if(
            std::begin(transfer.reads), std::end(transfer.reads),
            [&](const Incoming::Read& it) { return it.arrived && it.offset == transfer.taken; });
        if (read == std::end(transfer.reads)) return count;
        if (read->from != nullptr) {
            if (context_.budget.over()) return count;
            transfer.memory.write(read->from, static_cast<size_t>(read->bytes));
            context_.budget.copied(read->bytes);
        } else {
            transfer.memory.skip(read->bytes);
        }
        transfer.taken += read->bytes;
        *read = {};
    }
}

unsigned Receives::post_reads(Incoming& transfer) {
    Channel& channel = *transfer.channel;
    unsigned count = 0;
    while (transfer.asked != transfer.length && !channel.failed &&
           channel.sends.room() > channel.transfer_reserve) {
        const auto free = std::find_if(std::begin(transfer.reads), std::end(transfer.reads),
                                       [](const Incoming::Read& read) { return read.bytes == 0; });
        ibv_sge piece{};
        if (free == std::end(transfer.reads) || !find_room(transfer, *free, piece)) break;
        free->owner = &transfer;
        free->offset = transfer.asked;
        void* cookie = make_cookie(CookieKind::kRead, free);
        (void)context_.engine.one_sided().read(
            channel, {&piece, 1}, transfer.address + transfer.asked, transfer.rkey, cookie);
        transfer.asked += free->bytes;
        ++count;
    }
    return count;
}

// Finds where the next read goes, and how long it is. False: not now.
bool Receives::find_room(Incoming& transfer, Incoming::Read& read, ibv_sge& piece) {
    const uint64_t rest = transfer.length - transfer.asked;
    if (!transfer.decision.staged() && transfer.asked == transfer.pinned) {
        if (!may_pin(transfer)) return false;
        if (!pin_piece(transfer, kLocalWrite))
            transfer.decision = decide({.length = transfer.length, .pin_failed = true},
                                       context_.policy, context_.timings);
    }
    if (transfer.decision.staged() && !lend_ring(transfer, waiting_.empty())) {
        if (rings_.cannot_register() && transfer.asked == transfer.taken)
            (void)out_of_rings(transfer);
        return false;
    }
    if (!transfer.decision.staged()) {
        const Pin& pin = transfer.pin != nullptr ? *transfer.pin : *transfer.pins.back();
        read.bytes = std::min(transfer.pinned - transfer.asked, kLongestRead);
        piece.addr = address_of(transfer.memory.data()) + transfer.asked;
        piece.lkey = pin.lkey();
    } else {
        const uint64_t half =
            uint64_t{transfer.ring.slots} * SubBlocks::kSlot / std::size(transfer.reads);
        const auto which = static_cast<uint64_t>(&read - transfer.reads);
        read.bytes = std::min({rest, half, context_.policy.longest_copy()});
        read.from = transfer.ring.data + half * which;
        piece.addr = address_of(read.from);
        piece.lkey = transfer.ring.lkey;
    }
    piece.length = static_cast<uint32_t>(read.bytes);
    return true;
}

// Reads complete in the order in which they were posted.
void Receives::have_read(Incoming::Read& read, Status status) {
    Incoming& transfer = *read.owner;
    --transfer.channel->replies;
    if (status != Status::kOk) return;  // the channel ends, and the transfer with it
    read.arrived = true;
    if (!context_.budget.behind()) (void)step_reading(transfer);
}

}  // namespace tern
