// SPDX-License-Identifier: BSD-3-Clause

// How chunks are posted. A piece of the user's memory is pinned while the one before is being sent.

#include "rendezvous/outgoing.h"

#include <algorithm>
#include <utility>

#include "engine/engine.h"
#include "rendezvous/staging.h"

namespace tern {

unsigned Sends::advance() {
    unsigned count = 0;
    if (!unconnected_.empty()) [[unlikely]]
        count += take_connected(unconnected_, [this](Outgoing& transfer) { offer(transfer); });
    if (!waiting_.empty()) count += lend_to_waiting();
    count += make_offers();
    // A completion calls the user, who may begin further transfers: the list grows at its end.
    const size_t first = context_.budget.behind() ? next_ : 0;
    for (size_t i = 0; i < running_.size(); ++i) {
        const size_t at = (first + i) % running_.size();
        const bool late = context_.budget.over();
        count += step(*running_[at]);
        // A registration that did not fit in comes first.
        if (!late && context_.budget.over()) next_ = context_.budget.put_off() ? at : at + 1;
    }
    return count;
}

// A frame of the peer lets the transfer go on; at once, unless others are due.
void Sends::step_now(Outgoing& transfer) {
    if (!context_.budget.behind()) (void)step(transfer);
}

// One turn of the transfer: posts a few writes, pins the next piece, and sends the finish.
unsigned Sends::step(Outgoing& transfer) {
    Channel& channel = *transfer.channel;
    if (channel.failed) return 0;
    if (transfer.use != nullptr && transfer.use->revoked() && withdraw(transfer)) return 0;
    // Of a transfer that the peer has ended, only completions are to come.
    if (transfer.state == Outgoing::State::kWaiting || transfer.state == Outgoing::State::kEnded)
        return 0;
    Sender& core = *transfer.core;
    unsigned count = 0;
    Sender::Chunk chunk;
    while (count < kWritesAtOnce && channel.sends.room() > channel.transfer_reserve) {
        // A transfer whose staging memory was taken away needs some again only for a next write.
        if (core.staged() != 0 && transfer.staging.slots == 0 && !core.next(kLongestWrite, chunk))
            break;
        // Before next(), because chunks depend on the size of the staging memory.
        if (core.staging() && !stage(transfer)) break;
        if (!core.next(kLongestWrite, chunk)) break;
        if (!(chunk.direct ? post_direct(transfer, chunk) : post_staged(transfer, chunk))) break;
        core.posted(chunk);
        ++context_.counters.chunks;
        ++count;
    }
    count += pin_ahead(transfer);
    if (core.all_posted() && core.must_tell() && !transfer.alone() &&
        transfer.state == Outgoing::State::kWriting) {
        const Finish frame{.receiver = transfer.receiver};
        if (context_.send(*transfer.channel, TransferId::kFinish, frame))
            transfer.state = Outgoing::State::kFinished;
    }
    return count;
}

// Completes the chunk in staging memory, each sub-block with its flag, and posts one write.
bool Sends::post_staged(Outgoing& transfer, const Sender::Chunk& chunk) {
    // Staging memory still holds copies for direct writes that are under way.
    if (transfer.halves[0].under_way + transfer.halves[1].under_way != 0) return false;
    const bool copies = chunk.ready < chunk.blocks;
    const RegionAccess memory(transfer);
    if (!memory || (copies && context_.budget.over())) return false;
    if (copies) context_.budget.copied(chunk.bytes);
    const StagingMemory staging(transfer.staging.data, transfer.staging.slots);
    const uint64_t to =
        chunk.index % transfer.to.slots * SubBlocks::kSlot + (SubBlocks::kSubBlock - chunk.first);
    const size_t bytes = staging.fill(chunk, transfer.to.generation, transfer.memory);
    ibv_sge piece{.addr = address_of(staging.begin(chunk)),
                  .length = static_cast<uint32_t>(bytes),
                  .lkey = transfer.staging.lkey};
    const uint32_t immediate = (transfer.to.flags & WireRing::kNotify) != 0
                                   ? (transfer.receiver & 0xffff) << 16 | chunk.blocks
                                   : 0;
    context_.counters.staged_bytes += chunk.bytes;
    (void)context_.engine.one_sided().write(*transfer.channel, {&piece, 1},
                                            transfer.to.address + to, transfer.to.rkey, immediate,
                                            nullptr);
    return true;
}

// Writes to the final place: from the user's memory if it is pinned, else from staging memory.
bool Sends::post_direct(Outgoing& transfer, Sender::Chunk& chunk) {
    if (!transfer.source_decided) choose_source(transfer, chunk);
    if (must_pin(transfer, chunk) && !find_behind(transfer, chunk.offset) &&
        !may_pin(transfer, chunk.offset))
        return false;
    if (transfer.source.in_place && pin_source(transfer, chunk)) {
        if (!context_.expose(transfer, false)) return false;
        std::byte* from = transfer.memory.data() + chunk.offset;
        transfer.memory.skip(chunk.bytes);
        context_.counters.gathered_bytes += chunk.bytes;
        return write_direct(transfer, chunk, from, transfer.pin->lkey(), transfer.gather);
    }
    if (!transfer.core->all_acknowledged() || !stage(transfer)) return false;
    const uint64_t half = uint64_t{transfer.staging.slots} * SubBlocks::kSlot / 2;
    const auto free =
        std::find_if(std::begin(transfer.halves), std::end(transfer.halves),
                     [](const Outgoing::Write& write) { return write.under_way == 0; });
    const RegionAccess memory(transfer);
    if (free == std::end(transfer.halves) || !memory || context_.budget.over()) return false;
    // Chunks grow here too, so that the wire waits for the first copy only.
    if (transfer.copy_bytes == 0) transfer.copy_bytes = context_.settings.policy.staging.first;
    transfer.copy_bytes = std::min(
        transfer.copy_bytes, static_cast<double>(std::min(half, context_.policy.longest_copy())));
    chunk.bytes = std::min(chunk.bytes, static_cast<uint64_t>(transfer.copy_bytes));
    transfer.copy_bytes *= context_.settings.policy.staging.q;
    std::byte* to = transfer.staging.data + half * static_cast<uint64_t>(free - transfer.halves);
    transfer.memory.read(to, chunk.bytes);
    context_.budget.copied(chunk.bytes);
    context_.counters.copied_bytes += chunk.bytes;
    return write_direct(transfer, chunk, to, transfer.staging.lkey, *free);
}

bool Sends::write_direct(Outgoing& transfer, const Sender::Chunk& chunk, const std::byte* from,
                         uint32_t lkey, Outgoing::Write& write) {
    ibv_sge piece{
        .addr = address_of(from), .length = static_cast<uint32_t>(chunk.bytes), .lkey = lkey};
    write.owner = &transfer;
    void* cookie = make_cookie(CookieKind::kWrite, &write);
    if (context_.engine.one_sided().write(*transfer.channel, {&piece, 1}, chunk.address, chunk.rkey,
                                          0, cookie) == Status::kOk)
        ++write.under_way;
    return true;
}

void Sends::written(Outgoing::Write& write, Status status) {
    Outgoing& transfer = *write.owner;
    --write.under_way;
    // The channel ends, and the transfer with it.
    if (status != Status::kOk) return;
    if (transfer.use != nullptr && transfer.gather.under_way == 0) {
        const RegionAccess memory(transfer);
        if (memory) transfer.use->lend(nullptr, false);
    }
    if (&write == &transfer.reclaim) take_staging_back(transfer);
    if (transfer.under_way() != 0) return;
    if (transfer.state == Outgoing::State::kEnded ||
        (transfer.alone() && transfer.core->all_posted()))
        over(transfer, transfer.status);
}

// The receiver is pinning the first part. Meanwhile this side pins the bytes of that part. False:
// there is no such part.
bool Sends::prepare_source(Outgoing& transfer, uint64_t upto) {
    if (upto == 0 || upto > transfer.length) return false;
    Sender::Chunk chunk{.bytes = upto};
    choose_source(transfer, chunk);
    if (transfer.source.in_place &&
        (transfer.pin != nullptr || (!context_.budget.behind() && may_pin(transfer, 0))))
        (void)pin_source(transfer, chunk);
    return true;
}

void Sends::choose_source(Outgoing& transfer, const Sender::Chunk& chunk) {
    transfer.source_decided = true;
    if (!transfer.memory.contiguous()) return;
    const BufferState own = context_.look_up(transfer, kLocalRead);
    if (own.pinned) transfer.pin_end = transfer.length;
    transfer.source = decide_source(transfer.length - chunk.offset, own, context_.policy);
}

// Whether the chunk's bytes have to be pinned before they are sent.
bool Sends::must_pin(const Outgoing& transfer, const Sender::Chunk& chunk) {
    return transfer.source.in_place && chunk.offset >= transfer.pin_end &&
           transfer.ahead == nullptr;
}

// Has the chunk's bytes pinned; may shorten the chunk. False: they cannot be pinned.
bool Sends::pin_source(Outgoing& transfer, Sender::Chunk& chunk) {
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

// The length of the piece to be pinned that begins at `offset`.
uint64_t Sends::piece_at(const Outgoing& transfer, uint64_t offset) const {
    return context_.piece_of(transfer.source.piece, transfer.source.reused,
                             transfer.memory.data() + offset, transfer.length - offset);
}

bool Sends::may_pin(const Outgoing& transfer, uint64_t offset) {
    return context_.budget.may_register(piece_at(transfer, offset));
}

// Takes the piece that begins at `offset` if it is pinned. Of buffers only that are used again.
bool Sends::find_behind(Outgoing& transfer, uint64_t offset) {
    if (!transfer.source.reused) return false;
    const uint64_t piece = piece_at(transfer, offset);
    transfer.ahead = context_.find(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) return false;
    transfer.ahead_end = offset + piece;
    return true;
}

// Pins the piece that begins at `offset`, if possible.
void Sends::pin_behind(Outgoing& transfer, uint64_t offset) {
    SourceDecision& source = transfer.source;
    const uint64_t piece = piece_at(transfer, offset);
    transfer.ahead = context_.pin(transfer.memory.data() + offset, piece, kLocalRead);
    if (transfer.ahead == nullptr) source.in_place = false;
    transfer.ahead_end = offset + piece;
    if (!source.reused) source.piece = context_.policy.next_piece(source.piece);
}

// Pins the next piece while the wire is busy with the one before, and the receiver pins too.
unsigned Sends::pin_ahead(Outgoing& transfer) {
    if (transfer.gather.under_way == 0 || transfer.ahead != nullptr || !transfer.source.in_place ||
        transfer.source.piece == 0 || transfer.pin_end == transfer.length ||
        transfer.core->sent() != transfer.pin_end)
        return 0;
    if (find_behind(transfer, transfer.pin_end)) return 1;
    if (!may_pin(transfer, transfer.pin_end)) return 0;
    pin_behind(transfer, transfer.pin_end);
    return 1;
}

}  // namespace tern
