// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/superpipeline.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "tern/base/trace.h"
#include "tern/rendezvous/placed.h"

namespace tern {

IncomingRings::IncomingRings(const RendezvousPart& part)
    : RendezvousPart(part), pool_(new_rings()), generation_(std::random_device()()) {}

void IncomingRings::prepare_for_writes(Incoming& transfer) {
    if (transfer.ring.slots != 0) pool_.prepare_flags(transfer.ring);
    transfer.generation = ++generation_ & WireRing::kGeneration;
}

bool StagedWrites::lend_or_wait(Outgoing& transfer) {
    if (transfer.staging.slots != 0) return true;
    if (waiting_.empty() && lend(transfer)) return true;
    transfer.move_to(Outgoing::State::kWaiting);
    waiting_.push_back(&transfer);
    counters_.ring_waits += !rings_.may_grow();  // else for the next call of progress
    return false;
}

bool StagedWrites::lend(Outgoing& transfer) {
    TERN_ASSERT(transfer.staging.slots == 0);
    if (!rings_.lend(transfer.staging, budget_)) {
        if (rings_.may_grow() || !early_.give_way()) return false;
        (void)rings_.lend(transfer.staging);
    }
    transfer.core->set_staging(transfer.staging.slots);
    hold(transfer);
    return true;
}

unsigned StagedWrites::lend_to_waiting(Turns<Outgoing>& running) {
    unsigned count = 0;
    while (!waiting_.empty() && lend(*waiting_.front())) {
        Outgoing& transfer = *waiting_.front();
        waiting_.pop_front();
        transfer.move_to(Outgoing::State::kWriting);
        running.wake(transfer);
        ++count;
    }
    if (!waiting_.empty() && !rings_.may_grow()) reclaim();
    return count;
}

Outgoing* StagedWrites::starved() const {
    if (!rings_.cannot_register() || waiting_.empty()) return nullptr;
    return waiting_.front()->under_way() == 0 ? waiting_.front() : nullptr;
}

// Takes staging memory from transfers that have nothing to write now, be it for good or until the
// receiver has freed slots of its ring. Staging memory is free when the writes from it are
// complete, however late the receiver polls.
void StagedWrites::reclaim() {
    for (size_t i = holders_.size(); i-- > 0;) {
        Outgoing* const transfer = holders_[i];
        ChunkSource::Chunk chunk;
        if (transfer->reclaim.under_way != 0 || transfer->channel->failed ||
            (!transfer->dropped && transfer->core->next(kLongestAccess, chunk)))
            continue;
        transfer->reclaim.owner = transfer;
        transfer->reclaim_at = transfer->core->staged();
        void* cookie = make_cookie(CookieKind::kWrite, &transfer->reclaim);
        const Status status = engine_.flushing()->flush(*transfer->channel, {cookie});
        if (status == Status::kInProgress)
            ++transfer->reclaim.under_way;
        else if (status == Status::kOk)
            take_back(*transfer);
    }
}

void StagedWrites::take_back(Outgoing& transfer) {
    if (transfer.staging.slots == 0 || transfer.core->staged() != transfer.reclaim_at ||
        transfer.halves_under_way() != 0)
        return;
    TERN_TRACE("outgoing transfer %u gives its staging memory back", transfer.number);
    give_back(transfer);
    transfer.core->forget_early_chunk();
}

void StagedWrites::give_back(Outgoing& transfer) {
    if (transfer.staging.slots == 0) return;
    rings_.give_back(std::exchange(transfer.staging, {}));
    std::erase(holders_, &transfer);
}

// Completes the chunk in staging memory, each sub-block with its flag, and posts one write.
bool StagedWrites::post_copied(Outgoing& transfer, const ChunkSource::Chunk& chunk) {
    // Staging memory still holds copies for placed writes that are under way.
    if (transfer.halves_under_way() != 0) return false;
    TERN_ASSERT(transfer.staging.slots != 0 && transfer.to.slots != 0);
    const bool copies = chunk.ready < chunk.blocks;
    const RegionAccess memory(transfer);
    if (!memory || (copies && budget_.over())) return false;
    if (copies) budget_.copied(chunk.bytes);
    const StagingMemory staging(transfer.staging.data, transfer.staging.slots);
    const size_t bytes = staging.fill(chunk, transfer.to.generation, transfer.memory);
    ibv_sge piece{.addr = address_of(staging.begin(chunk)),
                  .length = static_cast<uint32_t>(bytes),
                  .lkey = transfer.staging.lkey};
    counters_.staged_bytes += chunk.bytes;
    (void)write(transfer, chunk, {&piece, 1}, nullptr);
    return true;
}

// Writes from memory of a device: one sub-block, gathered from there and from its flag, which is
// all that staging memory holds of it.
bool StagedWrites::post_in_place(Outgoing& transfer, ChunkSource::Chunk& chunk) {
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
    transfer.memory.skip(chunk.bytes);
    counters_.gathered_bytes += chunk.bytes;
    transfer.gather.owner = &transfer;
    if (write(transfer, chunk, pieces, make_cookie(CookieKind::kWrite, &transfer.gather)) ==
        Status::kOk)
        ++transfer.gather.under_way;
    return true;
}

// Posts one write to the ring, which is notified if the receiver asks for that.
Status StagedWrites::write(const Outgoing& transfer, const ChunkSource::Chunk& chunk,
                           std::span<ibv_sge> pieces, void* cookie) {
    const uint64_t to =
        chunk.index % transfer.to.slots * SubBlocks::kSlot + (SubBlocks::kSubBlock - chunk.first);
    const uint32_t immediate = (transfer.to.flags & WireRing::kNotify) != 0
                                   ? (transfer.receiver & 0xffff) << 16 | chunk.blocks
                                   : 0;
    return engine_.one_sided()->write(*transfer.channel, pieces, transfer.to.address + to,
                                      transfer.to.rkey, immediate, cookie);
}

void IncomingWrites::open(Incoming& transfer) {
    const bool staged = transfer.decision.staged();
    ++(staged ? counters_.superpipeline : counters_.zero_copy);
    transfer.core.emplace(transfer.length, transfer.ring.slots, transfer.generation,
                          !engine_.sleep()->polls_memory(*transfer.channel),
                          transfer.ring.slots / (settings_.chunks_per_ring + 1));
    engine_.expect_notifications(transfer.core->notifications());
    if (transfer.in_pieces()) {
        transfer.parts.first = WirePart::announce(pins_.next_piece(transfer));
    } else {
        const Part first = staged ? Part{.upto = transfer.length} : pins_.pinned_part(transfer);
        transfer.parts.first = WirePart::of(first);
        transfer.core->add(first);
    }
}

bool IncomingWrites::ask_sender(Incoming& transfer) {
    const WireRing ring{
        .address = reinterpret_cast<uint64_t>(transfer.ring.data),
        .rkey = transfer.ring.rkey,
        .slots = static_cast<uint16_t>(transfer.ring.slots),
        .flags = static_cast<uint16_t>(transfer.core->notified() ? WireRing::kNotify : 0),
        .generation = transfer.generation};
    if (transfer.asked_here) {
        const Fetch frame{.receiver = transfer.number,
                          .address = transfer.address,
                          .length = transfer.length,
                          .key = transfer.key,
                          .ring = ring,
                          .part = transfer.parts.first};
        return send_frame(engine_, *transfer.channel, TransferId::kFetch, frame);
    }
    const Accept frame{.sender = transfer.sender,
                       .receiver = transfer.number,
                       .ring = ring,
                       .part = transfer.parts.first};
    return send_frame(engine_, *transfer.channel, TransferId::kAccept, frame);
}

Step IncomingWrites::step(Incoming& transfer) {
    if (accounts_.fail_if_cut(transfer)) return {.next = Next::kOnEvent};
    RingReader& core = *transfer.core;
    if (transfer.state == Incoming::State::kAsking) {
        if (!ask_sender(transfer)) return {.next = Next::kOnRoom};
        transfer.move_to(Incoming::State::kRunning);
    }
    if (core.is_withdrawn()) {
        if (!core.withdrawn_completely()) return {.next = Next::kOnEvent};
        if (!transfer.refused && !end(transfer)) return {.next = Next::kOnRoom};
        return {1, Next::kOver};
    }
    unsigned count = take_blocks(transfer);
    if (core.parts_end() != transfer.length || transfer.parts.due)
        count += pins_.announce(transfer);
    if (core.complete()) {
        const bool over = end(transfer);
        return {count + over, over ? Next::kOver : Next::kOnRoom};
    }
    if (count != 0)
        transfer.idle = 0;
    else if (!budget_.over())
        ++transfer.idle;
    // With notifications this side may go to sleep, and then does not come here again.
    const bool idle = transfer.idle >= (core.notified() ? 1 : kIdleAck);
    if (core.ack_due() || (idle && core.ack_owed())) {
        if (idle && !core.notified()) core.waited();
        (void)acknowledge(transfer);
    }
    const bool again = count != 0 || budget_.over() || core.polls_memory() || core.ack_owed() ||
                       core.parts_end() != transfer.length || transfer.parts.due;
    return {count, again ? Next::kAgain : Next::kOnEvent};
}

// Copies sub-blocks to where they belong. After the memory is undeclared they are dropped; they are
// still counted, because the ring cannot be lent again before the sender's writes have ended.
unsigned IncomingWrites::take_blocks(Incoming& transfer) {
    if (budget_.over()) return 0;
    RingReader& core = *transfer.core;
    const RegionAccess memory(transfer);
    if (!memory) transfer.failed = true;
    unsigned count = 0;
    uint64_t copied = 0;
    RingReader::Block block;
    for (; count < kBlocksAtOnce && core.next(transfer.ring.data, block); ++count) {
        if (memory) {
            TERN_ASSERT(block.offset >= transfer.taken &&
                        block.offset + block.bytes <= transfer.length);
            if (block.offset > transfer.taken) transfer.memory.skip(block.offset - transfer.taken);
            transfer.memory.write(transfer.ring.data + block.at, block.bytes);
            transfer.taken = block.offset + block.bytes;
            copied += block.bytes;
        }
        core.taken();
    }
    budget_.copied(copied);
    return count;
}

bool IncomingWrites::acknowledge(Incoming& transfer) {
    const Ack frame{.receiver = transfer.number, .count = transfer.core->count()};
    if (!send_frame(engine_, *transfer.channel, TransferId::kAck, frame)) return false;
    transfer.core->acked();
    return true;
}

// Sends the last acknowledgement. False: it cannot be sent now.
bool IncomingWrites::end(Incoming& transfer) {
    ReplyingAck frame{.ack = {.receiver = transfer.number,
                              .count = transfer.core->count(),
                              .flags = Ack::kEnd | (transfer.failed ? Ack::kFailed : 0)}};
    uint32_t length = sizeof(Ack);
    const bool replies = transfer.reply && !transfer.failed;
    if (replies) {
        const Reply& reply = *transfer.reply;
        frame.ack.flags |= Ack::kReply;
        frame.ack.reply = reply.id;
        memcpy(frame.reply, reply.bytes, reply.length);
        length += reply.length;
    }
    if (!send_frame(engine_, *transfer.channel, TransferId::kAck, &frame, length, replies))
        return false;
    if (replies) ++counters_.replies;
    if (transfer.failed && !transfer.asked_here) ++counters_.refused;
    return true;
}

}  // namespace tern
