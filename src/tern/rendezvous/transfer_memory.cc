// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/transfer_memory.h"

#include <utility>

#include "tern/base/trace.h"

namespace tern {

RegionUse* TransferMemory::open(const WireKey& key, uint64_t address, uint64_t length,
                                unsigned access) {
    RegionUse* use = regions_.find({key.index, key.generation});
    if (use == nullptr) return nullptr;
    if (length != 0 && covers(use->region(), address, length, access)) return use;
    regions_.release(use);
    return nullptr;
}

void TransferMemory::serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length) {
    TERN_ASSERT(use != nullptr && transfer.use == nullptr);
    const Buffers::Piece piece{.at = reinterpret_cast<std::byte*>(address),
                               .length = static_cast<size_t>(length)};
    transfer.memory = Buffers({&piece, 1});
    transfer.length = length;
    transfer.use = use;
    (void)note(piece.at, piece.length);
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
    if (transfer.ahead != nullptr) pins_.release(std::exchange(transfer.ahead, nullptr));
    for (Pin* pin : std::exchange(transfer.pins, {})) pins_.release(pin);
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

}  // namespace tern
