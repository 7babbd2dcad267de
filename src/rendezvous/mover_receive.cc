// SPDX-License-Identifier: BSD-3-Clause

// The half of transfers that takes the bytes: gets, and what peers put.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rendezvous/mover.h"

namespace tern {

Status Mover::get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
                  const WireKey& key, uint32_t rkey, bool pinned, void* cookie) {
    if (!can_begin(channel)) return Status::kNoResource;
    Incoming* transfer = take_incoming();
    begin(*transfer, channel, cookie);
    transfer->memory = Buffers(to);
    ask_for(*transfer, from, key);
    transfer->rkey = rkey;
    transfer->sender_pinned = pinned;
    ++counters_.gets;
    receive(*transfer);
    return Status::kInProgress;
}

Status Mover::get_owned(Channel& channel, size_t length, uint64_t from, const WireKey& key,
                        uint32_t rkey, Unpack unpack, void* argument, void* cookie) {
    if (!can_begin(channel)) return Status::kNoResource;
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[length]);
    if (!memory) return Status::kDevice;
    Incoming* transfer = take_incoming();
    begin(*transfer, channel, cookie);
    const Buffers::Piece piece{.at = memory.get(), .length = length};
    transfer->memory = Buffers({&piece, 1});
    transfer->owned = std::move(memory);
    transfer->unpack = unpack;
    transfer->argument = argument;
    ask_for(*transfer, from, key);
    transfer->rkey = rkey;
    ++counters_.gets;
    receive(*transfer);
    return Status::kInProgress;
}

// A peer wants to put.
bool Mover::delivery(Channel& channel, const std::byte* data, uint32_t length) {
    Deliver offer;
    if (length != sizeof(offer)) return false;
    memcpy(&offer, data, sizeof(offer));
    RegionUse* use = open(offer.key, offer.address, offer.length, kRemotePut);
    Incoming* transfer = use != nullptr ? take_incoming() : nullptr;
    if (transfer == nullptr) {
        if (use != nullptr) regions_.release(use);
        return refuse(channel, Refuse::kDeliver, offer.sender);
    }
    begin(*transfer, channel, nullptr);
    serve(*transfer, use, offer.address, offer.length);
    transfer->sender = offer.sender;
    receive(*transfer);
    return true;
}

Incoming* Mover::take_incoming() {
    Incoming* transfer = take(incoming_, free_incoming_);
    if (transfer != nullptr) transfer->state = Incoming::State::kWaiting;
    return transfer;
}

void Mover::receive(Incoming& transfer) {
    // Rings are not for peers that may never answer.
    if (transfer.users && !transfer.channel->up()) {
        early_gets_.push_back(&transfer);
        return;
    }
    // Rings are lent in the order in which they were asked for: nobody waits for ever. Who needs
    // none does not wait at all.
    if (start(transfer, waiting_.empty())) return;
    ++counters_.window_waits;
    waiting_.push_back(&transfer);
}

// Decides how the message is to come. False if it has to wait for a ring: always, where it needs
// one and may not have it.
bool Mover::start(Incoming& transfer, bool may_lend) {
    if (transfer.rkey != 0) return start_reading(transfer, may_lend);
    if (transfer.use != nullptr && transfer.use->revoked()) return give_up(transfer);
    if (!transfer.planned) {
        transfer.planned = true;
        transfer.plan = plan(transfer);
    }
    // In pieces: the sender pins its first one meanwhile. What cannot be pinned goes through a
    // ring; if there is none to spare for that, all is pinned before.
    bool in_pieces = !transfer.plan.staged() && transfer.plan.piece != 0;
    Part first{.upto = transfer.length};
    if (in_pieces && !lend_ring(transfer, may_lend)) {
        transfer.plan.piece = 0;
        in_pieces = false;
    }
    if (!transfer.plan.staged() && transfer.plan.piece == 0 && transfer.pin == nullptr) {
        // All of it in place, or else through a ring after all.
        transfer.pin = pin(transfer.memory.data(), transfer.length);
        if (transfer.pin == nullptr) transfer.plan = {};
    }
    if (transfer.pin == nullptr && !lend_ring(transfer, may_lend)) {
        if (rings_.hopeless()) return out_of_rings(transfer);
        return false;
    }
    if (transfer.pin != nullptr && !lend(transfer, true)) return give_up(transfer);
    if (transfer.pin != nullptr)
        first = direct_part(*transfer.pin, transfer.memory.data(), transfer.length);
    ++(transfer.plan.staged() ? counters_.superpipeline : counters_.zero_copy);
    transfer.generation = ++generation_ & WireRing::kGeneration;
    transfer.core.emplace(transfer.length, transfer.ring.slots, transfer.generation,
                          !engine_.polls_memory(*transfer.channel),
                          transfer.ring.slots / (settings_.buffers + 1));
    if (in_pieces && transfer.pin == nullptr) {
        transfer.first = WirePart::announce(std::min(transfer.plan.piece, transfer.length));
    } else {
        transfer.first = WirePart::of(first);
        transfer.core->add(first);
    }
    transfer.state = Incoming::State::kAsking;
    receiving_.push_back(&transfer);
    if (ask(transfer)) transfer.state = Incoming::State::kRunning;
    return true;
}

