// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/tag_direct.h"

#include "tern/uct/compat.h"
#include "tern/uct/iface_progress.h"

namespace tern {

namespace {

TagReceive* receive_of(ReceiveHandle handle) {
    return handle != 0 ? static_cast<TagReceive*>(&TupleTable::receive(handle)) : nullptr;
}

}  // namespace

// With its protocols v2, UCX before 1.18 announces long messages by active messages, and sends
// short messages of the same tag as tagged ones. Only these protocols query this combination of
// costs, and they do so before the first message. So the query shows that the user has enabled
// them.
bool sends_tags_two_ways(const uct_perf_attr_t& asked) {
    constexpr uint64_t kCosts = UCT_PERF_ATTR_FIELD_OPERATION | UCT_PERF_ATTR_FIELD_RECV_OVERHEAD |
                                UCT_PERF_ATTR_FIELD_LATENCY;
    return compat::kAnnouncesByActiveMessages && (asked.field_mask & kCosts) == kCosts;
}

void DirectTags::query(const Engine& engine, uct_iface_attr_t& attributes) const {
    TagInterface::query(engine, attributes);
    attributes.cap.tag.eager.max_bcopy -= sizeof(WireMark);
    attributes.cap.tag.eager.max_zcopy -= sizeof(WireMark);
    attributes.cap.tag.rndv.max_hdr -= sizeof(WireMark);
}

void DirectTags::offer(uct_iface_ops_t& table) const {
    offer_tags<DirectIface>(table);
}

MatchingCounters DirectTags::counts() const {
    return {.tags = counters,
            .placed = tupleq_->counters(),
            .tuples = tupleq_->matching(),
            .queues = tupleq_->queues_in_use(),
            .registered_bytes = tupleq_->registered_bytes()};
}

ucs_status_t DirectTags::post(uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov, size_t count,
                              uct_tag_context_t* context) {
    TagReceive* receive = nullptr;
    const ucs_status_t status = receives.enter(tag, mask, iov, count, context, receive);
    if (status == UCS_OK) [[likely]]
        tupleq_->receiver().posted(*receive);
    return status;
}

ucs_status_t DirectTags::cancel(uct_tag_context_t* context, bool force) {
    TagReceive& receive = receives.to_cancel(context, force);
    if (receive.posted) {
        const TupleQ::Cancel result = tupleq_->cancel(receive);
        if (result == TupleQ::Cancel::kDone) {
            ++counters.canceled;
        } else {
            // The device has the receive: either its cancellation or its message will follow.
            if (!force) return UCS_OK;
            if (result == TupleQ::Cancel::kNever || !tupleq_->cancel_now(receive))
                return UCS_ERR_BUSY;
        }
    } else if (!receive.canceled) {
        return force ? UCS_ERR_BUSY : UCS_OK;  // the message has arrived
    }
    receives.end_canceled(receive, force);
    return UCS_OK;
}

bool DirectTags::tagged(Channel& channel, uint32_t id, const std::byte* data, uint32_t length) {
    TupleMark mark{};
    const bool marked = (id & kMarkedTagFrame) != 0;
    if (marked) {
        if (length < sizeof(WireMark)) return false;
        const auto wire = header_of<WireMark>(data);
        if (wire.reserved != 0) return false;
        mark = {wire.tuple, wire.sequence};
        data += sizeof(wire);
        length -= static_cast<uint32_t>(sizeof(wire));
        id &= ~kMarkedTagFrame;
    }
    if (!TagReceives::is_frame(id, data, length)) return false;
    // Bytes of a message that can be direct; 0 for others.
    uint64_t bytes = 0;
    if (id == static_cast<uint32_t>(TagFrameId::kEager))
        bytes = length - sizeof(EagerHeader);
    else if (id == static_cast<uint32_t>(TagFrameId::kRequest))
        bytes = header_of<RequestHeader>(data).length;
    const auto arrival = tupleq_->receiver().ordinary(channel, header_of<EagerHeader>(data).tag,
                                                      marked ? &mark : nullptr, bytes);
    switch (arrival.verdict) {
        case TupleQ::Arrival::Verdict::kMatched:
            receives.handle(&channel, id, data, length, receive_of(arrival.receive));
            tupleq_->receiver().delivered();
            return true;
        case TupleQ::Arrival::Verdict::kHold:
            tupleq_->receiver().hold(channel, id, data, length);
            tupleq_->receiver().delivered();
            return true;
        case TupleQ::Arrival::Verdict::kBroken:
            break;
    }
    return false;
}

// Handles held messages in the order of arrival, until one has to be held further.
void DirectTags::retry(uint32_t peer) {
    while (const HeldFrames::Frame* const first = tupleq_->receiver().held().first(peer)) {
        const auto arrival =
            tupleq_->receiver().retry(peer, header_of<EagerHeader>(first->bytes.data()).tag);
        if (arrival.verdict != TupleQ::Arrival::Verdict::kMatched) return;
        const HeldFrames::Frame held = tupleq_->receiver().held().take(peer);
        receives.handle(held.channel, held.id, held.bytes.data(),
                        static_cast<uint32_t>(held.bytes.size()), receive_of(arrival.receive));
    }
}

}  // namespace tern
