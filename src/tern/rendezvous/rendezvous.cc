// SPDX-License-Identifier: BSD-3-Clause
#include "tern/rendezvous/rendezvous.h"
#include "tern/connection/little_endian.h"

#include <new>
#include <utility>

namespace tern {

Rendezvous::Rendezvous(Engine& engine, Regions& regions, PinCache& pins, const Costs& costs,
                       const RendezvousSettings& settings, RendezvousOwner& owner)
    : engine_(engine),
      pins_(pins),
      owner_(owner),
      settings_(settings),
      decider_(costs, settings.policy),
      budget_(decider_.model().costs()),
      memory_(regions, pins, decider_, budget_, counters_),
      accounts_(engine, memory_, counters_, owner),
      refusals_(engine, counters_, owner),
      incoming_(RendezvousPart(*this)),
      outgoing_(RendezvousPart(*this)) {}

RendezvousPart::RendezvousPart(Rendezvous& whole)
    : engine_(whole.engine_),
      memory_(whole.memory_),
      accounts_(whole.accounts_),
      refusals_(whole.refusals_),
      decider_(whole.decider_),
      settings_(whole.settings_),
      counters_(whole.counters_),
      budget_(whole.budget_),
      owner_(whole.owner_) {}

RingPool RendezvousPart::new_rings() const {
    return {engine_.pd(), settings_.ring_slots(), settings_.most_rings(),
            [&memory = memory_](uint64_t bytes) { return memory.make_room(bytes); }};
}

Status Rendezvous::get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
                       const WireKey& key, uint32_t rkey, Source source, const Waiter& waiter,
                       const Reply* reply) {
    if (!can_begin(channel)) return Status::kNoResource;
    Incoming& transfer = incoming_.take(channel, waiter);
    transfer.memory = Buffers(to);
    transfer.source = source;
    if (reply != nullptr) transfer.reply = *reply;
    incoming_.get(transfer, from, key, rkey);
    return Status::kInProgress;
}

// Whether a message whose key has an rkey is read.
bool Rendezvous::reads(std::span<const Buffers::Piece> to) const {
    if (to.size() != 1) return false;
    const DecisionInputs inputs{
        .length = to.front().length, .readable = true, .own = memory_.state_of(to.front())};
    return decider_.decide(inputs).scheme == Scheme::kRead;
}

Status Rendezvous::get_owned(Channel& channel, size_t length, uint64_t from, const WireKey& key,
                             uint32_t rkey, Unpack unpack, void* argument, const Waiter& waiter) {
    if (!can_begin(channel)) return Status::kNoResource;
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[length]);
    if (!memory) return Status::kDevice;
    Incoming& transfer = incoming_.take(channel, waiter);
    transfer.memory = Buffers(memory.get(), length);
    transfer.owned = {.memory = std::move(memory), .unpack = unpack, .argument = argument};
    incoming_.get(transfer, from, key, rkey);
    return Status::kInProgress;
}

Status Rendezvous::put(Channel& channel, std::span<const Buffers::Piece> from, uint64_t to,
                       const WireKey& key, uint32_t rkey, const Waiter& waiter) {
    if (!can_begin(channel)) return Status::kNoResource;
    Outgoing& transfer = outgoing_.take(channel, waiter);
    transfer.memory = Buffers(from);
    outgoing_.put(transfer, to, key, rkey);
    return Status::kInProgress;
}

Status Rendezvous::put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                             uint64_t to, const WireKey& key) {
    if (!can_begin(channel)) return Status::kNoResource;
    Outgoing& transfer = outgoing_.take(channel, {});
    transfer.memory = Buffers(data.get(), length);
    transfer.owned = std::move(data);
    outgoing_.put(transfer, to, key, 0);
    return Status::kOk;
}

unsigned Rendezvous::advance() {
    unsigned count = 0;
    if (!refusals_.empty()) [[unlikely]]
        count += refusals_.send();
    if (const uint64_t now = memory_.revocations(); now != revocations_) [[unlikely]] {
        revocations_ = now;
        incoming_.wake_revoked();
        outgoing_.wake_revoked();
    }
    // While the budget is too small for all, each of the three comes first in turn.
    turn_ = budget_.behind() && turn_ != 2 ? static_cast<uint8_t>(turn_ + 1) : 0;
    if (turn_ == 0) count += incoming_.begin_waiting();
    if (turn_ != 2) count += incoming_.advance();
    count += outgoing_.advance();
    if (turn_ != 0) count += incoming_.begin_waiting();
    if (turn_ == 2) count += incoming_.advance();
    if (!flushes_.empty()) [[unlikely]]
        count += progress_flushes();
    if (budget_.leaves_work()) ++count;
    if (accounts_.note_progress(count != 0)) [[unlikely]] {
        // No outstanding work request would report a peer's death.
        incoming_.request_reports();
        outgoing_.request_reports();
    }
    return count;
}

