// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/accounts.h"

#include <cerrno>
#include <iterator>
#include <utility>

#include "tern/base/shortage.h"
#include "tern/base/trace.h"

namespace tern {

RegionUse* TransferMemory::open(const WireKey& key, uint64_t address, uint64_t length,
                                unsigned access) {
    RegionUse* use = regions_.find(key);
    if (use == nullptr) return nullptr;
    if (length != 0 && covers(use->region(), address, length, access)) return use;
    regions_.release(use);
    return nullptr;
}

void TransferMemory::serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length) {
    TERN_ASSERT(use != nullptr && transfer.use == nullptr);
    auto* const at = reinterpret_cast<std::byte*>(address);
    transfer.memory = Buffers(at, static_cast<size_t>(length));
    transfer.length = length;
    transfer.use = use;
    (void)note(at, static_cast<size_t>(length));
}

bool TransferMemory::expose(Transfer& transfer, bool writes) {
    if (transfer.use == nullptr) return true;
    const RegionAccess memory(transfer);
    if (memory) transfer.use->lend(transfer.channel->qp.get(), writes);
    return static_cast<bool>(memory);
}

void TransferMemory::release(Transfer& transfer) {
    if (transfer.use != nullptr) regions_.release(std::exchange(transfer.use, nullptr));
    if (transfer.pin != nullptr) pins_.release(std::exchange(transfer.pin, nullptr));
    for (Pin* pin : std::exchange(transfer.pinned.pins, {})) pins_.release(pin);
}

// Watching a buffer, from its second use on, takes a system call or two.
uint32_t TransferMemory::note(const std::byte* at, size_t length) {
    const uint32_t uses = pins_.note(at, length);
    if (uses == 2) budget_.watched();
    return uses;
}

BufferState TransferMemory::look_up(Transfer& transfer, unsigned access) {
    TERN_ASSERT(transfer.pin == nullptr && transfer.memory.contiguous());
    std::byte* const at = transfer.memory.data();
    const auto length = static_cast<size_t>(transfer.length);
    BufferState state;
    if (is_of_device(transfer)) [[unlikely]] {
        state.pinned = state.of_device = true;
        return state;
    }
    // serve() has counted.
    state.uses = transfer.asked_here ? note(at, length) : pins_.uses(at, length);
    // A buffer that is used for the first time is not pinned, so it is not looked up.
    if (state.uses > 1) transfer.pin = pins_.find(at, length, access);
    state.pinned = transfer.pin != nullptr;
    state.can_pin = fits(length);
    state.keeps = state.pinned || state.uses < 2 || pins_.keeps(at, length);
    return state;
}

bool TransferMemory::is_of_device(Transfer& transfer) {
    TERN_ASSERT(transfer.pin == nullptr);
    if (!transfer.memory.contiguous()) return false;
    transfer.pin = pins_.find_of_device(transfer.memory.data(),
                                        static_cast<size_t>(transfer.memory.length()), 0);
    return transfer.pin != nullptr;
}

BufferState TransferMemory::state_of(const Buffers::Piece& buffer) const {
    if (Pin* pin = pins_.find_of_device(buffer.at, buffer.length, 0); pin != nullptr) [[unlikely]] {
        pins_.release(pin);
        return {.pinned = true, .of_device = true};
    }
    BufferState state{.can_pin = fits(buffer.length), .uses = pins_.uses(buffer.at, buffer.length)};
    if (decider_.is_reused(state)) state.keeps = pins_.keeps(buffer.at, buffer.length);
    return state;
}

Pin* TransferMemory::find(std::byte* at, uint64_t length, unsigned access) {
    if (budget_.over()) return nullptr;
    budget_.looked();
    return pins_.find(at, static_cast<size_t>(length), access);
}

Pin* TransferMemory::pin(std::byte* at, uint64_t length, unsigned access) {
    bool found = false;
    Pin* pin = pins_.pin(at, static_cast<size_t>(length), access, &found);
    if (found) return pin;
    budget_.registered(length);
    if (pin == nullptr) ++counters_.fallbacks;
    TERN_TRACE("%lu bytes at %p %s for a transfer", static_cast<unsigned long>(length),
               static_cast<void*>(at), pin != nullptr ? "are pinned" : "could not be pinned");
    return pin;
}

void TransferAccounts::begin(Transfer& transfer, Channel& channel, const Waiter& waiter) {
    TERN_ASSERT(transfer.channel == nullptr);
    transfer.channel = &channel;
    transfer.waiter = waiter;
    transfer.sequence = ++begun_;
    ++transfers_;
    idle_.end();
    engine_.transfer_begins(channel);
}

