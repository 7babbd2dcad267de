// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/read.h"

#include <algorithm>
#include <iterator>

#include "tern/engine/engine.h"

namespace tern {

unsigned Reads::take(Incoming& transfer) {
    for (unsigned count = 0;; ++count) {
        auto& reads = transfer.reading.reads;
        const auto read = std::find_if(
            std::begin(reads), std::end(reads),
            [&](const Incoming::Read& it) { return it.arrived && it.offset == transfer.taken; });
        if (read == std::end(reads)) return count;
        if (read->from != nullptr) {
            if (budget_.over()) return count;
            transfer.memory.write(read->from, static_cast<size_t>(read->bytes));
            budget_.copied(read->bytes);
        } else {
            transfer.memory.skip(read->bytes);
        }
        transfer.taken += read->bytes;
        *read = {};
    }
}

Reads::Posted Reads::post(Incoming& transfer, bool may_lend) {
    Channel& channel = *transfer.channel;
    Incoming::Reading& reading = transfer.reading;
    Posted posted;
    while (reading.asked != transfer.length && !channel.failed) {
        const auto free = std::find_if(std::begin(reading.reads), std::end(reading.reads),
                                       [](const Incoming::Read& read) { return read.bytes == 0; });
        if (free == std::end(reading.reads)) break;
        if (channel.sends.room() <= channel.transfer_reserve) {
            posted.next = Next::kOnRoom;
            break;
        }
        ibv_sge piece{};
        if (!find_room(transfer, may_lend, *free, piece)) {
            posted.needs_ring = transfer.decision.staged() && transfer.ring.slots == 0;
            posted.no_rings =
                posted.needs_ring && rings_.cannot_register() && reading.asked == transfer.taken;
            break;
        }
        free->owner = &transfer;
        free->offset = reading.asked;
        void* cookie = make_cookie(CookieKind::kRead, free);
        (void)engine_.one_sided()->read(channel, {&piece, 1}, transfer.address + reading.asked,
                                        reading.rkey, cookie);
        reading.asked += free->bytes;
        TERN_ASSERT(reading.asked <= transfer.length);
        ++posted.count;
    }
    transfer.posted = reading.asked == transfer.length;
    return posted;
}

// Has memory for the next read pinned, or a ring lent. False: not now.
bool Reads::prepare(Incoming& transfer, bool may_lend) {
    if (!transfer.decision.staged() && transfer.reading.asked == transfer.pinned.bytes) {
        if (!pins_.may_pin(transfer)) return false;
        if (!pins_.pin(transfer, kLocalWrite)) {
            transfer.set_decision(decider_.decide({.length = transfer.length, .pin_failed = true}));
        }
    }
    return !transfer.decision.staged() || rings_.lend(transfer, may_lend);
}

// Finds where the next read goes, and how long it is. False: not now.
bool Reads::find_room(Incoming& transfer, bool may_lend, Incoming::Read& read, ibv_sge& piece) {
    if (!prepare(transfer, may_lend)) return false;
    const Incoming::Reading& reading = transfer.reading;
    if (!transfer.decision.staged()) {
        const Pin& pin = transfer.pin != nullptr ? *transfer.pin : *transfer.pinned.pins.back();
        read.bytes = std::min(transfer.pinned.bytes - reading.asked, kLongestAccess);
        piece.addr = address_of(transfer.memory.data()) + reading.asked;
        piece.lkey = pin.lkey();
    } else {
        const uint64_t half =
            uint64_t{transfer.ring.slots} * SubBlocks::kSlot / std::size(reading.reads);
        const auto which = static_cast<uint64_t>(&read - reading.reads);
        read.bytes = std::min({transfer.length - reading.asked, half, decider_.longest_copy()});
        read.from = transfer.ring.data + half * which;
        rings_.read_into(transfer);
        piece.addr = address_of(read.from);
        piece.lkey = transfer.ring.lkey;
    }
    piece.length = static_cast<uint32_t>(read.bytes);
    return true;
}

}  // namespace tern
