// SPDX-License-Identifier: BSD-3-Clause

// How transfers from this side begin and end.

#include "rendezvous/outgoing.h"
#include "connection/little_endian.h"

#include <algorithm>
#include <cstring>

namespace tern {

Sends::Sends(TransferContext& context)
    : context_(context),
      staging_(context.engine.pd(), context.settings.ring_slots(), context.settings.most_rings()) {}

Sends::~Sends() {
    for (const auto& transfer : table_) context_.release_memory(*transfer);
}

void Sends::put(Channel& channel, const Buffers& from, uint64_t to, const WireKey& key,
                uint32_t rkey, void* cookie) {
    Outgoing* transfer = table_.take();
    context_.begin(*transfer, channel, cookie);
    transfer->memory = from;
    begin_put(*transfer, to, key, rkey);
}

void Sends::put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                      uint64_t to, const WireKey& key) {
    Outgoing* transfer = table_.take();
    context_.begin(*transfer, channel, nullptr);
    const Buffers::Piece piece{.at = data.get(), .length = length};
    transfer->memory = Buffers({&piece, 1});
    transfer->owned = std::move(data);
    begin_put(*transfer, to, key, 0);
}

void Sends::begin_put(Outgoing& transfer, uint64_t to, const WireKey& key, uint32_t rkey) {
    context_.ask_for(transfer, to, key);
    ++context_.counters.puts;
    transfer.rkey = rkey;
    transfer.state = Outgoing::State::kOffering;
    if (transfer.channel->up())
        offer(transfer);
    else
        unconnected_.push_back(&transfer);
}

void Sends::offer(Outgoing& transfer) {
    if (transfer.alone()) {
        (void)start(transfer, {},
                    WirePart::of({.upto = transfer.length,
                                  .address = transfer.address,
                                  .rkey = transfer.rkey,
                                  .direct = true}));
        return;
    }
    offers_.push_back(&transfer);
    (void)make_offers();
}

// Keeps the order within each channel: if one offer has no room, the later ones have none either.
unsigned Sends::make_offers() {
    return static_cast<unsigned>(std::erase_if(offers_, [this](Outgoing* transfer) {
        const Deliver frame{.sender = transfer->number,
                            .address = transfer->address,
                            .length = transfer->length,
                            .key = transfer->key};
        if (!context_.send(*transfer->channel, TransferId::kDeliver, frame)) return false;
        transfer->state = Outgoing::State::kOffered;
        return true;
    }));
}

// A peer asks to get.
bool Sends::fetch(Channel& channel, const std::byte* data, uint32_t length) {
    Fetch frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    RegionUse* use = context_.open(frame.key, frame.address, frame.length, kRemoteGet);
    Outgoing* transfer = use != nullptr ? table_.take() : nullptr;
    if (transfer == nullptr) {
        if (use != nullptr) context_.regions.release(use);
        return context_.refuse(channel, Refuse::kFetch, frame.receiver);
    }
    context_.begin(*transfer, channel, nullptr);
    context_.serve(*transfer, use, frame.address, frame.length);
    transfer->receiver = frame.receiver;
    channel.fetches |= channel.readable;
    if (!early_copies_.empty()) take_early_copy(*transfer, frame);
    return start(*transfer, frame.ring, frame.part);
}

bool Sends::accepted(Channel& channel, const std::byte* data, uint32_t length) {
    Accept frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.ring.valid() || !frame.part.valid()) return false;
    Outgoing* transfer = offered(channel, frame.sender);
    if (transfer == nullptr) return false;
    transfer->receiver = frame.receiver;
    return start(*transfer, frame.ring, frame.part);
}

// Begins to write for a receiver that is ready. False: its frame is invalid.
bool Sends::start(Outgoing& transfer, const WireRing& ring, const WirePart& first) {
    transfer.to = ring;
    const uint32_t slots = std::min<uint32_t>(ring.slots, staging_.slots());
    transfer.core.emplace(
        transfer.length, ring.slots, staging_.slots(),
        context_.policy.limits(transfer.length, slots, context_.settings.chunks_per_ring));
    transfer.core->set_early_chunk(transfer.early);
    transfer.state = Outgoing::State::kWriting;
    running_.push_back(&transfer);
    ++context_.running;
    if (first.announced()) return prepare_source(transfer, first.upto);
    const Part part = first.part();
    if ((!part.direct && ring.slots == 0) || !transfer.core->add(part)) return false;
    step_now(transfer);
    return true;
}