// True if it has a ring, now or before.
bool Mover::lend_ring(Incoming& transfer, bool may_lend) {
    return transfer.ring.slots != 0 || (may_lend && rings_.lend(transfer.ring));
}

// Tells the sender to begin. False: there is no room now.
bool Mover::ask(Incoming& transfer) {
    const WireRing ring{
        .address = reinterpret_cast<uint64_t>(transfer.ring.data),
        .rkey = transfer.ring.rkey,
        .slots = static_cast<uint16_t>(transfer.ring.slots),
        .flags = static_cast<uint16_t>(transfer.core->notified() ? WireRing::kNotify : 0),
        .generation = transfer.generation};
    if (transfer.users) {
        const Fetch frame{.receiver = transfer.number,
                          .address = transfer.address,
                          .length = transfer.length,
                          .key = transfer.key,
                          .ring = ring,
                          .part = transfer.first};
        return send(*transfer.channel, TransferId::kFetch, frame);
    }
    const Accept frame{.sender = transfer.sender,
                       .receiver = transfer.number,
                       .ring = ring,
                       .part = transfer.first};
    return send(*transfer.channel, TransferId::kAccept, frame);
}

// Takes what has come. The transfer may be over after this.
unsigned Mover::step(Incoming& transfer) {
    if (transfer.channel->failed) return 0;
    if (transfer.state == Incoming::State::kReading) return read_more(transfer);
    if (transfer.use != nullptr && cut(transfer)) return 0;
    Receiver& core = *transfer.core;
    if (transfer.state == Incoming::State::kAsking) {
        if (!ask(transfer)) return 0;
        transfer.state = Incoming::State::kRunning;
    }
    if (transfer.failed && transfer.users) return complete(transfer);
    unsigned count = take_blocks(transfer);
    if (core.told() != transfer.length || transfer.part_due) count += more(transfer);
    if (core.complete()) return count + complete(transfer);
    transfer.idle = count != 0 ? 0 : transfer.idle + 1;
    // Who sleeps does not look again.
    const bool idle = transfer.idle >= (core.notified() ? 1 : kIdleAck);
    if (core.ack_due() || (idle && core.ack_owed())) {
        if (idle && !core.notified()) core.waited();
        (void)acknowledge(transfer);
    }
    return count;
}

// False: there is no room now.
bool Mover::acknowledge(Incoming& transfer) {
    const Ack frame{.receiver = transfer.number, .count = transfer.core->count()};
    if (!send(*transfer.channel, TransferId::kAck, frame)) return false;
    transfer.core->acked();
    return true;
}

// What has come is copied to where it belongs. Once that is declared no more the sender's writes
// have to come to their end all the same, for the ring to be somebody else's.
unsigned Mover::take_blocks(Incoming& transfer) {
    Receiver& core = *transfer.core;
    const Touch memory(transfer);
    if (!memory) transfer.failed = true;
    unsigned count = 0;
    Receiver::Block block;
    for (; count < kBlocksAtOnce && core.next(transfer.ring.data, block); ++count) {
        if (memory) {
            if (block.offset > transfer.taken) transfer.memory.skip(block.offset - transfer.taken);
            transfer.memory.write(transfer.ring.data + block.at, block.bytes);
            transfer.taken = block.offset + block.bytes;
        }
        core.taken();
    }
    return count;
}

