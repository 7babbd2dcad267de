// SPDX-License-Identifier: BSD-3-Clause

// What both halves of transfers share: their life, refusals and flushes.

#include "rendezvous/mover.h"

#include <algorithm>
#include <random>

namespace tern {

namespace {

uint32_t slots_of(uint32_t ring) {
    return std::clamp(ring / SubBlocks::kSlot, 1u, WireRing::kMostSlots);
}

}  // namespace

Mover::Mover(Engine& engine, Regions& regions, PinCache& pins, const Policy& policy,
             const MoverSettings& settings, MoverOwner& owner)
    : engine_(engine),
      regions_(regions),
      pins_(pins),
      policy_(policy),
      settings_(settings),
      owner_(owner),
      rings_(engine.pd(), slots_of(settings.window), std::max(1u, settings.windows)),
      staging_(engine.pd(), slots_of(settings.window), std::max(1u, settings.windows)),
      generation_(std::random_device()()) {}

Mover::~Mover() {
    for (const auto& transfer : incoming_) release_memory(*transfer);
    for (const auto& transfer : outgoing_) release_memory(*transfer);
}

unsigned Mover::advance() {
    unsigned count = 0;
    if (!refusals_.empty()) [[unlikely]]
        count += send_refusals();
    if (!early_gets_.empty() || !early_puts_.empty()) [[unlikely]]
        count += begin_connected();
    while (!waiting_.empty() && start(*waiting_.front(), true)) {
        waiting_.pop_front();
        waits_ = 0;
        ++count;
    }
    if (!waiting_.empty() && ++waits_ >= kPatience) count += do_without_rings();
    if (!waiting_to_send_.empty()) count += lend_to_waiting();
    while (!failures_.empty()) {
        Incoming* transfer = failures_.back();
        failures_.pop_back();
        over(*transfer, Status::kDevice);
        ++count;
    }
    count += make_offers();
    // What completes calls the user, who may begin further ones: lists grow at their ends.
    for (size_t i = 0; i < sending_.size(); ++i) count += step(*sending_[i]);
    for (size_t i = 0; i < receiving_.size();) {
        Incoming& transfer = *receiving_[i];
        count += step(transfer);
        // Else another one is in its place.
        if (i < receiving_.size() && receiving_[i] == &transfer) ++i;
    }
    if (!flushes_.empty()) [[unlikely]]
        count += progress_flushes();
    idle_ = count != 0 ? 0 : idle_ + 1;
    if (idle_ == kIdleCheck) look_at_peers();
    return count;
}

// Nothing moves: perhaps because a peer is no more, which nothing under way would tell of.
void Mover::look_at_peers() {
    idle_ = 0;
    for (const auto& transfer : incoming_)
        if (transfer->channel != nullptr) engine_.request_report(*transfer->channel);
    for (const auto& transfer : outgoing_)
        if (transfer->channel != nullptr) engine_.request_report(*transfer->channel);
}

// What has begun has had a turn, and nothing has come of it. All else that there is to wait for are
// completions of this side's, and frames.
Status Mover::arm(std::vector<Watched>& words) {
    if (quiet()) return Status::kOk;
    if (idle_ == 0 || !failures_.empty()) return Status::kInProgress;
    for (Incoming* transfer : receiving_) {
        if (!transfer->core || transfer->channel->failed) continue;
        Receiver& core = *transfer->core;
        // Before the look: the value that is seen is not what is waited for.
        Watched flag;
        if (core.polls_memory()) {
            flag.at = core.flag(transfer->ring.data);
            flag.was = __atomic_load_n(flag.at, __ATOMIC_RELAXED);
        }
        Receiver::Block block;
        if (core.next(transfer->ring.data, block)) return Status::kInProgress;
        // The sender may have no room left, and nobody looks again.
        if (core.ack_owed()) {
            if (!core.notified()) core.waited();
            (void)acknowledge(*transfer);
        }
        if (flag.at != nullptr) words.push_back(flag);
    }
    return Status::kOk;
}

// The rings are with peers that do nothing, perhaps for minutes. What can be pinned goes in
// place.
unsigned Mover::do_without_rings() {
    waits_ = 0;
    return static_cast<unsigned>(std::erase_if(waiting_, [this](Incoming* transfer) {
        if (!transfer->memory.contiguous() || transfer->owned) return false;
        if (transfer->rkey == 0)
            transfer->plan = {.scheme = Scheme::kZeroCopy};
        else if (transfer->pin == nullptr)
            transfer->pin = pins_.pin(transfer->memory.data(),
                                      static_cast<size_t>(transfer->length), kLocalWrite);
        return start(*transfer, false);
    }));
}

void Mover::begin(Transfer& transfer, Channel& channel, void* cookie) {
    transfer.channel = &channel;
    transfer.cookie = cookie;
    transfer.sequence = ++sequence_;
    idle_ = 0;
    engine_.transfer_begins(channel);
}

// This side's user asks for something of the peer's memory.
void Mover::ask_for(Transfer& transfer, uint64_t address, const WireKey& key) {
    transfer.length = transfer.memory.length();
    transfer.address = address;
    transfer.key = key;
    transfer.users = true;
    ++users_;
}

// What has waited for its connection begins.
unsigned Mover::begin_connected() {
    unsigned count = 0;
    const auto take_connected = [&](auto& transfers, auto&& begin) {
        for (size_t i = 0; i < transfers.size();) {
            auto& transfer = *transfers[i];
            if (!transfer.channel->up()) {
                ++i;
                continue;
            }
            transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
            begin(transfer);
            ++count;
        }
    };
    take_connected(early_gets_, [this](Incoming& transfer) { receive(transfer); });
    take_connected(early_puts_, [this](Outgoing& transfer) { offer(transfer); });
    return count;
}

// The peer asks for something of this memory, which has been checked.
void Mover::serve(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length) {
    const Buffers::Piece piece{.at = reinterpret_cast<std::byte*>(address),
                               .length = static_cast<size_t>(length)};
    transfer.memory = Buffers({&piece, 1});
    transfer.length = length;
    transfer.use = use;
    ++counters_.served;
}

// From now on the device touches the memory. False: it is declared no more.
bool Mover::lend(Transfer& transfer, bool writes) {
    if (transfer.use == nullptr) return true;
    const Touch memory(transfer);
    if (memory) transfer.use->lend(transfer.channel->qp.get(), writes);
    return static_cast<bool>(memory);
}

// Whether the memory was undeclared while the device had it: the queue pair is in error since.
bool Mover::cut(Transfer& transfer) {
    if (!transfer.use->cut()) return false;
    ++counters_.refused;
    engine_.fail(*transfer.channel, Status::kConnectionReset,
                 "memory was deregistered while the peer accessed it");
    return true;
}

// What is known of contiguous memory; counts its use. If it is pinned for this, the transfer holds
// that.
BufferState Mover::look_up(Transfer& transfer, unsigned access) {
    std::byte* const at = transfer.memory.data();
    const auto length = static_cast<size_t>(transfer.length);
    BufferState state;
    state.returned = pins_.note(at, length);
    // What is seen for the first time is not pinned; to ask costs more than it may bring.
    if (state.returned > 1) transfer.pin = pins_.find(at, length, access);
    state.pinned = transfer.pin != nullptr;
    state.can_pin = fits(length);
    return state;
}

// Nothing is pinned that would push out what comes back as well.
bool Mover::fits(uint64_t length) const {
    return length <= pins_.most_bytes() / 4;
}

void Mover::release_memory(Transfer& transfer) {
    if (transfer.use != nullptr) regions_.release(transfer.use);
    if (transfer.pin != nullptr) pins_.release(transfer.pin);
    if (transfer.ahead != nullptr) pins_.release(transfer.ahead);
    for (Pin* pin : transfer.pins) pins_.release(pin);
}

// The transfer is over; its place is free already.
void Mover::end(Transfer& transfer) {
    release_memory(transfer);
    engine_.transfer_over(*transfer.channel);
    if (transfer.users) --users_;
}

// An operation has ended. Where nobody waits for it the endpoint fails with it, as with any write
// that the peer's memory does not take.
void Mover::tell(bool users, void* cookie, Channel& channel, Status status) {
    if (!users) return;
    if (status != Status::kOk) {
        ++channel.failures;
        channel.failure = status;
    }
    if (cookie != nullptr)
        owner_.completed(cookie, status);
    else if (status != Status::kOk)
        engine_.fail(channel, status, "an operation without completion is refused");
}

void Mover::tell_of_limit() {
    if (told_rings_) return;
    told_rings_ = true;
    owner_.warn(
        "no memory for large messages can be registered: they fail; raise the limit of locked "
        "memory (ulimit -l)");
}

// False: nobody asks for so much at a time who keeps to the protocol.
bool Mover::refuse(Channel& channel, uint32_t what, uint32_t number) {
    ++counters_.refused;
    if (!told_refusal_) {
        told_refusal_ = true;
        owner_.warn(channel.peer.to_string() +
                    " asks for memory that it has no key for, or not for that; refused. Its "
                    "program uses a remote key after the memory was deregistered, or beyond its "
                    "end");
    }
    std::deque<Refuse>& frames = refusals_[&channel];
    frames.push_back({.what = what, .number = number});
    const bool proper = frames.size() <= kMostRefusals;
    (void)send_refusals();
    return proper;
}

bool Mover::refused(Channel& channel, const std::byte* data, uint32_t length) {
    Refuse frame;
    if (length != sizeof(frame)) return false;
    memcpy(&frame, data, sizeof(frame));
    if (frame.what == Refuse::kFetch || frame.what == Refuse::kRest) {
        Incoming* transfer = incoming(channel, frame.number);
        if (transfer == nullptr) return false;
        if (frame.what == Refuse::kFetch) {
            over(*transfer, Status::kRemoteAccess);
            return true;
        }
        // All that was sent before has come: its memory may be somebody else's.
        transfer->failed = true;
        return transfer->users && transfer->state == Incoming::State::kRunning;
    }
    if (frame.what != Refuse::kDeliver) return false;
    Outgoing* transfer = offered(channel, frame.number);
    if (transfer == nullptr) return false;
    over(*transfer, Status::kRemoteAccess);
    return true;
}

unsigned Mover::send_refusals() {
    unsigned count = 0;
    for (auto of_channel = refusals_.begin(); of_channel != refusals_.end();) {
        auto& [channel, frames] = *of_channel;
        for (; !frames.empty() && send(*channel, TransferId::kRefuse, frames.front()); ++count)
            frames.pop_front();
        of_channel = frames.empty() ? refusals_.erase(of_channel) : std::next(of_channel);
    }
    return count;
}

// An operation of the user's on this channel, begun no later than `until`, is not over.
bool Mover::pending(const Channel& channel, uint64_t until) const {
    const auto is_pending = [&](const auto& transfer) {
        return transfer->users && transfer->channel == &channel && transfer->sequence <= until;
    };
    return std::any_of(incoming_.begin(), incoming_.end(), is_pending) ||
           std::any_of(outgoing_.begin(), outgoing_.end(), is_pending);
}

bool Mover::may_be_overtaken(const Channel& channel, uint64_t until) const {
    if (users_ == 0 || channel.transfers == 0) return false;
    const auto is_pending = [&](const auto& transfer) {
        return transfer->users && transfer->channel == &channel && transfer->sequence <= until;
    };
    // What is in the send queue, and takes no other way, is ordered by that.
    const auto get_overtaken = [&](const auto& transfer) {
        return is_pending(transfer) && !(transfer->state == Incoming::State::kReading &&
                                         transfer->asked == transfer->length);
    };
    const auto put_overtaken = [&](const auto& transfer) {
        return is_pending(transfer) && !(transfer->alone && transfer->core->all_posted());
    };
    return std::any_of(incoming_.begin(), incoming_.end(), get_overtaken) ||
           std::any_of(outgoing_.begin(), outgoing_.end(), put_overtaken);
}

// One on a channel that has failed is told when that is over, and what was lost with it.
Status Mover::flush(Channel& channel, const Waiter& waiter) {
    if (!channel.failed && (users_ == 0 || !pending(channel, sequence_)))
        return engine_.flush(channel, waiter);
    if (waiter.cookie != nullptr) flushes_.add(channel, sequence_, waiter);
    return Status::kInProgress;
}

unsigned Mover::progress_flushes() {
    return flushes_.progress(
        [this](Channel& channel, uint64_t until, const Waiter& waiter) {
            return channel.failed || pending(channel, until) ? Status::kNoResource
                                                             : engine_.flush(channel, waiter);
        },
        owner_);
}

RegionUse* Mover::open(const WireKey& key, uint64_t address, uint64_t length, unsigned access) {
    RegionUse* use = regions_.find({key.index, key.generation});
    if (use == nullptr) return nullptr;
    if (length != 0 && covers(use->region(), address, length, access)) return use;
    regions_.release(use);
    return nullptr;
}

void Mover::done(void* cookie, Status status) {
    if (kind_of(cookie) == CookieKind::kRead)
        have_read(owner_of<Incoming::Read>(cookie), status);
    else
        written(owner_of<Outgoing::Write>(cookie), status);
}

bool Mover::control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    switch (static_cast<TransferId>(id)) {
        case TransferId::kFetch:
            return fetch(channel, data, length);
        case TransferId::kDeliver:
            return delivery(channel, data, length);
        case TransferId::kAccept:
            return accepted(channel, data, length);
        case TransferId::kPart:
            return part(channel, data, length);
        case TransferId::kAck:
            return ack(channel, data, length);
        case TransferId::kFinish:
            return finish(channel, data, length);
        case TransferId::kRefuse:
            return refused(channel, data, length);
    }
    return false;
}

Status Mover::ended(Channel& channel, Status status) {
    const Status lost = status == Status::kOk ? Status::kConnectionReset : status;
    const uint32_t users = users_;
    refusals_.erase(&channel);
    while (const EarlyCopy* copy = early_copies_.of(&channel)) drop(*copy);
    // By index: who is told may begin others, on other channels.
    for (size_t i = 0; i < incoming_.size(); ++i) {
        Incoming& transfer = *incoming_[i];
        if (transfer.channel == &channel) over(transfer, lost);
    }
    for (size_t i = 0; i < outgoing_.size(); ++i) {
        Outgoing& transfer = *outgoing_[i];
        if (transfer.channel == &channel) over(transfer, lost);
    }
    const bool any = users_ != users;
    if (any) status = lost;
    flushes_.ended(channel, status, owner_);
    return status;
}

}  // namespace tern
