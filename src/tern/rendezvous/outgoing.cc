// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/outgoing.h"

#include <algorithm>
#include <new>
#include <utility>

#include "tern/base/trace.h"
#include "tern/connection/little_endian.h"

namespace tern {

OutgoingTransfers::OutgoingTransfers(const RendezvousPart& part)
    : TransferHalf(part),
      rings_(new_rings()),
      early_(part, rings_),
      staging_(part, rings_, early_),
      placed_(part, staging_) {}

// How transfers begin.

// If memory is exhausted, the call fails; so its completion must not be reported, too.
void OutgoingTransfers::put(Outgoing& transfer, uint64_t to, const WireKey& key,
                            uint32_t rkey) try {
    accounts_.begin_operation(transfer, to, key);
    ++counters_.puts;
    transfer.rkey = rkey;
    transfer.move_to(Outgoing::State::kOffering);
    if (transfer.channel->up())
        offer(transfer);
    else
        unconnected_.push(*transfer.channel, &transfer);
} catch (const std::bad_alloc&) {
    transfer.waiter = {};
    throw;
}

void OutgoingTransfers::offer(Outgoing& transfer) {
    if (transfer.alone()) {
        (void)start(transfer, {},
                    WirePart::of({.upto = transfer.length,
                                  .address = transfer.address,
                                  .rkey = transfer.rkey,
                                  .placed = true}));
        return;
    }
    offers_.push(*transfer.channel, &transfer);
    (void)make_offers();
}

unsigned OutgoingTransfers::make_offers() {
    if (offers_.empty()) return 0;
    return offers_.move_firsts([this](Outgoing* transfer) {
        const Deliver frame{.sender = transfer->number,
                            .address = transfer->address,
                            .length = transfer->length,
                            .key = transfer->key};
        if (!send_frame(engine_, *transfer->channel, TransferId::kDeliver, frame)) return false;
        offers_.remove(*transfer->channel, transfer);
        transfer->move_to(Outgoing::State::kOffered);
        return true;
    });
}

// A peer asks to get.
bool OutgoingTransfers::fetch(Channel& channel, const std::byte* data, uint32_t length) {
    Fetch frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    return serve_or_wait(channel, frame,
                         [this](Channel& to, const Fetch& asked) { return serve(to, asked); });
}

bool OutgoingTransfers::serve(Channel& channel, const Fetch& frame) {
    RegionUse* use = memory_.open(frame.key, frame.address, frame.length, kRemoteGet);
    if (use == nullptr) return refusals_.refuse(channel, Refuse::kFetch, frame.receiver);
    Outgoing& transfer = begin_service(channel, use, frame);
    transfer.receiver = frame.receiver;
    transfers_on(channel).fetches |= transfers_on(channel).readable;
    if (early_.take(transfer, frame)) staging_.hold(transfer);
    return start(transfer, frame.ring, frame.part);
}

bool OutgoingTransfers::accepted(Channel& channel, const std::byte* data, uint32_t length) {
    Accept frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    Outgoing* transfer = offered(channel, frame.sender);
    if (transfer == nullptr) return false;
    transfer->receiver = frame.receiver;
    return start(*transfer, frame.ring, frame.part);
}

// Begins to write for a receiver that is ready. False: its frame is invalid.
bool OutgoingTransfers::start(Outgoing& transfer, const WireRing& ring, const WirePart& first) {
    transfer.to = ring;
    const uint32_t slots = std::min<uint32_t>(ring.slots, rings_.slots());
    transfer.core.emplace(transfer.length, ring.slots, rings_.slots(),
                          decider_.limits(transfer.length, slots, settings_.chunks_per_ring));
    transfer.core->set_early_chunk(transfer.early);
    transfer.move_to(Outgoing::State::kWriting);
    running_.add(transfer);
    if (!transfer.alone()) by_receiver_.add(transfer);
    accounts_.started();
    if (transfer.dropped) [[unlikely]]
        return withdraw(transfer);
    if (first.announced()) return placed_.prepare(transfer, first.upto);
    const Part part = first.part();
    if ((!part.placed && ring.slots == 0) || !transfer.core->add(part)) return false;
    step_now(transfer);
    return true;
}

// How transfers go on.

unsigned OutgoingTransfers::advance() {
    unsigned count = 0;
    if (!requests_.empty()) [[unlikely]]
        count += serve_waiting(
            [this](Channel& channel, const Fetch& frame) { return serve(channel, frame); });
    if (!unconnected_.empty()) [[unlikely]]
        count += begin_connected([this](Outgoing& transfer) { offer(transfer); });
    if (staging_.any_waiting()) count += staging_.lend_to_waiting(running_) + end_starved();
    count += make_offers();
    return count + running_.advance([this](Outgoing& transfer) { return step(transfer); });
}

// Posts a few writes, pins the next piece, and sends the finish.
Step OutgoingTransfers::step(Outgoing& transfer) {
    Channel& channel = *transfer.channel;
    if (channel.failed) return {.next = Next::kOnEvent};
    const bool revoked = transfer.use != nullptr && transfer.use->revoked();
    if ((revoked || transfer.dropped) && withdraw(transfer)) {
        const bool told = transfer.state == Outgoing::State::kWithdrawn || channel.failed;
        return {.next = told ? Next::kOnEvent : Next::kOnRoom};
    }
    // Of a transfer that the peer has ended, only completions are to come.
    if (transfer.state == Outgoing::State::kWaiting || transfer.state == Outgoing::State::kEnded)
        return {.next = Next::kOnEvent};
    Step done{.next = Next::kOnEvent};
    done.next = write(transfer, done.count);
    done.count += placed_.pin_ahead(transfer);
    const ChunkSource& core = *transfer.core;
    transfer.posted = transfer.alone() && core.all_posted();
    if (core.all_posted() && core.needs_finish() && !transfer.alone() &&
        transfer.state == Outgoing::State::kWriting) {
        const Finish frame{.receiver = transfer.receiver};
        if (send_frame(engine_, channel, TransferId::kFinish, frame))
            transfer.move_to(Outgoing::State::kFinished);
        else
            done.next = Next::kOnRoom;
    }
    if (budget_.over()) done.next = Next::kAgain;
    return done;
}

// Returns what it has stopped for, apart from the budget.
Next OutgoingTransfers::write(Outgoing& transfer, unsigned& count) {
    const Channel& channel = *transfer.channel;
    ChunkSource& core = *transfer.core;
    ChunkSource::Chunk chunk;
    for (; count < kWritesAtOnce; ++count) {
        if (channel.sends.room() <= channel.transfer_reserve)
            return core.staging() || core.next(kLongestAccess, chunk) ? Next::kOnRoom
                                                                      : Next::kOnEvent;
        // A transfer whose staging memory was taken away needs some again only for a next write.
        if (core.staged() != 0 && transfer.staging.slots == 0 && !core.next(kLongestAccess, chunk))
            return Next::kOnEvent;
        // Before next(), because chunks depend on the size of the staging memory.
        if (core.staging() && !staging_.lend_or_wait(transfer)) return Next::kOnEvent;
        if (!core.next(kLongestAccess, chunk)) return Next::kOnEvent;
        if (!(chunk.placed ? placed_.post(transfer, chunk)
                           : staging_.post(transfer, chunk, placed_.is_of_device(transfer))))
            return Next::kOnEvent;
        core.posted(chunk);
        ++counters_.chunks;
    }
    return Next::kAgain;
}

bool OutgoingTransfers::part(Channel& channel, const std::byte* data, uint32_t length) {
    MorePart frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.part.valid() || frame.part.announced()) return false;
    Outgoing* transfer = by_receiver_.find(channel, frame.receiver);
    if (transfer == nullptr) return true;  // it has been refused meanwhile
    if (!frame.part.part().placed && transfer->to.slots == 0) return false;
    if (!transfer->core->add(frame.part.part())) return false;
    step_now(*transfer);
    return true;
}