// Pins the next piece of what is to come in place, while what is before it is on the wire.
unsigned Mover::more(Incoming& transfer) {
    if (!transfer.part_due) {
        transfer.part = pin_next(transfer);
        transfer.core->add(transfer.part);
        transfer.part_due = true;
    }
    const MorePart frame{.receiver = transfer.number, .part = WirePart::of(transfer.part)};
    if (!send(*transfer.channel, TransferId::kPart, frame)) return 0;
    transfer.part_due = false;
    return 1;
}

// Whether the message is to be staged, and how it is to be pinned if not.
Plan Mover::plan(Incoming& transfer) {
    if (!transfer.memory.contiguous() || transfer.owned) return {};
    const BufferState own = look_up(transfer, kRemotePut);
    Plan plan = policy_.receive(transfer.length, own, {.pinned = transfer.sender_pinned});
    if (plan.staged() && own.pinned) pins_.release(std::exchange(transfer.pin, nullptr));
    // What comes back is one pin, to be found by one look.
    if (own.returned >= settings_.policy.worth_pinning) plan.piece = 0;
    return plan;
}

unsigned Mover::complete(Incoming& transfer) {
    const Ack frame{.receiver = transfer.number,
                    .count = transfer.core->count(),
                    .flags = Ack::kEnd | (transfer.failed ? Ack::kFailed : 0)};
    if (!send(*transfer.channel, TransferId::kAck, frame)) return 0;
    if (transfer.failed && !transfer.users) ++counters_.refused;
    over(transfer, transfer.failed ? Status::kRemoteAccess : Status::kOk);
    return 1;
}

bool Mover::finish(Channel& channel, const std::byte* data, uint32_t length) {
    Finish frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    Incoming* transfer = incoming(channel, frame.receiver);
    if (transfer == nullptr || !transfer->core) return false;
    return transfer->core->finished();
}

bool Mover::notified(Channel& channel, uint32_t immediate) {
    const uint32_t index = immediate >> 16;
    if (index >= incoming_.size()) return false;
    Incoming& transfer = *incoming_[index];
    if (transfer.state == Incoming::State::kFree || transfer.channel != &channel || !transfer.core)
        return false;
    return transfer.core->arrived(immediate & 0xffff);
}

Incoming* Mover::incoming(const Channel& channel, uint32_t number) {
    const uint32_t index = number & 0xffff;
    if (index >= incoming_.size()) return nullptr;
    Incoming& transfer = *incoming_[index];
    const bool is = transfer.state != Incoming::State::kFree && transfer.number == number &&
                    transfer.channel == &channel;
    return is ? &transfer : nullptr;
}

// Not even a small ring can be registered.
bool Mover::out_of_rings(Incoming& transfer) {
    tell_of_limit();
    if (!transfer.users) (void)refuse(*transfer.channel, Refuse::kDeliver, transfer.sender);
    failures_.push_back(&transfer);
    return true;
}

// The memory is declared no more, and nothing has been written to it.
bool Mover::give_up(Incoming& transfer) {
    ++counters_.refused;
    refusals_[transfer.channel].push_back({.what = Refuse::kDeliver, .number = transfer.sender});
    failures_.push_back(&transfer);
    return true;
}

void Mover::over(Incoming& transfer, Status status) {
    std::erase(early_gets_, &transfer);
    std::erase(receiving_, &transfer);
    std::erase(waiting_, &transfer);
    std::erase(failures_, &transfer);
    if (transfer.ring.slots != 0) rings_.give_back(transfer.ring);
    const bool users = transfer.users;
    void* cookie = transfer.cookie;
    Channel& channel = *transfer.channel;
    const auto owned = std::move(transfer.owned);
    const Unpack unpack = transfer.unpack;
    void* const argument = transfer.argument;
    const auto length = static_cast<size_t>(transfer.length);
    end(transfer);
    const uint32_t index = transfer.number & 0xffff;
    const uint32_t id = transfer.number + (1 << 16);
    transfer = {};
    transfer.number = id;
    free_incoming_.push_back(index);
    if (owned && status == Status::kOk) unpack(argument, owned.get(), length);
    tell(users, cookie, channel, status);
}

}  // namespace tern
