// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/tag_receives.h"

#include "common/assert.h"
#include "tern/base/trace.h"
#include "tern/uct/device_memory.h"
#include "tern/uct/memory.h"

namespace tern {

namespace {

TagReceive*& receive_of(uct_tag_context_t* context) {
    static_assert(sizeof(void*) <= sizeof(context->priv));
    return *reinterpret_cast<TagReceive**>(context->priv);
}

}  // namespace

TagReceives::TagReceives(Engine& engine, Rendezvous& rendezvous, uint32_t most,
                         const TagCallbacks& callbacks, TagCounters& counters)
    : engine_(engine),
      rendezvous_(rendezvous),
      callbacks_(callbacks),
      counters_(counters),
      posted_(most),
      receives_(most),
      buffers_(most) {}

ucs_status_t TagReceives::enter(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                                uct_tag_context_t* context, TagReceive*& receive) {
    UCT_CHECK_IOV_SIZE(count, 1ul, "iface_tag_recv_zcopy");
    // Short messages are copied to their receives, so UCP matches those in memory of a device: this
    // is the status for a full list.
    const bool of_device = count != 0 && is_of_device(*iov);
    receive = of_device ? nullptr : receives_.take();
    if (receive == nullptr) [[unlikely]] {
        ++counters_.refused;
        return UCS_ERR_EXCEEDS_LIMIT;
    }
    receive->owner = this;
    receive->context = context;
    receive->buffer = count != 0 ? static_cast<std::byte*>(iov->buffer) : nullptr;
    receive->room = count != 0 ? uct_iov_get_length(iov) : 0;
    receive->at = receive->room != 0 ? receive->buffer : nullptr;
    receive->wanted = tag;
    if (!buffers_.add(*receive)) [[unlikely]] {
        receives_.give(receive);
        return UCS_ERR_ALREADY_EXISTS;
    }
    receive->declared = count != 0 && iov->memh != nullptr
                            ? static_cast<MemoryHandle*>(iov->memh)->region
                            : nullptr;
    receive->region = receive->declared != nullptr ? receive->declared->key() : RegionKey{};
    receive->canceled = receive->leaving = false;
    receive_of(context) = receive;
    posted_.post(*receive, tag, mask);
    ++counters_.posted;
    counters_.wildcards += !posted_.is_keyed(*receive);
    return UCS_OK;
}

ucs_status_t TagReceives::post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                               uct_tag_context_t* context) {
    TagReceive* receive = nullptr;
    const ucs_status_t status = enter(tag, mask, iov, count, context, receive);
    if (status == UCS_OK && posted_.wants_other_key()) [[unlikely]]
        posted_.change_key();
    return status;
}

TagReceive& TagReceives::to_cancel(uct_tag_context_t* context, bool force) {
    TagReceive& receive = *receive_of(context);
    TERN_ASSERT(receive.owner == this && receive.context == context);
    TERN_TRACE("tag receive %p is to be canceled%s", static_cast<void*>(receive.buffer),
               force ? " now" : "");
    receive.leaving |= receive.posted;
    return receive;
}

ucs_status_t TagReceives::cancel(uct_tag_context_t* context, bool force) {
    TagReceive& receive = to_cancel(context, force);
    if (receive.posted)
        posted_.remove(receive), ++counters_.canceled;
    else if (!receive.canceled)
        return force ? UCS_ERR_BUSY : UCS_OK;  // the message has arrived
    end_canceled(receive, force);
    return UCS_OK;
}

void TagReceives::end_canceled(TagReceive& receive, bool force) {
    if (force) {
        std::erase(canceled_, &receive);
        give(&receive);
    } else if (!receive.canceled) {
        receive.canceled = true;
        canceled_.push_back(&receive);
    }
    count_work();
}

// From now on the user must not match the receive with another message. A receive that is being
// canceled is no longer matched in any case.
void TagReceives::taken(TupleReceive& direct_receive) {
    const auto& receive = static_cast<TagReceive&>(direct_receive);
    if (!receive.leaving) receive.context->tag_consumed_cb(receive.context);
}

void TagReceives::received(TupleReceive& direct_receive, uint64_t tag, uint32_t length,
                           Status status) {
    auto& receive = static_cast<TagReceive&>(direct_receive);
    uct_tag_context_t* context = receive.context;
    give(&receive);
    context->completed_cb(context, tag, 0, length, nullptr, to_ucs(status));
}

void TagReceives::canceled(TupleReceive& direct_receive) {
    auto& receive = static_cast<TagReceive&>(direct_receive);
    ++counters_.canceled;
    end_canceled(receive, false);
}