bool OutgoingTransfers::acknowledged(Channel& channel, const std::byte* data, uint32_t length) {
    Ack frame;
    if (!unpack(frame, data, std::min<uint32_t>(length, sizeof(frame)))) return false;
    if (!frame.valid(length)) return false;
    Outgoing* transfer = by_receiver_.find(channel, frame.receiver);
    if (transfer == nullptr || !transfer->core->acknowledged(frame.count)) return false;
    const bool replies = (frame.flags & Ack::kReply) != 0;
    // Only a fetch that has succeeded has a reply.
    if (replies && (transfer->asked_here || transfer->state == Outgoing::State::kWithdrawn))
        return false;
    if ((frame.flags & Ack::kEnd) == 0) {
        step_now(*transfer);
        return true;
    }
    if (transfer->state != Outgoing::State::kWithdrawn &&
        (!transfer->core->all_posted() || !transfer->core->all_acknowledged()))
        return false;
    if ((frame.flags & Ack::kFailed) != 0) transfer->status = Status::kRemoteAccess;
    // The receiver has all bytes before this side has the completions of the writes.
    if (transfer->under_way() != 0)
        transfer->move_to(Outgoing::State::kEnded);
    else
        end(*transfer, transfer->status);
    // Last, because the user may begin transfers, or undeclare the memory.
    if (replies)
        owner_.replied(frame.reply, data + sizeof(frame),
                       length - static_cast<uint32_t>(sizeof(frame)));
    return true;
}

