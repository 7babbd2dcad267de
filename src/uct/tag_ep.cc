// SPDX-License-Identifier: BSD-3-Clause

// Sending tagged messages. Data path.

#include "uct/md.h"
#include "uct/send.h"
#include "uct/tag.h"

namespace tern {

namespace {

constexpr uint32_t type_of(TagFrameId id) {
    return tag_message(static_cast<uint32_t>(id));
}

// Sends `header` and what `fill(void* to)` puts behind it, which it returns the length of.
template <class Header, class Fill>
ssize_t copied(uct_ep_h ep, TagFrameId id, const Header& header, Fill&& fill) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    uint32_t length = 0;
    const Status sent = iface_of(ep).engine->am_bcopy(
        *channel, type_of(id),
        [&](void* to) {
            memcpy(to, &header, sizeof(header));
            return static_cast<uint32_t>(sizeof(header) +
                                         fill(static_cast<std::byte*>(to) + sizeof(header)));
        },
        length);
    return sent == Status::kOk ? static_cast<ssize_t>(length - sizeof(header))
                               : static_cast<ssize_t>(to_ucs(sent));
}

template <class Header>
ucs_status_t gathered(uct_ep_h ep, TagFrameId id, const Header& header, const uct_iov_t* iov,
                      size_t count, uct_completion_t* completion) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return send_zcopy(*iface_of(ep).engine, *channel, type_of(id),
                      {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, iov, count,
                      completion);
}

// What the user adds to a request.
auto users_header(const void* header, unsigned length) {
    return [=](std::byte* to) {
        if (length != 0) memcpy(to, header, length);
        return size_t{length};
    };
}

size_t longest(uct_ep_h ep, size_t header) {
    return iface_of(ep).engine->settings().segment_size - header;
}

}  // namespace

ucs_status_t ep_tag_eager_short(uct_ep_h ep, uct_tag_t tag, const void* data, size_t length) {
    TernIface& iface = iface_of(ep);
    UCT_CHECK_LENGTH(length, 0, iface.engine->max_short(), "tag_eager_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    const EagerHeader header{tag};
    status = to_ucs(iface.engine->am_short(*channel, type_of(TagFrameId::kEager),
                                           static_cast<uint32_t>(sizeof(header) + length),
                                           [&](std::byte* to) {
                                               memcpy(to, &header, sizeof(header));
                                               if (length != 0)
                                                   memcpy(to + sizeof(header), data, length);
                                           }));
    if (status == UCS_OK) ++iface.tags->counters.eager_sent;
    return status;
}

ssize_t ep_tag_eager_bcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate, uct_pack_callback_t pack,
                           void* argument, unsigned) {
    const auto fill = [&](std::byte* to) { return pack(to, argument); };
    const ssize_t length = immediate == 0 ? copied(ep, TagFrameId::kEager, EagerHeader{tag}, fill)
                                          : copied(ep, TagFrameId::kEagerImmediate,
                                                   ImmediateHeader{tag, immediate}, fill);
    if (length >= 0) ++iface_of(ep).tags->counters.eager_sent;
    return length;
}

ucs_status_t ep_tag_eager_zcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate,
                                const uct_iov_t* iov, size_t count, unsigned,
                                uct_completion_t* completion) {
    TernIface& iface = iface_of(ep);
    UCT_CHECK_IOV_SIZE(count, size_t{iface.engine->max_pieces()}, "tag_eager_zcopy");
    UCT_CHECK_LENGTH(total(iov, count), 0, longest(ep, sizeof(ImmediateHeader)), "tag_eager_zcopy");
    const ucs_status_t status =
        immediate == 0 ? gathered(ep, TagFrameId::kEager, EagerHeader{tag}, iov, count, completion)
                       : gathered(ep, TagFrameId::kEagerImmediate, ImmediateHeader{tag, immediate},
                                  iov, count, completion);
    if (!UCS_STATUS_IS_ERR(status)) ++iface.tags->counters.eager_sent;
    return status;
}

ucs_status_ptr_t ep_tag_rndv_zcopy(uct_ep_h ep, uct_tag_t tag, const void* users,
                                   unsigned users_length, const uct_iov_t* iov, size_t count,
                                   unsigned, uct_completion_t* completion) {
    TernIface& iface = iface_of(ep);
    UCT_CHECK_PARAM_PTR(count <= 1, "Too many pieces: %zu", count);
    UCT_CHECK_PARAM_PTR(users_length <= longest(ep, sizeof(RequestHeader)), "Too long a header: %u",
                        users_length);
    TagSend& send = iface.tags->sends.take();
    RequestHeader header{.tag = tag, .operation = send.number};
    if (count != 0) {
        const PackedKey key =
            packed_key(memory_domain(iface.super.md), *static_cast<MemoryHandle*>(iov->memh));
        header.address = reinterpret_cast<uint64_t>(iov->buffer);
        header.length = uct_iov_get_length(iov);
        memcpy(header.key, &key, sizeof(header.key));
    }
    const ssize_t sent =
        copied(ep, TagFrameId::kRequest, header, users_header(users, users_length));
    if (sent < 0) {
        iface.tags->sends.give(send);
        return UCS_STATUS_PTR(static_cast<ucs_status_t>(sent));
    }
    TagSends::begun(send, *ep_of(ep).channel, ep_of(ep), completion);
    ++iface.tags->counters.rndv_sent;
    return &send;
}

ucs_status_t ep_tag_rndv_cancel(uct_ep_h ep, void* operation) {
    TagInterface& tags = *iface_of(ep).tags;
    auto& send = *static_cast<TagSend*>(operation);
    if (!send.under_way) return UCS_OK;  // it has ended with its connection
    ++tags.counters.rndv_canceled;
    tags.sends.give(send);
    return UCS_OK;
}

ucs_status_t ep_tag_rndv_request(uct_ep_h ep, uct_tag_t tag, const void* users,
                                 unsigned users_length, unsigned) {
    UCT_CHECK_LENGTH(users_length, 0, longest(ep, sizeof(EagerHeader)), "tag_rndv_request");
    const ssize_t sent = copied(ep, TagFrameId::kSoftwareRequest, EagerHeader{tag},
                                users_header(users, users_length));
    if (sent < 0) return static_cast<ucs_status_t>(sent);
    ++iface_of(ep).tags->counters.software_sent;
    return UCS_OK;
}

}  // namespace tern
