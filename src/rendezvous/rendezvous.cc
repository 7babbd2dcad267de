// SPDX-License-Identifier: BSD-3-Clause
#include "rendezvous/rendezvous.h"
#include "connection/little_endian.h"

#include <cstring>
#include <new>
#include <utility>

namespace tern {

Rendezvous::Rendezvous(Engine& engine, Regions& regions, PinCache& pins, const Policy& policy,
                       const RendezvousSettings& settings, RendezvousOwner& owner)
    : context_(engine, regions, pins, policy, settings, owner) {}

Status Rendezvous::get(Channel& channel, std::span<const Buffers::Piece> to, uint64_t from,
                       const WireKey& key, uint32_t rkey, Source source, void* cookie,
                       const Reply* reply) {
    if (!can_begin(channel)) return Status::kNoResource;
    receives_.get(channel, Buffers(to), from, key, rkey, source, cookie, reply);
    return Status::kInProgress;
}

Status Rendezvous::get_owned(Channel& channel, size_t length, uint64_t from, const WireKey& key,
                             uint32_t rkey, Unpack unpack, void* argument, void* cookie) {
    if (!can_begin(channel)) return Status::kNoResource;
    std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[length]);
    if (!memory) return Status::kDevice;
    receives_.get_owned(channel, std::move(memory), length, from, key, rkey, unpack, argument,
                        cookie);
    return Status::kInProgress;
}

Status Rendezvous::put(Channel& channel, std::span<const Buffers::Piece> from, uint64_t to,
                       const WireKey& key, uint32_t rkey, void* cookie) {
    if (!can_begin(channel)) return Status::kNoResource;
    sends_.put(channel, Buffers(from), to, key, rkey, cookie);
    return Status::kInProgress;
}

Status Rendezvous::put_owned(Channel& channel, std::unique_ptr<std::byte[]> data, size_t length,
                             uint64_t to, const WireKey& key) {
    if (!can_begin(channel)) return Status::kNoResource;
    sends_.put_owned(channel, std::move(data), length, to, key);
    return Status::kOk;
}

unsigned Rendezvous::advance() {
    unsigned count = 0;
    if (context_.any_refusals()) [[unlikely]]
        count += context_.send_refusals();
    count += receives_.begin_waiting();
    receives_first_ ^= context_.budget.behind();
    if (receives_first_) count += receives_.advance();
    count += sends_.advance();
    if (!receives_first_) count += receives_.advance();
    if (!flushes_.empty()) [[unlikely]]
        count += progress_flushes();
    // Something may be left to do.
    if (context_.budget.over() || context_.budget.behind() || context_.budget.has_provided())
        ++count;
    context_.idle = count != 0 ? 0 : context_.idle + 1;
    if (context_.idle == kIdleCheck) {
        // A peer may be dead, and no outstanding work request would report it.
        context_.idle = 0;
        receives_.request_reports();
        sends_.request_reports();
    }
    return count;
}

// `idle` is not 0 if every transfer has had a turn and none has moved. Apart from words in memory,
// transfers then wait only for completions and frames, which are events.
Status Rendezvous::arm(std::vector<Watched>& words) {
    if (quiet()) return Status::kOk;
    return context_.idle == 0 ? Status::kInProgress : receives_.arm(words);
}

bool Rendezvous::may_be_overtaken(const Channel& channel, uint64_t until) const {
    if (context_.users == 0 || channel.transfers == 0) return false;
    return receives_.may_be_overtaken(channel, until) || sends_.may_be_overtaken(channel, until);
}

// A flush on a failed channel ends with the channel, in ended(), and reports what was lost.
Status Rendezvous::flush(Channel& channel, const Waiter& waiter) {
    if (!channel.failed && !busy(channel)) return context_.engine.flush(channel, waiter);
    if (waiter.cookie != nullptr) flushes_.add(channel, context_.begun, waiter);
    return Status::kInProgress;
}

unsigned Rendezvous::progress_flushes() {
    return flushes_.progress(
        [this](Channel& channel, uint64_t until, const Waiter& waiter) {
            return channel.failed || pending(channel, until)
                       ? Status::kNoResource
                       : context_.engine.flush(channel, waiter);
        },
        context_.owner);
}

void Rendezvous::done(void* cookie, Status status) {
    if (kind_of(cookie) == CookieKind::kRead)
        receives_.have_read(owner_of<Incoming::Read>(cookie), status);
    else
        sends_.written(owner_of<Outgoing::Write>(cookie), status);
}

bool Rendezvous::control(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    switch (static_cast<TransferId>(id)) {
        case TransferId::kFetch:
            return sends_.fetch(channel, data, length);
        case TransferId::kDeliver:
            return receives_.deliver(channel, data, length);
        case TransferId::kAccept:
            return sends_.accepted(channel, data, length);
        case TransferId::kPart:
            return sends_.part(channel, data, length);
        case TransferId::kAck:
            return sends_.acknowledged(channel, data, length);
        case TransferId::kFinish:
            return receives_.finish(channel, data, length);
        case TransferId::kRefuse:
            return refused(channel, data, length);
    }
    return false;
}

bool Rendezvous::notified(Channel& channel, uint32_t immediate) {
    return receives_.notified(channel, immediate);
}

bool Rendezvous::refused(Channel& channel, const std::byte* data, uint32_t length) {
    Refuse frame;
    if (!unpack(frame, data, length)) return false;
    switch (frame.what) {
        case Refuse::kFetch:
        case Refuse::kRest:
            return receives_.refused(channel, frame);
        case Refuse::kDeliver:
            return sends_.refused(channel, frame);
        default:
            return false;
    }
}

Status Rendezvous::ended(Channel& channel, Status status) {
    const Status lost = status == Status::kOk ? Status::kConnectionReset : status;
    const uint32_t users = context_.users;
    context_.forget_refusals(channel);
    receives_.ended(channel, lost);
    sends_.ended(channel, lost);
    if (context_.users != users) status = lost;
    flushes_.ended(channel, status, context_.owner);
    return status;
}

}  // namespace tern
