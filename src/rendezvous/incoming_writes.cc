// SPDX-License-Identifier: BSD-3-Clause

// How bytes arrive: sub-blocks are copied out of rings, and direct parts are pinned.

#include <algorithm>
#include <cstring>

#include "rendezvous/incoming.h"

namespace tern {

// A completion calls the user, who may begin further transfers: the list grows at its end.
unsigned Receives::advance() {
    unsigned count = 0;
    size_t at = context_.budget.behind() ? next_ : 0;
    for (size_t left = running_.size(); left != 0 && !running_.empty(); --left) {
        if (at >= running_.size()) at = 0;
        Incoming& transfer = *running_[at];
        const bool late = context_.budget.over();
        count += step(transfer);
        // If the transfer is over, the next one has taken its place.
        const size_t was = at;
        if (at < running_.size() && running_[at] == &transfer) ++at;
        // A registration that did not fit in comes first.
        if (!late && context_.budget.over()) next_ = context_.budget.put_off() ? was : at;
    }
    return count;
}

// The transfer may be over after this.
unsigned Receives::step(Incoming& transfer) {
    if (transfer.channel->failed) return 0;
    if (transfer.state == Incoming::State::kReading) return step_reading(transfer);
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
    if (count != 0)
        transfer.idle = 0;
    else if (!context_.budget.over())
        look_in_vain(transfer);
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
    if (context_.budget.over()) return 0;
    Receiver& core = *transfer.core;
    const RegionAccess memory(transfer);
    if (!memory) transfer.failed = true;
    unsigned count = 0;
    uint64_t copied = 0;
    Receiver::Block block;
    for (; count < kBlocksAtOnce && core.next(transfer.ring.data, block); ++count) {
        if (memory) {
            if (block.offset > transfer.taken) transfer.memory.skip(block.offset - transfer.taken);
            transfer.memory.write(transfer.ring.data + block.at, block.bytes);
            transfer.taken = block.offset + block.bytes;
            copied += block.bytes;
        }
        core.taken();
    }
    context_.budget.copied(copied);
    return count;
}

// Nothing has come. Measures how long this side waits, not how long it is away itself.
void Receives::look_in_vain(Incoming& transfer) {
    if (++transfer.idle % kIdleLook != 0 || !transfer.source.takes_waited_ack) return;
    const auto now = std::chrono::steady_clock::now();
    const auto since = now - transfer.looked_at;
    if (since < kLooks) transfer.waited += since;
    transfer.looked_at = now;
}

// Whether this side has waited longer than it takes to transfer the message, and to register the
// sender's memory as well: it would have been better to read the message without the sender. Of
// several transfers at a time, each waits for the others.
bool Receives::kept_waiting(const Incoming& transfer) const {
    if (transfer.waited.count() == 0 || !was_alone(transfer)) return false;
    const CostModel& model = context_.policy.model();
    const double expected = std::max(transfer.decision.expected, model.raw(transfer.length));
    const std::chrono::duration<double> waited = transfer.waited;
    return waited.count() >
           expected + model.registration(static_cast<double>(transfer.length)) + kWaitedLong;
}

// Pins the next direct part while the one before is on the wire, and tells the sender. Parts that
// are pinned already are told without delay: the sender may be away when the wire has nothing to
// do.
unsigned Receives::pin_more(Incoming& transfer) {
    unsigned count = 0;
    bool found = true;
    while (count < kPartsAtOnce && found &&
           (transfer.part_due || transfer.core->told() != transfer.length)) {
        if (!transfer.part_due) {
            if (context_.budget.over()) break;
            found = transfer.told != transfer.pins.size() || find_piece(transfer);
            if (!found && (count != 0 || !may_pin(transfer))) break;
            transfer.part = pin_next(transfer);
            transfer.core->add(transfer.part);
            transfer.part_due = true;
        }
        const MorePart frame{.receiver = transfer.number, .part = WirePart::of(transfer.part)};
        if (!context_.send(*transfer.channel, TransferId::kPart, frame)) break;
        transfer.part_due = false;
        ++count;
    }
    return count;
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
                              .flags = Ack::kEnd | (transfer.failed ? Ack::kFailed : 0) |
                                       (kept_waiting(transfer) ? Ack::kWaited : 0)}};
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
    const Part rest{.upto = transfer.length};
    if (transfer.told == transfer.pins.size() && !pin_piece(transfer, kRemotePut)) return rest;
    return context_.expose(transfer, true) ? direct_part(transfer) : rest;
}

// The length of the next piece to be pinned.
uint64_t Receives::next_piece(const Incoming& transfer) const {
    const uint64_t rest = transfer.length - transfer.pinned;
    // The sender accepts only kMostParts parts at a time.
    const uint64_t least = transfer.length / (Sender::kMostParts / 2) + 1;
    const uint64_t piece = context_.piece_of(transfer.decision.piece, transfer.decision.reused,
                                             transfer.memory.data() + transfer.pinned, rest);
    return std::min(std::max(piece, least), rest);
}

bool Receives::may_pin(const Incoming& transfer) {
    return context_.budget.may_register(next_piece(transfer));
}

// Takes the next piece if it is pinned. Of buffers only that are used again.
bool Receives::find_piece(Incoming& transfer) {
    if (!transfer.decision.reused) return false;
    const uint64_t piece = next_piece(transfer);
    Pin* pin = context_.find(transfer.memory.data() + transfer.pinned, piece, kRemotePut);
    if (pin != nullptr) take_piece(transfer, piece, pin);
    return pin != nullptr;
}

// Pins the next piece. False: it cannot be pinned.
bool Receives::pin_piece(Incoming& transfer, unsigned access) {
    const uint64_t piece = next_piece(transfer);
    Pin* pin = context_.pin(transfer.memory.data() + transfer.pinned, piece, access);
    if (pin != nullptr) take_piece(transfer, piece, pin);
    return pin != nullptr;
}

void Receives::take_piece(Incoming& transfer, uint64_t piece, Pin* pin) {
    Decision& decision = transfer.decision;
    transfer.pinned += piece;
    if (piece == transfer.length) {
        transfer.pin = pin;
        return;
    }
    transfer.pins.push_back(pin);
    transfer.ends.push_back(transfer.pinned);
    if (!decision.reused) decision.piece = context_.policy.next_piece(decision.piece);
}

// The next part of the message that is pinned.
Part Receives::direct_part(Incoming& transfer) {
    const uint64_t begin = transfer.core->told();
    const auto address = reinterpret_cast<uint64_t>(transfer.memory.data()) + begin;
    if (transfer.pin != nullptr) return {transfer.length, address, transfer.pin->rkey(), true};
    const size_t next = transfer.told++;
    return {transfer.ends[next], address, transfer.pins[next]->rkey(), true};
}

// All transfers have had a turn. Besides the flags, they wait only for completions and frames.
Status Receives::arm(std::vector<Watched>& words) {
    if (!failures_.empty() || !later_.empty()) return Status::kInProgress;
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
