// SPDX-License-Identifier: BSD-3-Clause

// The half of transfers that has the bytes: puts, and what peers get.

#include <algorithm>
#include <cstring>

#include "engine/engine_send.h"
#include "rendezvous/mover.h"
#include "rendezvous/staging.h"

namespace tern {

Status Mover::put(Channel& channel, std::span<const Buffers::Piece> from, uint64_t to,
                  const WireKey& key, uint32_t rkey, void* cookie) {
    if (!can_begin(channel)) return Status::kNoResource;
    Outgoing* transfer = take_outgoing();
    begin(*transfer, channel, cookie);
    transfer->memory = Buffers(from);
    offer(*transfer, to, key, rkey);
    return Status::kInProgress;
}

Status Mover::put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                        uint64_t to, const WireKey& key) {
    if (!can_begin(channel)) return Status::kNoResource;
    Outgoing* transfer = take_outgoing();
    begin(*transfer, channel, nullptr);
    const Buffers::Piece piece{.at = data.get(), .length = length};
    transfer->memory = Buffers({&piece, 1});
    transfer->owned = std::move(data);
    offer(*transfer, to, key, 0);
    return Status::kOk;
}

Outgoing* Mover::take_outgoing() {
    return take(outgoing_, free_outgoing_);
}

void Mover::offer(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey) {
    ask_for(transfer, to, key);
    ++counters_.puts;
    transfer.rkey = rkey;
    transfer.state = Outgoing::State::kOffering;
    if (transfer.channel->up())
        offer(transfer);
    else
        early_puts_.push_back(&transfer);
}

void Mover::offer(Outgoing& transfer) {
    if (transfer.rkey != 0) {
        transfer.alone = true;
        (void)run(transfer, {},
                  WirePart::of({.upto = transfer.length,
                                .address = transfer.address,
                                .rkey = transfer.rkey,
                                .direct = true}));
        return;
    }
    offers_.push_back(&transfer);
    (void)make_offers();
}

// In order for each channel: one without room has none for what is behind, either.
unsigned Mover::make_offers() {
    return static_cast<unsigned>(std::erase_if(offers_, [this](Outgoing* transfer) {
        const Deliver frame{.sender = transfer->number,
                            .address = transfer->address,
                            .length = transfer->length,
                            .key = transfer->key};
        if (!send(*transfer->channel, TransferId::kDeliver, frame)) return false;
        transfer->state = Outgoing::State::kOffered;
        return true;
    }));
}

// A peer wants to get.
bool Mover::fetch(Channel& channel, const std::byte* data, uint32_t length) {
    Fetch frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    RegionUse* use = open(frame.key, frame.address, frame.length, kRemoteGet);
    Outgoing* transfer = use != nullptr ? take_outgoing() : nullptr;
    if (transfer == nullptr) {
        if (use != nullptr) regions_.release(use);
        return refuse(channel, Refuse::kFetch, frame.receiver);
    }
    begin(*transfer, channel, nullptr);
    serve(*transfer, use, frame.address, frame.length);
    transfer->receiver = frame.receiver;
    if (!early_copies_.empty()) take_early_copy(*transfer, frame);
    return run(*transfer, frame.ring, frame.part);
}

bool Mover::accepted(Channel& channel, const std::byte* data, uint32_t length) {
    Accept frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    Outgoing* transfer = offered(channel, frame.sender);
    if (transfer == nullptr) return false;
    transfer->receiver = frame.receiver;
    return run(*transfer, frame.ring, frame.part);
}

// The receiver is ready. False if what it says makes no sense.
bool Mover::run(Outgoing& transfer, const WireRing& ring, const WirePart& first) {
    transfer.to = ring;
    const uint32_t slots = std::min<uint32_t>(ring.slots, staging_.slots());
    transfer.core.emplace(transfer.length, ring.slots, staging_.slots(),
                          policy_.limits(transfer.length, slots, settings_.buffers));
    transfer.core->set_early_chunk(transfer.early);
    transfer.state = Outgoing::State::kRunning;
    sending_.push_back(&transfer);
    if (first.announced()) return prepare(transfer, first.upto);
    const Part part = first.part();
    if ((!part.direct && ring.slots == 0) || !transfer.core->add(part)) return false;
    (void)step(transfer);
    return true;
}

// Staging memory, if the transfer has none. In the order in which they asked for it.
bool Mover::stage(Outgoing& transfer) {
    if (transfer.staging.slots != 0) return true;
    if (waiting_to_send_.empty() && lend_staging(transfer)) return true;
    transfer.waiting = true;
    waiting_to_send_.push_back(&transfer);
    ++counters_.window_waits;
    return false;
}

bool Mover::lend_staging(Outgoing& transfer) {
    if (!staging_.lend(transfer.staging)) {
        // It does not wait for what nobody may ever ask for.
        if (early_copies_.empty()) return false;
        drop(early_copies_.oldest());
        (void)staging_.lend(transfer.staging);
    }
    transfer.core->set_staging(transfer.staging.slots);
    return true;
}