bool Sends::part(Channel& channel, const std::byte* data, uint32_t length) {
    MorePart frame;
    if (!unpack(frame, data, length)) return false;
    if (!frame.part.valid() || frame.part.announced()) return false;
    Outgoing* transfer = of_receiver(channel, frame.receiver);
    if (transfer == nullptr) return true;  // it has been refused meanwhile
    if (!frame.part.part().direct && transfer->to.slots == 0) return false;
    if (!transfer->core->add(frame.part.part())) return false;
    step_now(*transfer);
    return true;
}

bool Sends::acknowledged(Channel& channel, const std::byte* data, uint32_t length) {
    Ack frame;
    if (!unpack(frame, data, std::min<uint32_t>(length, sizeof(frame)))) return false;
    if (!frame.valid(length)) return false;
    Outgoing* transfer = of_receiver(channel, frame.receiver);
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
    if (!transfer->asked_here) note_wait((frame.flags & Ack::kWaited) != 0);
    // The receiver knows of the end before this side has the completions of the writes.
    if (transfer->under_way() != 0)
        transfer->state = Outgoing::State::kEnded;
    else
        over(*transfer, transfer->status);
    // Last, because the user may begin transfers, or undeclare the memory.
    if (replies)
        context_.owner.replied(frame.reply, data + sizeof(frame),
                               length - static_cast<uint32_t>(sizeof(frame)));
    return true;
}

void Sends::note_wait(bool waited) {
    context_.counters.waits += waited;
    context_.owner.fetched(waited);
}

// Ends a transfer whose memory was undeclared. False: nothing is left to withdraw.
bool Sends::withdraw(Outgoing& transfer) {
    if (transfer.state == Outgoing::State::kWithdrawn || context_.cut(transfer)) return true;
    if (transfer.state == Outgoing::State::kEnded || transfer.core->all_posted()) return false;
    std::erase(waiting_, &transfer);
    transfer.state = Outgoing::State::kWriting;
    const Refuse frame{.what = Refuse::kRest, .number = transfer.receiver};
    if (context_.send(*transfer.channel, TransferId::kRefuse, frame)) {
        transfer.state = Outgoing::State::kWithdrawn;
        ++context_.counters.refused;
    }
    return true;
}

// By the receiver's number; null if there is none.
Outgoing* Sends::of_receiver(const Channel& channel, uint32_t receiver) const {
    for (Outgoing* transfer : running_)
        if (transfer->channel == &channel && transfer->receiver == receiver && !transfer->alone())
            return transfer;
    return nullptr;
}

// By this side's number, while the peer has not answered; null if there is none.
Outgoing* Sends::offered(const Channel& channel, uint32_t number) const {
    Outgoing* transfer = table_.find(channel, number);
    const bool is = transfer != nullptr && transfer->state == Outgoing::State::kOffered;
    return is ? transfer : nullptr;
}

bool Sends::refused(Channel& channel, const Refuse& frame) {
    Outgoing* transfer = offered(channel, frame.number);
    if (transfer == nullptr) return false;
    over(*transfer, Status::kRemoteAccess);
    return true;
}

void Sends::over(Outgoing& transfer, Status status) {
    context_.running -= static_cast<uint32_t>(std::erase(running_, &transfer));
    std::erase(unconnected_, &transfer);
    std::erase(offers_, &transfer);
    std::erase(waiting_, &transfer);
    if (transfer.staging.slots != 0) staging_.give_back(transfer.staging);
    const bool users = transfer.asked_here;
    void* cookie = transfer.cookie;
    Channel& channel = *transfer.channel;
    context_.end(transfer);
    table_.put_back(transfer);
    context_.tell_user(users, cookie, channel, status);
}

bool Sends::pending(const Channel& channel, uint64_t until) const {
    return table_.any_pending(channel, until, [](const Outgoing&) { return true; });
}

// The send queue keeps the order of writes to open memory that have all been posted.
bool Sends::may_be_overtaken(const Channel& channel, uint64_t until) const {
    return table_.any_pending(channel, until, [](const Outgoing& transfer) {
        return !transfer.alone() || !transfer.core || !transfer.core->all_posted();
    });
}

void Sends::request_reports() const {
    for (const auto& transfer : table_)
        if (transfer->channel != nullptr)
            context_.engine.flushing().request_report(*transfer->channel);
}

// By index: a user who is told may begin transfers on other channels, and the table grows.
void Sends::ended(Channel& channel, Status status) {
    while (const EarlyCopy* copy = early_copies_.of(&channel)) drop(*copy);
    for (size_t i = 0; i < table_.size(); ++i)
        if (table_[i].channel == &channel) over(table_[i], status);
}

}  // namespace tern