void TransferAccounts::begin_operation(Transfer& transfer, uint64_t address, const WireKey& key) {
    transfer.length = transfer.memory.length();
    transfer.address = address;
    transfer.key = key;
    transfer.asked_here = true;
    ++work_;
    ChannelTransfers& all = transfers_on(*transfer.channel);
    transfer.earlier = std::exchange(all.last, &transfer);
    (transfer.earlier != nullptr ? transfer.earlier->later : all.first) = &transfer;
}

void TransferAccounts::begin_service(Transfer& transfer, RegionUse* use, uint64_t address,
                                     uint64_t length) {
    memory_.serve(transfer, use, address, length);
    ++counters_.served;
}

void TransferAccounts::end(Transfer& transfer) {
    TERN_ASSERT(transfers_ != 0);
    --transfers_;
    memory_.release(transfer);
    engine_.transfer_over(*transfer.channel);
    if (transfer.awaited()) forget_operation(transfer);
}

void TransferAccounts::forget_operation(Transfer& transfer) {
    TERN_ASSERT(users() != 0);
    --work_;
    ChannelTransfers& all = transfers_on(*transfer.channel);
    if (cursor_ == &transfer) cursor_ = transfer.later;
    (transfer.earlier != nullptr ? transfer.earlier->later : all.first) = transfer.later;
    (transfer.later != nullptr ? transfer.later->earlier : all.last) = transfer.earlier;
}

void* TransferAccounts::drop(Transfer& transfer) {
    if (transfer.awaited()) forget_operation(transfer);
    memory_.release(transfer);
    transfer.dropped = true;
    return std::exchange(transfer.waiter, {}).cookie;
}

void TransferAccounts::complete(bool awaited, void* cookie, Channel& channel, Status status) {
    if (!awaited) return;
    const bool failed = status != Status::kOk && status != Status::kCanceled;
    if (failed) {
        ++transfers_on(channel).failures;
        transfers_on(channel).failure = status;
    }
    if (cookie != nullptr)
        owner_.completed(cookie, status);
    else if (failed)
        engine_.fail(channel, status, "an operation without completion is refused");
}

// Operations are listed in the order of their beginnings. Without a user, the first is enough.
bool TransferAccounts::pending(const Channel& channel, uint64_t until, const void* user) {
    const Transfer* each = transfers_on(channel).first;
    while (each != nullptr && user != nullptr && each->waiter.user != user) each = each->later;
    return each != nullptr && each->sequence <= until;
}

// Those that have been posted are as many as the send queue has places, at most.
bool TransferAccounts::may_be_overtaken(const Channel& channel, uint64_t until) {
    const Transfer* each = transfers_on(channel).first;
    while (each != nullptr && each->posted) each = each->later;
    return each != nullptr && each->sequence <= until;
}

void TransferAccounts::forget_user(const Channel& channel, const void* user) {
    for (Transfer* each = transfers_on(channel).first; each != nullptr; each = each->later)
        if (each->waiter.user == user) each->waiter.user = nullptr;
}

bool TransferAccounts::fail_if_cut(Transfer& transfer) {
    if (transfer.use == nullptr || !transfer.use->cut()) return false;
    ++counters_.refused;
    engine_.fail(*transfer.channel, Status::kConnectionReset,
                 "memory was deregistered while the peer accessed it");
    return true;
}

void TransferAccounts::warn_of_limit() {
    if (!std::exchange(warned_of_limit_, true)) owner_.warn(scarce::kRing.line(ENOMEM));
}

bool Refusals::refuse(Channel& channel, uint32_t what, uint32_t number) {
    ++counters_.refused;
    if (!warned_) {
        warned_ = true;
        owner_.warn(channel.peer.to_string() +
                    " asks for memory that it has no key for, or not for that; refused. Its "
                    "program uses a remote key after the memory was deregistered, or beyond its "
                    "end");
    }
    TERN_DEBUG("transfer %u of %s is refused: no key permits it", number,
               channel.peer.to_string().c_str());
    add(channel, {.what = what, .number = number});
    const bool proper = frames_[&channel].size() <= kMost;
    (void)send();
    return proper;
}

unsigned Refusals::send() {
    unsigned count = 0;
    for (auto of_channel = frames_.begin(); of_channel != frames_.end();) {
        auto& [channel, frames] = *of_channel;
        for (;
             !frames.empty() && send_frame(engine_, *channel, TransferId::kRefuse, frames.front());
             ++count)
            frames.pop_front();
        of_channel = frames.empty() ? frames_.erase(of_channel) : std::next(of_channel);
    }
    return count;
}

}  // namespace tern