unsigned Mover::lend_to_waiting() {
    unsigned count = 0;
    while (!waiting_to_send_.empty() && lend_staging(*waiting_to_send_.front())) {
        waiting_to_send_.front()->waiting = false;
        waiting_to_send_.pop_front();
        ++count;
    }
    if (!waiting_to_send_.empty()) reclaim_staging();
    // Not even a small piece can be registered, nor will be.
    while (staging_.hopeless() && !waiting_to_send_.empty()) {
        Outgoing& transfer = *waiting_to_send_.front();
        if (transfer.under_way() != 0) break;
        tell_of_limit();
        if (!transfer.alone) refusals_[transfer.channel].push_back({.number = transfer.receiver});
        over(transfer, Status::kDevice);
        ++count;
    }
    return count;
}

// Staging memory is free once what was written from it has gone, whenever the receiver looks: of
// who has nothing to write now, be it for good or until the receiver has made room in its ring.
void Mover::reclaim_staging() {
    for (Outgoing* transfer : sending_) {
        Sender::Chunk chunk;
        if (transfer->staging.slots == 0 || transfer->reclaim.under_way != 0 ||
            transfer->channel->failed || transfer->core->next(kDirectWrite, chunk))
            continue;
        transfer->reclaim.owner = transfer;
        transfer->reclaim_at = transfer->core->staged();
        void* cookie = make_cookie(CookieKind::kWrite, &transfer->reclaim);
        const Status status = engine_.flush(*transfer->channel, {cookie});
        if (status == Status::kInProgress)
            ++transfer->reclaim.under_way;
        else if (status == Status::kOk)
            take_staging_back(*transfer);
    }
}

void Mover::take_staging_back(Outgoing& transfer) {
    if (transfer.staging.slots == 0 || transfer.core->staged() != transfer.reclaim_at ||
        transfer.halves[0].under_way + transfer.halves[1].under_way != 0)
        return;
    staging_.give_back(transfer.staging);
    transfer.staging = {};
    transfer.core->forget_early_chunk();
}

// Posts what can be posted, for its turn.
unsigned Mover::step(Outgoing& transfer) {
    Channel& channel = *transfer.channel;
    if (channel.failed) return 0;
    if (transfer.use != nullptr && transfer.use->revoked() && withdraw(transfer)) return 0;
    if (transfer.waiting) return 0;
    Sender& core = *transfer.core;
    unsigned count = 0;
    Sender::Chunk chunk;
    while (count < kWritesAtOnce && channel.sends.room() > channel.transfer_reserve) {
        // Who has had to give its staging memory back needs it when there is something to write.
        if (core.staged() != 0 && transfer.staging.slots == 0 && !core.next(kDirectWrite, chunk))
            break;
        // First, since how much there is decides on the chunks.
        if (core.staging() && !stage(transfer)) break;
        if (!core.next(kDirectWrite, chunk)) break;
        if (!(chunk.direct ? post_direct(transfer, chunk) : post_staged(transfer, chunk))) break;
        core.posted(chunk);
        ++counters_.chunks;
        ++count;
    }
    count += pin_ahead(transfer);
    if (core.all_posted() && core.must_tell() && !transfer.alone && !transfer.told) {
        const Finish frame{.receiver = transfer.receiver};
        transfer.told = send(*transfer.channel, TransferId::kFinish, frame);
    }
    return count;
}

// The memory is declared no more. False if all of it that is sent has been taken from there.
bool Mover::withdraw(Outgoing& transfer) {
    if (transfer.withdrawn || cut(transfer)) return true;
    if (transfer.core->all_posted()) return false;
    std::erase(waiting_to_send_, &transfer);
    transfer.waiting = false;
    const Refuse frame{.what = Refuse::kRest, .number = transfer.receiver};
    transfer.withdrawn = send(*transfer.channel, TransferId::kRefuse, frame);
    if (transfer.withdrawn) ++counters_.refused;
    return true;
}

// Copies what is not there yet of a chunk into staging memory, each sub-block with its flag, and
// writes it in one piece.
bool Mover::post_staged(Outgoing& transfer, const Sender::Chunk& chunk) {
    // What was copied for a direct part is still there.
    if (transfer.halves[0].under_way + transfer.halves[1].under_way != 0) return false;
    const Touch memory(transfer);
    if (!memory) return false;
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
    (void)engine_.write(*transfer.channel, {&piece, 1}, transfer.to.address + to, transfer.to.rkey,
                        immediate, nullptr);
    return true;
}

