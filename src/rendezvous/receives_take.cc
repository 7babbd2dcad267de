// SPDX-License-Identifier: BSD-3-Clause

// How bytes arrive: sub-blocks are copied out of rings, and direct parts are pinned.

#include <algorithm>
#include <cstring>

#include "rendezvous/receives.h"

namespace tern {

// A completion calls the user, who may begin further transfers: the list grows at its end.
unsigned Receives::advance() {
    unsigned count = 0;
    for (size_t i = 0; i < running_.size();) {
        Incoming& transfer = *running_[i];
        count += step(transfer);
        // If the transfer is over, the next one has taken its place.
        if (i < running_.size() && running_[i] == &transfer) ++i;
    }
    return count;
}

// The transfer may be over after this.
unsigned Receives::step(Incoming& transfer) {
    if (transfer.channel->failed) return 0;
    if (transfer.state == Incoming::State::kReading) return read_more(transfer);
    if (transfer.use != nullptr && context_.cut(transfer)) return 0;
    Receiver& core = *transfer.core;
    if (transfer.state == Incoming::State::kAsking) {
        if (!ask_sender(transfer)) return 0;
        transfer.state = Incoming::State::kRunning;
    }
    if (transfer.failed && transfer.asked_here) return complete(transfer);
    unsigned count = take_blocks(transfer);
    if (core.told() != transfer.length || transfer.part_due) count += pin_more(transfer);
    if (core.complete()) return count + complete(transfer);
    transfer.idle = count != 0 ? 0 : transfer.idle + 1;
    // With notifications this side may go to sleep, and then does not come here again.
    const bool idle = transfer.idle >= (core.notified() ? 1 : kIdleAck);
    if (core.ack_due() || (idle && core.ack_owed())) {
        if (idle && !core.notified()) core.waited();
        (void)acknowledge(transfer);
    }
    return count;
}

// Copies sub-blocks to where they belong. After the memory is undeclared they are dropped; they are
// still counted, because the ring cannot be lent again before the sender's writes have ended.
unsigned Receives::take_blocks(Incoming& transfer) {
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

// Pins the next direct part while the one before is on the wire, and tells the sender.
unsigned Receives::pin_more(Incoming& transfer) {
    if (!transfer.part_due) {
        transfer.part = pin_next(transfer);
        transfer.core->add(transfer.part);
        transfer.part_due = true;
    }
    const MorePart frame{.receiver = transfer.number, .part = WirePart::of(transfer.part)};
    if (!context_.send(*transfer.channel, TransferId::kPart, frame)) return 0;
    transfer.part_due = false;
    return 1;
}

// False: the frame cannot be sent now.
bool Receives::acknowledge(Incoming& transfer) {
    const Ack frame{.receiver = transfer.number, .count = transfer.core->count()};
    if (!context_.send(*transfer.channel, TransferId::kAck, frame)) return false;
    transfer.core->acked();
    return true;
}

unsigned Receives::complete(Incoming& transfer) {
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
    if (!context_.send(*transfer.channel, TransferId::kAck, &frame, length, replies)) return 0;
    if (replies) ++context_.counters.replies;
    if (transfer.failed && !transfer.asked_here) ++context_.counters.refused;
    over(transfer, transfer.failed ? Status::kRemoteAccess : Status::kOk);
    return 1;
}

// The next part: pinned, or else all the rest through the ring.
Part Receives::pin_next(Incoming& transfer) {
    const uint64_t begin = transfer.core->told();
    const uint64_t rest = transfer.length - begin;
    // The sender accepts only kMostParts parts at a time.
    const uint64_t least = transfer.length / (Sender::kMostParts / 2) + 1;
    const uint64_t piece =
        std::min(std::max(context_.piece_of(transfer.plan.piece, rest), least), rest);
    Pin* pin = this->pin(transfer.memory.data() + begin, piece);
    if (pin == nullptr) return {.upto = transfer.length};
    transfer.pins.push_back(pin);
    if (!context_.expose(transfer, true)) return {.upto = transfer.length};
    transfer.plan.piece = context_.policy.next_piece(transfer.plan.piece);
    Part part = direct_part(*pin, transfer.memory.data() + begin, piece);
    part.upto = begin + piece;
    return part;
}

Pin* Receives::pin(std::byte* at, uint64_t length) {
    Pin* pin = context_.pins.pin(at, static_cast<size_t>(length), kRemotePut);
    if (pin == nullptr) ++context_.counters.fallbacks;
    return pin;
}

Part Receives::direct_part(const Pin& pin, const std::byte* at, uint64_t length) {
    return {.upto = length,
            .address = reinterpret_cast<uint64_t>(at),
            .rkey = pin.rkey(),
            .direct = true};
}

// All transfers have had a turn. Besides the flags, they wait only for completions and frames.
Status Receives::arm(std::vector<Watched>& words) {
    if (!failures_.empty()) return Status::kInProgress;
    for (Incoming* transfer : running_) {
        if (!transfer->core || transfer->channel->failed) continue;
        Receiver& core = *transfer->core;
        // Read the flag before next(): a value written after that differs from `was`.
        Watched flag;
        if (core.polls_memory()) {
            flag.at = core.flag(transfer->ring.data);
            flag.was = __atomic_load_n(flag.at, __ATOMIC_RELAXED);
        }
        Receiver::Block block;
        if (core.next(transfer->ring.data, block)) return Status::kInProgress;
        // The sender may have no room left, and this side does not look again while it sleeps.
        if (core.ack_owed()) {
            if (!core.notified()) core.waited();
            (void)acknowledge(*transfer);
        }
        if (flag.at != nullptr) words.push_back(flag);
    }
    return Status::kOk;
}

}  // namespace tern
