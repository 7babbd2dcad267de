// SPDX-License-Identifier: BSD-3-Clause

// Capabilities and callbacks of the tag interface; its receives.

#include <algorithm>

#include "tern/connection/little_endian.h"
#include "tern/uct/compat.h"
#include "tern/uct/tag.h"

namespace tern {

namespace {

ucs_status_t drop_eager(void*, void*, size_t, unsigned, uct_tag_t, uint64_t, void**) {
    return UCS_OK;
}

ucs_status_t drop_rndv(void*, unsigned, uint64_t, const void*, unsigned, uint64_t, size_t,
                       const void*) {
    return UCS_OK;
}

}  // namespace

bool wants_tags(const uct_iface_params_t& params) {
    return (params.field_mask & UCT_IFACE_PARAM_FIELD_FEATURES) == 0 ||
           (params.features & UCT_IFACE_FEATURE_TAG) != 0;
}

TagCallbacks tag_callbacks(const uct_iface_params_t& params) {
    TagCallbacks callbacks{drop_eager, nullptr, drop_rndv, nullptr, 0};
    const auto has = [&](uint64_t field) { return (params.field_mask & field) != 0; };
    if (has(UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_CB)) callbacks.eager = params.eager_cb;
    if (has(UCT_IFACE_PARAM_FIELD_HW_TM_EAGER_ARG)) callbacks.eager_argument = params.eager_arg;
    if (has(UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_CB)) callbacks.rndv = params.rndv_cb;
    if (has(UCT_IFACE_PARAM_FIELD_HW_TM_RNDV_ARG)) callbacks.rndv_argument = params.rndv_arg;
    if (has(UCT_IFACE_PARAM_FIELD_RX_HEADROOM)) callbacks.headroom = params.rx_headroom;
    return callbacks;
}

// With its protocols v2, UCX before 1.18 announces long messages by active messages, and sends
// short messages of the same tag as tagged ones. Only these protocols query this combination of
// costs, and they do so before the first message. So the query shows that the user has enabled
// them.
bool sends_tags_two_ways(const uct_perf_attr_t& asked) {
    constexpr uint64_t kCosts = UCT_PERF_ATTR_FIELD_OPERATION | UCT_PERF_ATTR_FIELD_RECV_OVERHEAD |
                                UCT_PERF_ATTR_FIELD_LATENCY;
    return compat::kAnnouncesByActiveMessages && (asked.field_mask & kCosts) == kCosts;
}

void query_tags(const TernIface& iface, uct_iface_attr_t& attributes) {
    const Engine& engine = *iface.engine;
    attributes.cap.flags |= UCT_IFACE_FLAG_TAG_EAGER_SHORT | UCT_IFACE_FLAG_TAG_EAGER_BCOPY |
                            UCT_IFACE_FLAG_TAG_EAGER_ZCOPY | UCT_IFACE_FLAG_TAG_RNDV_ZCOPY;
    size_t longest = engine.settings().segment_size - sizeof(ImmediateHeader);
    if (iface.tupleq != nullptr) longest -= sizeof(WireMark);
    auto& tag = attributes.cap.tag;
    tag.eager.max_short = engine.max_short();
    tag.eager.max_bcopy = longest;
    tag.eager.max_zcopy = longest;
    tag.eager.max_iov = engine.max_pieces();
    // As long as most devices' messages, whatever this one's are: Tern reads in chunks. UCX
    // announces longer ones by itself, and if it then puts them (RNDV_SCHEME=put_zcopy, before
    // protocols v2), it has deregistered the receive's memory before they come.
    tag.rndv.max_zcopy = std::min(attributes.cap.get.max_zcopy, size_t{1} << 30);
    tag.rndv.max_hdr = longest + sizeof(ImmediateHeader) - sizeof(RequestHeader);
    tag.rndv.max_iov = 1;
    tag.recv.min_recv = 0;
    tag.recv.max_zcopy = attributes.cap.get.max_zcopy;
    tag.recv.max_iov = 1;
    tag.recv.max_outstanding = iface.tags->receives.most();
}

bool TagInterface::control(Engine& engine, Channel& channel, uint32_t id, const std::byte* data,
                           uint32_t length) {
    if (id == static_cast<uint32_t>(TagControlId::kFinish))
        return sends.finished(channel, data, length);
    if (id == static_cast<uint32_t>(TagControlId::kPause)) {
        TagPause frame;
        if (!unpack(frame, data, length) || !frame.valid()) return false;
        pause(channel, frame.pause != 0);
        return true;
    }
    if (tupleq) return tupleq->control(channel, id, data, length);
    // Refuses to bind a tuple: direct messages are turned off, or not possible.
    WireBind bind;
    if (id != static_cast<uint32_t>(TupleControlId::kBind) || !unpack(bind, data, length))
        return false;
    const WireBound answer{.tuple = bind.tuple};
    if (channel.up())
        (void)engine.send_control(channel, static_cast<ControlId>(TupleControlId::kBound), &answer,
                                  sizeof(answer));
    return true;
}

Status TagInterface::ended(Channel& channel, Status status) {
    if (tupleq) status = tupleq->ended(channel, status);
    const Status lost = status == Status::kOk ? Status::kConnectionReset : status;
    const bool received = receives.ended(channel, lost);
    const bool sent = sends.ended(channel, lost);
    return received || sent ? lost : status;
}

ucs_status_t iface_tag_recv_zcopy(uct_iface_h iface, uct_tag_t tag, uct_tag_t mask,
                                  const uct_iov_t* iov, size_t count,
                                  uct_tag_context_t* context) try {
    const auto inside = iface_of(iface).engine->enter();
    return iface_of(iface).tags->receives.post(tag, mask, iov, count, context);
} catch (const std::bad_alloc&) {
    return out_of_memory(iface);
}

ucs_status_t iface_tag_recv_cancel(uct_iface_h iface, uct_tag_context_t* context, int force) try {
    const auto inside = iface_of(iface).engine->enter();
    return iface_of(iface).tags->receives.cancel(context, force != 0);
} catch (const std::bad_alloc&) {
    return out_of_memory(iface);
}

}  // namespace tern