// Writes to where the bytes belong: from where they are, if that is pinned, else by way of staging
// memory.
bool Mover::post_direct(Outgoing& transfer, Sender::Chunk& chunk) {
    if (!transfer.source_planned) plan_source(transfer, chunk);
    if (transfer.source.gather && pin_source(transfer, chunk)) {
        if (!lend(transfer, false)) return false;
        std::byte* from = transfer.memory.data() + chunk.offset;
        transfer.memory.skip(chunk.bytes);
        counters_.gathered_bytes += chunk.bytes;
        return write_direct(transfer, chunk, from, transfer.pin->lkey(), transfer.gather);
    }
    if (!transfer.core->all_acknowledged() || !stage(transfer)) return false;
    const uint64_t half = uint64_t{transfer.staging.slots} * SubBlocks::kSlot / 2;
    const auto free =
        std::find_if(std::begin(transfer.halves), std::end(transfer.halves),
                     [](const Outgoing::Write& write) { return write.under_way == 0; });
    const Touch memory(transfer);
    if (free == std::end(transfer.halves) || !memory) return false;
    // Chunks grow here too: the wire waits for the first copy only.
    if (transfer.copy_bytes == 0) transfer.copy_bytes = settings_.policy.staging.first;
    transfer.copy_bytes = std::min(transfer.copy_bytes, static_cast<double>(half));
    chunk.bytes = std::min(chunk.bytes, static_cast<uint64_t>(transfer.copy_bytes));
    transfer.copy_bytes *= settings_.policy.staging.q;
    std::byte* to = transfer.staging.data + half * static_cast<uint64_t>(free - transfer.halves);
    transfer.memory.read(to, chunk.bytes);
    counters_.copied_bytes += chunk.bytes;
    return write_direct(transfer, chunk, to, transfer.staging.lkey, *free);
}

bool Mover::write_direct(Outgoing& transfer, const Sender::Chunk& chunk, const std::byte* from,
                         uint32_t lkey, Outgoing::Write& write) {
    ibv_sge piece{
        .addr = address_of(from), .length = static_cast<uint32_t>(chunk.bytes), .lkey = lkey};
    write.owner = &transfer;
    void* cookie = make_cookie(CookieKind::kWrite, &write);
    if (engine_.write(*transfer.channel, {&piece, 1}, chunk.address, chunk.rkey, 0, cookie) ==
        Status::kOk)
        ++write.under_way;
    return true;
}

void Mover::written(Outgoing::Write& write, Status status) {
    Outgoing& transfer = *write.owner;
    --write.under_way;
    // What fails ends its channel, and with that all of it.
    if (status != Status::kOk) return;
    if (transfer.use != nullptr && transfer.gather.under_way == 0) {
        const Touch memory(transfer);
        if (memory) transfer.use->lend(nullptr, false);
    }
    if (&write == &transfer.reclaim) take_staging_back(transfer);
    if (transfer.under_way() != 0) return;
    if (transfer.ended || (transfer.alone && transfer.core->all_posted()))
        over(transfer, transfer.status);
}

bool Mover::part(Channel& channel, const std::byte* data, uint32_t length) {
    MorePart frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    if (!frame.part.valid() || frame.part.announced()) return false;
    Outgoing* transfer = outgoing(channel, frame.receiver);
    if (transfer == nullptr) return true;  // it has been refused meanwhile
    if (!frame.part.part().direct && transfer->to.slots == 0) return false;
    if (!transfer->core->add(frame.part.part())) return false;
    (void)step(*transfer);
    return true;
}

bool Mover::ack(Channel& channel, const std::byte* data, uint32_t length) {
    Ack frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    Outgoing* transfer = outgoing(channel, frame.receiver);
    if (transfer == nullptr || !transfer->core->acknowledged(frame.count)) return false;
    if ((frame.flags & Ack::kEnd) == 0) {
        (void)step(*transfer);
        return true;
    }
    if (!transfer->withdrawn &&
        (!transfer->core->all_posted() || !transfer->core->all_acknowledged()))
        return false;
    if ((frame.flags & Ack::kFailed) != 0) transfer->status = Status::kRemoteAccess;
    // Their completions are on the way: the receiver knows earlier than this side.
    if (transfer->under_way() != 0)
        transfer->ended = true;
    else
        over(*transfer, transfer->status);
    return true;
}

// Of a channel, by the receiver's number.
Outgoing* Mover::outgoing(const Channel& channel, uint32_t receiver) {
    for (Outgoing* transfer : sending_)
        if (transfer->channel == &channel && transfer->receiver == receiver && !transfer->alone)
            return transfer;
    return nullptr;
}

// Of a channel, by this side's number, as long as the peer has not answered.
Outgoing* Mover::offered(const Channel& channel, uint32_t number) {
    const uint32_t index = number & 0xffff;
    if (index >= outgoing_.size()) return nullptr;
    Outgoing& transfer = *outgoing_[index];
    const bool is = transfer.state == Outgoing::State::kOffered && transfer.number == number &&
                    transfer.channel == &channel;
    return is ? &transfer : nullptr;
}

void Mover::over(Outgoing& transfer, Status status) {
    std::erase(sending_, &transfer);
    std::erase(early_puts_, &transfer);
    std::erase(offers_, &transfer);
    std::erase(waiting_to_send_, &transfer);
    if (transfer.staging.slots != 0) staging_.give_back(transfer.staging);
    const bool users = transfer.users;
    void* cookie = transfer.cookie;
    Channel& channel = *transfer.channel;
    end(transfer);
    const uint32_t index = transfer.number & 0xffff;
    const uint32_t number = transfer.number + (1 << 16);
    transfer = {};
    transfer.number = number;
    free_outgoing_.push_back(index);
    tell(users, cookie, channel, status);
}

}  // namespace tern
