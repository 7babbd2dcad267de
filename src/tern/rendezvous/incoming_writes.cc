// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/incoming_writes.h"

#include <algorithm>
#include <cstring>

namespace tern {

void IncomingWrites::open(Incoming& transfer) {
    const bool staged = transfer.decision.staged();
    ++(staged ? counters_.superpipeline : counters_.zero_copy);
    transfer.core.emplace(transfer.length, transfer.ring.slots, transfer.generation,
                          !engine_.sleep()->polls_memory(*transfer.channel),
                          transfer.ring.slots / (settings_.chunks_per_ring + 1));
    engine_.expect_notifications(transfer.core->notifications());
    if (transfer.in_pieces()) {
        transfer.parts.first = WirePart::announce(pins_.first_piece(transfer));
    } else {
        const Part first = staged ? Part{.upto = transfer.length} : pins_.pinned_part(transfer);
        transfer.parts.first = WirePart::of(first);
        transfer.core->add(first);
    }
    transfer.start.alone = accounts_.running() == 0;
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

IncomingWrites::Step IncomingWrites::step(Incoming& transfer) {
    if (transfer.use != nullptr && accounts_.fail_if_cut(transfer)) return {};
    RingReader& core = *transfer.core;
    if (transfer.state == Incoming::State::kAsking) {
        if (!ask_sender(transfer)) return {};
        transfer.move_to(Incoming::State::kRunning);
    }
    if (core.is_withdrawn()) {
        const bool over = core.withdrawn_completely() && (transfer.refused || end(transfer));
        return {over, over};
    }
    unsigned count = take_blocks(transfer);
    if (core.parts_end() != transfer.length || transfer.parts.due) count += pin_more(transfer);
    if (core.complete()) {
        const bool over = end(transfer);
        return {count + over, over};
    }
    if (count != 0)
        transfer.idle.steps = 0;
    else if (!budget_.over())
        note_idle(transfer);
    // With notifications this side may go to sleep, and then does not come here again.
    const bool idle = transfer.idle.steps >= (core.notified() ? 1 : kIdleAck);
    if (core.ack_due() || (idle && core.ack_owed())) {
        if (idle && !core.notified()) core.waited();
        (void)acknowledge(transfer);
    }
    return {count, false};
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

// Nothing has come. Measures how long this side waits; the time during which it does not poll does
// not count.
void IncomingWrites::note_idle(Incoming& transfer) const {
    if (++transfer.idle.steps % kIdleClock != 0 || !transfer.source.takes_waited_ack) return;
    const auto now = std::chrono::steady_clock::now();
    const auto since = now - transfer.idle.polled_at;
    if (since < settings_.between_polls) transfer.idle.waited += since;
    transfer.idle.polled_at = now;
}

bool IncomingWrites::was_alone(const Incoming& transfer) const {
    return transfer.start.alone && transfer.sequence == accounts_.begun();
}

// Whether this side has waited longer than it takes to transfer the message, and to register the
// sender's memory as well: it would have been better to read the message without the sender. Of
// several transfers at a time, each waits for the others.
bool IncomingWrites::kept_waiting(const Incoming& transfer) const {
    if (transfer.idle.waited.count() == 0 || !was_alone(transfer)) return false;
    const CostModel& model = decider_.model();
    const double expected = std::max(transfer.decision.expected, model.raw(transfer.length));
    const std::chrono::duration<double> waited = transfer.idle.waited;
    return waited.count() >
           expected + model.registration(static_cast<double>(transfer.length)) + kWaitedLong;
}

// Pins the next placed part while the one before is on the wire, and sends it to the sender. Parts
// that are pinned already are sent without delay: the sender may not poll when the wire has nothing
// to do.
unsigned IncomingWrites::pin_more(Incoming& transfer) {
    unsigned count = 0;
    bool found = true;
    while (count < kPartsAtOnce && found &&
           (transfer.parts.due || transfer.core->parts_end() != transfer.length)) {
        if (!transfer.parts.due) {
            if (budget_.over()) break;
            found = transfer.pinned.announced != transfer.pins.size() || pins_.find(transfer);
            if (!found && (count != 0 || !pins_.may_pin(transfer))) break;
            transfer.parts.next = pins_.next_part(transfer);
            transfer.core->add(transfer.parts.next);
            transfer.parts.due = true;
        }
        const MorePart frame{.receiver = transfer.number,
                             .part = WirePart::of(transfer.parts.next)};
        if (!send_frame(engine_, *transfer.channel, TransferId::kPart, frame)) break;
        transfer.parts.due = false;
        ++count;
    }
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
    if (!send_frame(engine_, *transfer.channel, TransferId::kAck, &frame, length, replies))
        return false;
    if (replies) ++counters_.replies;
    if (transfer.failed && !transfer.asked_here) ++counters_.refused;
    return true;
}

}  // namespace tern