// idle_calls() is not 0 if every transfer has been given a step and none has moved. Apart from
// words in memory, transfers then wait only for completions and frames, which are events.
Status Rendezvous::arm(std::vector<Watched>& words) {
    if (quiet()) return Status::kOk;
    if (accounts_.idle_calls() == 0 || outgoing_.may_serve()) return Status::kInProgress;
    return incoming_.arm(words);
}

bool Rendezvous::may_be_overtaken(const Channel& channel, uint64_t until) const {
    return accounts_.users() != 0 && channel.transfers != 0 &&
           TransferAccounts::may_be_overtaken(channel, until);
}

// A flush on a failed channel ends with the channel, in ended(), and reports what was lost.
Status Rendezvous::flush(Channel& channel, const Waiter& waiter) {
    if (!channel.failed && !busy(channel)) return engine_.flushing()->flush(channel, waiter);
    if (waiter.cookie != nullptr) flushes_.add(channel, accounts_.begun(), waiter);
    return Status::kInProgress;
}

Status Rendezvous::flush_by_force(Channel& channel, const Waiter& waiter) {
    if (!channel.failed && channel.backlog.empty() &&
        !TransferAccounts::pending(channel, accounts_.begun(), waiter.user) &&
        !flushes_.any(channel, waiter.user))
        return engine_.flushing()->flush(channel, waiter);
    flushes_.add(channel, accounts_.begun(), waiter, true);
    (void)accounts_.note_progress(true);  // arm() comes behind a call of progress
    return Status::kInProgress;
}

unsigned Rendezvous::progress_flushes() {
    // What waits for the connection to come up is copied, but for atomics.
    const auto only_copies_wait = [](const Channel& channel) {
        return !channel.backlog.empty() &&
               !channel.backlog.any_cookie([](const void*) { return true; });
    };
    const unsigned dropped = flushes_.drop_by_force(
        [&](Channel& channel, const void* user) {
            if (only_copies_wait(channel)) engine_.flushing()->cancel(channel, user);
            return incoming_.drop(channel, user) + outgoing_.drop(channel, user);
        },
        owner_);
    return dropped +
           flushes_.progress(
               [&](Channel& channel, uint64_t until, const Waiter& waiter, bool by_force) {
                   if (channel.failed ||
                       TransferAccounts::pending(channel, until, by_force ? waiter.user : nullptr))
                       return Status::kNoResource;
                   return by_force && only_copies_wait(channel)
                              ? Status::kOk
                              : engine_.flushing()->flush(channel, waiter);
               },
               owner_);
}

void Rendezvous::done(void* cookie, Status status) {
    if (kind_of(cookie) == CookieKind::kRead)
        incoming_.have_read(owner_of<Incoming::Read>(cookie), status);
    else
        outgoing_.written(owner_of<Outgoing::Write>(cookie), status);
}

bool Rendezvous::control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    switch (static_cast<TransferId>(id)) {
        case TransferId::kFetch:
            return outgoing_.fetch(channel, data, length);
        case TransferId::kDeliver:
            return incoming_.deliver(channel, data, length);
        case TransferId::kAccept:
            return outgoing_.accepted(channel, data, length);
        case TransferId::kPart:
            return outgoing_.part(channel, data, length);
        case TransferId::kAck:
            return outgoing_.acknowledged(channel, data, length);
        case TransferId::kFinish:
            return incoming_.finish(channel, data, length);
        case TransferId::kRefuse:
            return refused(channel, data, length);
    }
    return false;
}

bool Rendezvous::refused(Channel& channel, const std::byte* data, uint32_t length) {
    Refuse frame;
    if (!unpack(frame, data, length)) return false;
    switch (frame.what) {
        case Refuse::kFetch:
        case Refuse::kRest:
            return incoming_.refused(channel, frame);
        case Refuse::kDeliver:
            return outgoing_.refused(channel, frame);
        default:
            return false;
    }
}

void Rendezvous::break_down() {
    incoming_.ended(nullptr, Status::kDevice);
    outgoing_.ended(nullptr, Status::kDevice);
}

Status Rendezvous::ended(Channel& channel, Status status) {
    const Status lost = status == Status::kOk ? Status::kConnectionReset : status;
    const uint32_t users = accounts_.users();
    refusals_.forget(channel);
    incoming_.ended(&channel, lost);
    outgoing_.ended(&channel, lost);
    if (accounts_.users() != users) status = lost;
    flushes_.ended(channel, status, owner_);
    return status;
}

}  // namespace tern
