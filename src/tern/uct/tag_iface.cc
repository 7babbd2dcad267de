// SPDX-License-Identifier: BSD-3-Clause

// Capabilities and callbacks of the tag interface; its receives.

#include <algorithm>

#include "tern/connection/little_endian.h"
#include "tern/uct/iface_progress.h"
#include "tern/uct/tag_direct.h"

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

void TagInterface::query(const Engine& engine, uct_iface_attr_t& attributes) const {
    attributes.cap.flags |= UCT_IFACE_FLAG_TAG_EAGER_SHORT | UCT_IFACE_FLAG_TAG_EAGER_BCOPY |
                            UCT_IFACE_FLAG_TAG_EAGER_ZCOPY | UCT_IFACE_FLAG_TAG_RNDV_ZCOPY;
    const size_t longest = engine.settings().segment_size - sizeof(ImmediateHeader);
    auto& tag = attributes.cap.tag;
    tag.eager.max_short = engine.max_short();
    tag.eager.max_bcopy = longest;
    tag.eager.max_zcopy = longest;
    tag.eager.max_iov = engine.max_pieces();
    // Announced messages may be as long as the messages of most devices, even if those of this
    // device are shorter: Tern reads in chunks. UCX announces longer ones by itself, and if it then
    // puts them (RNDV_SCHEME=put_zcopy, before protocols v2), it has deregistered the receive's
    // memory before they come.
    tag.rndv.max_zcopy = std::min(attributes.cap.get.max_zcopy, size_t{1} << 30);
    tag.rndv.max_hdr = longest + sizeof(ImmediateHeader) - sizeof(RequestHeader);
    tag.rndv.max_iov = 1;
    tag.recv.min_recv = 0;
    tag.recv.max_zcopy = attributes.cap.get.max_zcopy;
    tag.recv.max_iov = 1;
    tag.recv.max_outstanding = receives.most();
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
    return on_tuple(engine, channel, id, data, length);
}

// Refuses to bind a tuple: direct messages are turned off, or not possible.
bool TagInterface::on_tuple(Engine& engine, Channel& channel, uint32_t id, const std::byte* data,
                            uint32_t length) {
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
    const Status lost = status == Status::kOk ? Status::kConnectionReset : status;
    const bool received = receives.ended(channel, lost);
    const bool sent = sends.ended(channel, lost);
    return received || sent ? lost : status;
}

void TagInterface::offer(uct_iface_ops_t& table) const {
    offer_tags<TagIface>(table);
}

namespace {

template <class Iface>
ucs_status_t recv_zcopy(uct_iface_h uct_iface, uct_tag_t tag, uct_tag_t mask, const uct_iov_t* iov,
                        size_t count, uct_tag_context_t* context) try {
    auto& iface = static_cast<Iface&>(iface_of(uct_iface));
    const auto inside = iface.engine->enter();
    return iface.post(tag, mask, iov, count, context);
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_iface);
}

template <class Iface>
ucs_status_t recv_cancel(uct_iface_h uct_iface, uct_tag_context_t* context, int force) try {
    auto& iface = static_cast<Iface&>(iface_of(uct_iface));
    const auto inside = iface.engine->enter();
    return iface.cancel(context, force != 0);
} catch (const std::bad_alloc&) {
    return out_of_memory(uct_iface);
}

}  // namespace

template <class Iface>
void offer_tags(uct_iface_ops_t& table) {
    offer_tag_sends<Iface>(table);
    table.iface_tag_recv_zcopy = recv_zcopy<Iface>;
    table.iface_tag_recv_cancel = recv_cancel<Iface>;
    table.iface_progress = iface_progress<Iface>;
}
template void offer_tags<TagIface>(uct_iface_ops_t& table);
template void offer_tags<DirectIface>(uct_iface_ops_t& table);

}  // namespace tern
