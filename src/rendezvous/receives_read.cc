// SPDX-License-Identifier: BSD-3-Clause

// Gets from memory whose rkey is known: the device reads without the peer.

#include <algorithm>
#include <utility>

#include "engine/engine_send.h"
#include "rendezvous/receives.h"

namespace tern {

bool Receives::reads(std::span<const Buffers::Piece> to) const {
    const Policy::Settings& settings = context_.policy.settings();
    if (settings.scheme == SchemeSetting::kSuperpipeline || to.size() != 1) return false;
    const Buffers::Piece& buffer = to.front();
    return context_.fits(buffer.length) &&
           context_.pins.uses(buffer.at, buffer.length) >= settings.worth_pinning;
}

// Reads into the user's memory if it is pinned or worth pinning, else into a ring. False: the
// transfer has to wait for a ring.
bool Receives::start_reading(Incoming& transfer, bool may_lend) {
    // Only once for each transfer, because look_up() counts a use of the buffer.
    if (!transfer.planned && transfer.memory.contiguous() && !transfer.owned) {
        const BufferState own = context_.look_up(transfer, kLocalWrite);
        if (!own.pinned && context_.policy.send(transfer.length, own).gather)
            transfer.pin = context_.pins.pin(transfer.memory.data(),
                                             static_cast<size_t>(transfer.length), kLocalWrite);
    }
    transfer.planned = true;
    if (transfer.pin == nullptr && !lend_ring(transfer, may_lend))
        return rings_.hopeless() && out_of_rings(transfer);
    transfer.state = Incoming::State::kReading;
    running_.push_back(&transfer);
    ++context_.running;
    (void)read_more(transfer);
    return true;
}

unsigned Receives::read_more(Incoming& transfer) {
    Channel& channel = *transfer.channel;
    unsigned count = 0;
    while (transfer.asked != transfer.length && !channel.failed &&
           channel.sends.room() > channel.transfer_reserve) {
        const auto free = std::find_if(std::begin(transfer.reads), std::end(transfer.reads),
                                       [](const Incoming::Read& read) { return read.bytes == 0; });
        if (free == std::end(transfer.reads)) break;
        ibv_sge piece{};
        uint64_t most = kLongestRead;
        if (transfer.pin != nullptr) {
            piece.addr = address_of(transfer.memory.data()) + transfer.asked;
            piece.lkey = transfer.pin->lkey();
        } else {
            most = uint64_t{transfer.ring.slots} * SubBlocks::kSlot / std::size(transfer.reads);
            piece.addr = address_of(transfer.ring.data) +
                         most * static_cast<uint64_t>(free - transfer.reads);
            piece.lkey = transfer.ring.lkey;
        }
        free->owner = &transfer;
        free->bytes = std::min(transfer.length - transfer.asked, most);
        free->from = reinterpret_cast<const std::byte*>(piece.addr);
        piece.length = static_cast<uint32_t>(free->bytes);
        void* cookie = make_cookie(CookieKind::kRead, free);
        (void)context_.engine.read(channel, {&piece, 1}, transfer.address + transfer.asked,
                                   transfer.rkey, cookie);
        transfer.asked += free->bytes;
        ++count;
    }
    return count;
}

// Reads complete in the order in which they were posted.
void Receives::have_read(Incoming::Read& read, Status status) {
    Incoming& transfer = *read.owner;
    const uint64_t bytes = std::exchange(read.bytes, 0);
    --transfer.channel->replies;
    if (status != Status::kOk) return;  // the channel ends, and the transfer with it
    if (transfer.pin == nullptr) transfer.memory.write(read.from, static_cast<size_t>(bytes));
    transfer.taken += bytes;
    if (transfer.taken == transfer.length)
        over(transfer, Status::kOk);
    else
        (void)read_more(transfer);
}

}  // namespace tern