void OutgoingTransfers::written(Outgoing::Write& write, Status status) {
    Outgoing& transfer = *write.owner;
    TERN_ASSERT(write.under_way != 0);
    --write.under_way;
    // The channel ends, and the transfer with it.
    if (status != Status::kOk) return;
    if (transfer.use != nullptr && transfer.gather.under_way == 0) {
        const RegionAccess memory(transfer);
        if (memory) transfer.use->lend(nullptr, false);
    }
    if (&write == &transfer.reclaim) staging_.take_back(transfer);
    if (&write != &transfer.gather) running_.wake(transfer);
    if (transfer.under_way() != 0) return;
    if (transfer.state == Outgoing::State::kEnded ||
        (transfer.alone() && transfer.core->all_posted()))
        end(transfer, transfer.status);
}

// By this side's number, while the peer has not answered; null if there is none.
Outgoing* OutgoingTransfers::offered(const Channel& channel, uint32_t number) const {
    Outgoing* transfer = table_.find(channel, number);
    const bool is = transfer != nullptr && transfer->state == Outgoing::State::kOffered;
    return is ? transfer : nullptr;
}

// How transfers end.

// Ends a transfer whose memory was undeclared, or which was dropped. False: nothing is left to
// withdraw.
bool OutgoingTransfers::withdraw(Outgoing& transfer) {
    if (transfer.state == Outgoing::State::kWithdrawn || accounts_.fail_if_cut(transfer))
        return true;
    if (transfer.state == Outgoing::State::kEnded || transfer.core->all_posted()) return false;
    staging_.forget(transfer);
    if (transfer.state == Outgoing::State::kWaiting) transfer.move_to(Outgoing::State::kWriting);
    const Refuse frame{.what = Refuse::kRest,
                       .number = transfer.receiver,
                       .blocks = static_cast<uint32_t>(transfer.core->staged())};
    if (send_frame(engine_, *transfer.channel, TransferId::kRefuse, frame)) {
        transfer.move_to(Outgoing::State::kWithdrawn);
        counters_.refused += !transfer.asked_here;
    }
    return true;
}

bool OutgoingTransfers::refused(Channel& channel, const Refuse& frame) {
    Outgoing* transfer = offered(channel, frame.number);
    if (transfer == nullptr) return false;
    TERN_TRACE("outgoing transfer %u is refused by the receiver", transfer->number);
    end(*transfer, Status::kRemoteAccess);
    return true;
}

// Ends the transfers that wait for staging memory if none can be registered, now or later.
unsigned OutgoingTransfers::end_starved() {
    unsigned count = 0;
    while (Outgoing* transfer = staging_.starved()) {
        accounts_.warn_of_limit();
        drop(*transfer, Status::kDevice);
        ++count;
    }
    return count;
}

// Ends a transfer for its user. A peer that takes part is told, and confirms: frames of it may be
// under way. No write may be.
void OutgoingTransfers::drop(Outgoing& transfer, Status status) {
    TERN_ASSERT(transfer.under_way() == 0);
    if (transfer.alone() || transfer.state == Outgoing::State::kOffering)
        return end(transfer, status);
    const bool awaited = transfer.awaited();
    Channel& channel = *transfer.channel;
    void* const cookie = accounts_.drop(transfer);
    if (transfer.core) (void)withdraw(transfer);
    running_.wake(transfer);
    accounts_.complete(awaited, cookie, channel, status);
}

unsigned OutgoingTransfers::drop(const Channel& channel, const void* user) {
    unsigned count = 0;
    accounts_.for_each_of<Outgoing>(channel, user, [&](Outgoing& transfer) {
        if (transfer.under_way() != 0) return;
        ++count;
        drop(transfer, Status::kCanceled);
    });
    return count;
}

void OutgoingTransfers::end(Outgoing& transfer, Status status) {
    TERN_TRACE("outgoing transfer %u is over, status %u", transfer.number,
               static_cast<unsigned>(status));
    if (transfer.state == Outgoing::State::kOffering) {
        unconnected_.remove(*transfer.channel, &transfer);
        offers_.remove(*transfer.channel, &transfer);
    }
    if (transfer.turn.runs && !transfer.alone()) by_receiver_.remove(transfer);
    staging_.forget(transfer);
    staging_.give_back(transfer);
    end_with(transfer, status, [] {});
}

void OutgoingTransfers::ended(Channel* channel, Status status) {
    if (channel != nullptr) early_.drop_all(*channel);
    end_all(channel, [&](Outgoing& transfer) { end(transfer, status); });
}

}  // namespace tern
