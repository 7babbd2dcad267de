// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/transfer_memory.h"

namespace tern {

void TransferContext::begin(Transfer& transfer, Channel& channel, void* cookie) {
    transfer.channel = &channel;
    transfer.cookie = cookie;
    transfer.sequence = ++begun;
    idle = 0;
    engine.transfer_begins(channel);
}

void TransferContext::ask_for(Transfer& transfer, uint64_t address, const WireKey& key) {
    transfer.length = transfer.memory.length();
    transfer.address = address;
    transfer.key = key;
    transfer.asked_here = true;
    ++users;
}

void TransferContext::serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length) {
    const Buffers::Piece piece{.at = reinterpret_cast<std::byte*>(address),
                               .length = static_cast<size_t>(length)};
    transfer.memory = Buffers({&piece, 1});
    transfer.length = length;
    transfer.use = use;
    (void)note(piece.at, piece.length);
    ++counters.served;
}

void TransferContext::release_memory(Transfer& transfer) {
    if (transfer.use != nullptr) regions.release(transfer.use);
    if (transfer.pin != nullptr) pins.release(transfer.pin);
    if (transfer.ahead != nullptr) pins.release(transfer.ahead);
    for (Pin* pin : transfer.pins) pins.release(pin);
}

void TransferContext::end(Transfer& transfer) {
    release_memory(transfer);
    engine.transfer_over(*transfer.channel);
    if (transfer.asked_here) --users;
}

void TransferContext::tell_user(bool asked, void* cookie, Channel& channel, Status status) {
    if (!asked) return;
    if (status != Status::kOk) {
        ++channel.failures;
        channel.failure = status;
    }
    if (cookie != nullptr)
        owner.completed(cookie, status);
    else if (status != Status::kOk)
        engine.fail(channel, status, "an operation without completion is refused");
}

void TransferContext::warn_of_limit() {
    if (warned_of_limit_) return;
    warned_of_limit_ = true;
    owner.warn(
        "no memory for large messages can be registered: they fail; raise the limit of locked "
        "memory (ulimit -l)");
}

RegionUse* TransferContext::open(const WireKey& key, uint64_t address, uint64_t length,
                                 unsigned access) {
    RegionUse* use = regions.find({key.index, key.generation});
    if (use == nullptr) return nullptr;
    if (length != 0 && covers(use->region(), address, length, access)) return use;
    regions.release(use);
    return nullptr;
}

bool TransferContext::expose(Transfer& transfer, bool writes) {
    if (transfer.use == nullptr) return true;
    const RegionAccess memory(transfer);
    if (memory) transfer.use->lend(transfer.channel->qp.get(), writes);
    return static_cast<bool>(memory);
}

bool TransferContext::cut(Transfer& transfer) {
    if (!transfer.use->cut()) return false;
    ++counters.refused;
    engine.fail(*transfer.channel, Status::kConnectionReset,
                "memory was deregistered while the peer accessed it");
    return true;
}

// Watching a buffer, from its second use on, takes a system call or two.
uint32_t TransferContext::note(const std::byte* at, size_t length) {
    const uint32_t uses = pins.note(at, length);
    if (uses == 2) budget.watched();
    return uses;
}

BufferState TransferContext::look_up(Transfer& transfer, unsigned access) {
    std::byte* const at = transfer.memory.data();
    const auto length = static_cast<size_t>(transfer.length);
    BufferState state;
    // serve() has counted.
    state.uses = transfer.asked_here ? note(at, length) : pins.uses(at, length);
    // A buffer that is used for the first time is not pinned; a lookup would cost time in vain.
    if (state.uses > 1) transfer.pin = pins.find(at, length, access);
    state.pinned = transfer.pin != nullptr;
    state.can_pin = fits(length);
    state.keeps = state.pinned || state.uses < 2 || pins.keeps(at, length);
    return state;
}

// With several transfers the wire is busy anyway, and long pieces save processor time.
uint64_t TransferContext::piece_of(uint64_t piece, bool again, const std::byte* at,
                                   uint64_t rest) const {
    if (piece == 0) return rest;
    if (again) return std::min(piece - reinterpret_cast<uint64_t>(at) % piece, rest);
    const uint64_t least = running <= 1 ? 0 : std::min(Policy::kLongPiece, policy.longest_piece());
    return std::min(std::max(piece, least), rest);
}

bool TransferContext::lend(RingPool& rings, RingPool::Ring& ring) {
    if (rings.may_grow()) [[unlikely]]
        grow(rings);
    return rings.lend(ring);
}

void TransferContext::grow(RingPool& rings) {
    if (!rings.provided()) {
        if (!budget.may_provide()) return;
        rings.provide();
        budget.provided();
    } else if (budget.may_register(rings.ring_size())) {
        budget.registered(rings.ring_size());
        rings.grow();
    }
}

Pin* TransferContext::find(std::byte* at, uint64_t length, unsigned access) {
    if (budget.over()) return nullptr;
    budget.looked();
    return pins.find(at, static_cast<size_t>(length), access);
}

Pin* TransferContext::pin(std::byte* at, uint64_t length, unsigned access) {
    Pin* pin = pins.find(at, static_cast<size_t>(length), access);
    if (pin != nullptr) return pin;
    pin = pins.pin(at, static_cast<size_t>(length), access);
    budget.registered(length);
    if (pin == nullptr) ++counters.fallbacks;
    return pin;
}

bool TransferContext::refuse(Channel& channel, uint32_t what, uint32_t number) {
    ++counters.refused;
    if (!warned_of_refusal_) {
        warned_of_refusal_ = true;
        owner.warn(channel.peer.to_string() +
                   " asks for memory that it has no key for, or not for that; refused. Its "
                   "program uses a remote key after the memory was deregistered, or beyond its "
                   "end");
    }
    add_refusal(channel, {.what = what, .number = number});
    const bool proper = refusals_[&channel].size() <= kMostRefusals;
    (void)send_refusals();
    return proper;
}

unsigned TransferContext::send_refusals() {
    unsigned count = 0;
    for (auto of_channel = refusals_.begin(); of_channel != refusals_.end();) {
        auto& [channel, frames] = *of_channel;
        for (; !frames.empty() && send(*channel, TransferId::kRefuse, frames.front()); ++count)
            frames.pop_front();
        of_channel = frames.empty() ? refusals_.erase(of_channel) : std::next(of_channel);
    }
    return count;
}

}  // namespace tern