// Begins to fetch the message. False: there is no room now.
bool TagReceives::begin(TagReceive& receive) {
    // The sender is ending the connection, and will not send the message.
    if (receive.channel->carries() && !receive.channel->up()) {
        over(receive, to_ucs(Status::kConnectionReset));
        return true;
    }
    PackedKey packed;
    static_assert(sizeof(packed) == sizeof(receive.request.key));
    memcpy(&packed, receive.request.key, sizeof(packed));
    const RemoteKey key(packed);
    const Buffers::Piece piece{receive.buffer, static_cast<size_t>(receive.request.length)};
    receive.completion.func = on_fetched;
    receive.completion.count = 1;
    receive.completion.status = UCS_OK;
    return rendezvous_.get(*receive.channel, {&piece, 1}, receive.request.address, key.region,
                           key.to_read(rendezvous_, {&piece, 1}), key.source,
                           {&receive.completion}) == Status::kInProgress;
}

void TagReceives::on_fetched(uct_completion_t* completion) {
    TagReceive& receive = *ucs_container_of(completion, TagReceive, completion);
    receive.owner->over(receive, completion->status);
}

// The message of a request has been received, or never will be. The answer to the sender of a
// message too long for its receive is the same as for one that was received.
void TagReceives::over(TagReceive& receive, ucs_status_t status) {
    TERN_ASSERT(receive.owner == this && receive.channel != nullptr && !receive.posted);
    TERN_TRACE("tag receive %p of %llu bytes is over: %s", static_cast<void*>(receive.buffer),
               static_cast<unsigned long long>(receive.request.length), ucs_status_string(status));
    const RequestHeader request = receive.request;
    uct_tag_context_t* context = receive.context;
    Channel& channel = *receive.channel;
    give(&receive);
    finish(channel, request.operation, status == UCS_OK || status == UCS_ERR_MESSAGE_TRUNCATED);
    context->completed_cb(context, request.tag, 0, static_cast<size_t>(request.length), nullptr,
                          status);
}

void TagReceives::finish(Channel& channel, uint64_t operation, bool taken) {
    const Outcome outcome{
        &channel,
        {.operation = operation, .result = taken ? TagFinish::kTaken : TagFinish::kFailed}};
    if (unsent_.empty() && send(outcome)) return;
    unsent_.push_back(outcome);
    count_work();
}

// False: there is no room now. The channel stays in use until the frame is sent.
bool TagReceives::send(const Outcome& outcome) {
    Channel& channel = *outcome.channel;
    if (!channel.failed &&
        (!channel.carries() ||
         !engine_.send_control(channel, static_cast<ControlId>(TagControlId::kFinish),
                               &outcome.frame, sizeof(outcome.frame))))
        return false;
    engine_.transfer_over(channel);
    return true;
}

// Calls `over(entry)` for each entry that the list has now, one at a time: callbacks may change the
// list. Those for which it returns false go to the end, and stay. Returns the number of the others.
template <class Entry, class Over>
static unsigned take_each(std::deque<Entry>& list, Over&& over) {
    unsigned count = 0;
    for (size_t left = list.size(); left != 0 && !list.empty(); --left) {
        const Entry entry = list.front();
        list.pop_front();
        if (over(entry))
            ++count;
        else
            list.push_back(entry);
    }
    return count;
}

unsigned TagReceives::progress() {
    unsigned count = take_each(canceled_, [&](TagReceive* receive) {
        uct_tag_context_t* context = receive->context;
        const uint64_t tag = receive->tag;
        const size_t room = receive->room;
        give(receive);
        context->completed_cb(context, tag, 0, room, nullptr, UCS_ERR_CANCELED);
        return true;
    });
    // Those behind an entry without room may be of channels that have room.
    count += take_each(waiting_, [&](TagReceive* receive) { return begin(*receive); });
    count += take_each(unsent_, [&](const Outcome& outcome) { return send(outcome); });
    count_work();
    return count;
}

bool TagReceives::ended(Channel& channel, Status status) {
    const unsigned ended = take_each(waiting_, [&](TagReceive* receive) {
        if (receive->channel != &channel) return false;
        over(*receive, to_ucs(status));
        return true;
    });
    std::erase_if(unsent_, [&](const Outcome& outcome) {
        if (outcome.channel != &channel) return false;
        engine_.transfer_over(channel);
        return true;
    });
    count_work();
    return ended != 0;
}

}  // namespace tern
