// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/outgoing_writes.h"

#include <algorithm>
#include <iterator>

#include "tern/engine/engine.h"
#include "tern/rendezvous/staging.h"

namespace tern {

// Completes the chunk in staging memory, each sub-block with its flag, and posts one write.
bool OutgoingWrites::post_staged(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    // Staging memory still holds copies for placed writes that are under way.
    if (transfer.halves_under_way() != 0) return false;
    TERN_ASSERT(transfer.staging.slots != 0 && transfer.to.slots != 0);
    const bool copies = chunk.ready < chunk.blocks;
    const RegionAccess memory(transfer);
    if (!memory || (copies && budget_.over())) return false;
    if (copies) budget_.copied(chunk.bytes);
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
    counters_.staged_bytes += chunk.bytes;
    (void)engine_.one_sided()->write(*transfer.channel, {&piece, 1}, transfer.to.address + to,
                                     transfer.to.rkey, immediate, nullptr);
    return true;
}

// The same from memory of a device: one sub-block, gathered from there and from its flag, which is
// all that staging memory holds of it.
bool OutgoingWrites::post_staged_in_place(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    TERN_ASSERT(transfer.staging.slots != 0 && transfer.to.slots != 0 && chunk.ready == 0);
    if (!TransferMemory::expose(transfer, false)) return false;
    chunk.blocks = 1;
    chunk.bytes = chunk.first;
    const StagingMemory staging(transfer.staging.data, transfer.staging.slots);
    const std::byte* from = transfer.memory.data() + chunk.offset;
    ibv_sge pieces[] = {
        {.addr = address_of(from), .length = chunk.first, .lkey = transfer.pin->lkey()},
        {.addr = address_of(staging.set_flag(chunk, transfer.to.generation)),
         .length = SubBlocks::kFlag,
         .lkey = transfer.staging.lkey}};
    const uint64_t to =
        chunk.index % transfer.to.slots * SubBlocks::kSlot + (SubBlocks::kSubBlock - chunk.first);
    const uint32_t immediate = (transfer.to.flags & WireRing::kNotify) != 0
                                   ? (transfer.receiver & 0xffff) << 16 | chunk.blocks
                                   : 0;
    transfer.memory.skip(chunk.bytes);
    counters_.gathered_bytes += chunk.bytes;
    transfer.gather.owner = &transfer;
    if (engine_.one_sided()->write(
            *transfer.channel, pieces, transfer.to.address + to, transfer.to.rkey, immediate,
            make_cookie(CookieKind::kWrite, &transfer.gather)) == Status::kOk)
        ++transfer.gather.under_way;
    return true;
}

// Writes to the final place: from the user's memory if it is pinned, else from staging memory.
bool OutgoingWrites::post_placed(Outgoing& transfer, ChunkSource::Chunk& chunk) {
    if (!pins_.may_send(transfer, chunk)) return false;
    return pins_.pin(transfer, chunk) ? post_in_place(transfer, chunk)
                                      : post_copied(transfer, chunk);
}

bool OutgoingWrites::post_in_place(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    if (!TransferMemory::expose(transfer, false)) return false;
    std::byte* from = transfer.memory.data() + chunk.offset;
    transfer.memory.skip(chunk.bytes);
    counters_.gathered_bytes += chunk.bytes;
    write(transfer, chunk, from, transfer.pin->lkey(), transfer.gather);
    return true;
}

bool OutgoingWrites::post_copied(Outgoing& transfer, ChunkSource::Chunk& chunk) {
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

void OutgoingWrites::write(Outgoing& transfer, const ChunkSource::Chunk& chunk,
                           const std::byte* from, uint32_t lkey, Outgoing::Write& write) {
    ibv_sge piece{
        .addr = address_of(from), .length = static_cast<uint32_t>(chunk.bytes), .lkey = lkey};
    write.owner = &transfer;
    void* cookie = make_cookie(CookieKind::kWrite, &write);
    if (engine_.one_sided()->write(*transfer.channel, {&piece, 1}, chunk.address, chunk.rkey, 0,
                                   cookie) == Status::kOk)
        ++write.under_way;
}

void OutgoingWrites::completed(Outgoing::Write& write) {
    Outgoing& transfer = *write.owner;
    if (transfer.use != nullptr && transfer.gather.under_way == 0) {
        const RegionAccess memory(transfer);
        if (memory) transfer.use->lend(nullptr, false);
    }
    if (&write == &transfer.reclaim) staging_.take_back(transfer);
}

}  // namespace tern
