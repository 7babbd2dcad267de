// SPDX-License-Identifier: BSD-3-Clause

// Sending tagged messages. Data path.

#include "tern/tupleq/xrc/send.h"
#include "tern/uct/device_memory.h"
#include "tern/uct/md.h"
#include "tern/uct/send.h"
#include "tern/uct/tag_direct.h"

namespace tern {

namespace {

constexpr uint32_t type_of(TagFrameId id) {
    return tag_message(static_cast<uint32_t>(id));
}

// `Iface` is TagIface or DirectIface.
template <class Iface>
Iface& tagged_iface(uct_ep_h ep) {
    return static_cast<Iface&>(iface_of(ep));
}

// The tuple of a message; null: the message is an ordinary one.
template <class Iface>
DirectSender::Tuple* tuple_of(const Iface& iface, const Channel& channel, uint64_t tag) {
    if constexpr (Iface::kDirect)
        return iface.tupleq->sender().find(channel, tag);
    else
        return nullptr;
}

// The mark of the next message, which must be certain to go.
WireMark mark_of(DirectSender::Tuple& tuple) {
    const TupleMark number = DirectSender::mark(tuple);
    return {.tuple = number.tuple, .sequence = number.sequence};
}

// Sends `header` and the bytes that `fill(void* to)` writes behind it. `fill` returns their number.
template <class Iface, class Header, class Fill>
ssize_t copied(uct_ep_h ep, TagFrameId id, const Header& header, Fill&& fill) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    DirectSender::Tuple* const tuple = tuple_of(tagged_iface<Iface>(ep), *channel, header.tag);
    size_t filled = 0;
    uint32_t length = 0;
    const Status sent = iface_of(ep).engine->am_bcopy(
        *channel, tuple == nullptr ? type_of(id) : type_of(id) | kMarkedTagFrame,
        [&](void* to) {
            auto* at = static_cast<std::byte*>(to);
            if (tuple != nullptr) [[unlikely]] {
                const WireMark mark = mark_of(*tuple);
                memcpy(at, &mark, sizeof(mark));
                at += sizeof(mark);
            }
            memcpy(at, &header, sizeof(header));
            at += sizeof(header);
            filled = fill(at);
            ucs_trace_data("tern: TX: tag frame %u, tag 0x%lx, %zu bytes", type_of(id),
                           static_cast<unsigned long>(header.tag), filled);
            return static_cast<uint32_t>(at - static_cast<std::byte*>(to) + filled);
        },
        length);
    return sent == Status::kOk ? static_cast<ssize_t>(filled) : static_cast<ssize_t>(to_ucs(sent));
}

template <class Header>
ucs_status_t gathered(uct_ep_h ep, TagFrameId id, const Header& header, const uct_iov_t* iov,
                      size_t count, uct_completion_t* completion) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return send_zcopy(iface_of(ep), *channel, type_of(id),
                      {reinterpret_cast<const std::byte*>(&header), sizeof(header)}, iov, count,
                      completion);
}

// From memory of a device, with a mark if the tag has a tuple.
template <class Iface, class Header>
ucs_status_t gathered_from_device(uct_ep_h ep, TagFrameId id, const Header& header,
                                  const uct_iov_t* iov, size_t count,
                                  uct_completion_t* completion) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) return status;
    DirectSender::Tuple* const tuple = tuple_of(tagged_iface<Iface>(ep), *channel, header.tag);
    const size_t mark = tuple != nullptr ? sizeof(WireMark) : 0;
    return send_from_device(
        *iface_of(ep).engine, *channel, type_of(id) | (tuple != nullptr ? kMarkedTagFrame : 0),
        mark + sizeof(header),
        [&](std::byte* to) {
            if (tuple != nullptr) {
                const WireMark own = mark_of(*tuple);
                memcpy(to, &own, sizeof(own));
            }
            memcpy(to + mark, &header, sizeof(header));
        },
        iov, count, completion);
}

template <class Iface>
size_t longest(uct_ep_h ep, size_t header) {
    return iface_of(ep).engine->settings().segment_size - header -
           (Iface::kDirect ? sizeof(WireMark) : 0);
}

auto bytes(const void* data, size_t length) {
    return [=](std::byte* to) {
        if (length != 0) memcpy(to, data, length);
        return length;
    };
}

ucs_status_t status_of(ssize_t length) {
    return length >= 0 ? UCS_OK : static_cast<ucs_status_t>(length);
}

// Below: sends with tuples. UCS_ERR_UNSUPPORTED: send as without tuples.
ucs_status_t short_of_tuple(uct_ep_h ep, Channel& channel, uint64_t tag, const void* data,
                            size_t length) {
    DirectSender& sender = iface_of(ep).tupleq->sender();
    DirectSender::Tuple* tuple = sender.find(channel, tag);
    if (tuple == nullptr) return UCS_ERR_UNSUPPORTED;
    if (sender.may_send(*tuple, tag, length)) {
        const Status sent = sender.send(channel, *tuple, data, static_cast<uint32_t>(length));
        if (sent != Status::kNoResource) return to_ucs(sent);
    }
    if (length + sizeof(WireMark) > iface_of(ep).engine->max_short())
        return status_of(
            copied<DirectIface>(ep, TagFrameId::kEager, EagerHeader{tag}, bytes(data, length)));
    const EagerHeader header{tag};
    return to_ucs(iface_of(ep).engine->am_short(
        channel, type_of(TagFrameId::kEager) | kMarkedTagFrame,
        static_cast<uint32_t>(sizeof(WireMark) + sizeof(header) + length), [=](std::byte* to) {
            const WireMark mark = mark_of(*tuple);
            memcpy(to, &mark, sizeof(mark));
            memcpy(to + sizeof(mark), &header, sizeof(header));
            if (length != 0) memcpy(to + sizeof(mark) + sizeof(header), data, length);
        }));
}

// Channel and tuple of a message with this tag. Null channel: `status` is the reason.
struct Way {
    Way(uct_ep_h ep, uint64_t tag)
        : sender(iface_of(ep).tupleq->sender()), channel(channel_for(ep_of(ep), status)) {
        if (channel != nullptr) [[likely]]
            tuple = sender.find(*channel, tag);
    }

    DirectSender& sender;
    ucs_status_t status = UCS_OK;
    Channel* channel;
    DirectSender::Tuple* tuple = nullptr;
};

// The user packs a message only once, and the receiver may revoke the grant until the message is
// sent. So an ordinary message must have room, too.
ssize_t packed_of_tuple(uct_ep_h ep, uint64_t tag, uct_pack_callback_t pack, void* argument) {
    const Way way(ep, tag);
    if (way.channel == nullptr) [[unlikely]]
        return way.status;
    if (way.tuple == nullptr || !way.sender.may_send(*way.tuple, tag, 0))
        return UCS_ERR_UNSUPPORTED;
    if (!iface_of(ep).engine->fast_path()->takes_copies(*way.channel)) return UCS_ERR_NO_RESOURCE;
    SendPool::Buffer* buffer = way.sender.take_buffer();
    if (buffer == nullptr) return UCS_ERR_UNSUPPORTED;
    const size_t length = pack(buffer->data, argument);
    if (way.sender.may_send(*way.tuple, tag, length)) {
        const Status sent =
            way.sender.send(*way.channel, *way.tuple, buffer, static_cast<uint32_t>(length));
        if (sent == Status::kOk) return static_cast<ssize_t>(length);
        if (sent != Status::kNoResource) return static_cast<ssize_t>(to_ucs(sent));
    }
    const ssize_t sent =
        copied<DirectIface>(ep, TagFrameId::kEager, EagerHeader{tag}, bytes(buffer->data, length));
    way.sender.give_buffer(buffer);
    return sent;
}

// Sends a message direct that would otherwise be announced.
ucs_status_t direct_of_tuple(uct_ep_h ep, uint64_t tag, const uct_iov_t& iov,
                             uct_completion_t* completion) {
    const Way way(ep, tag);
    if (way.channel == nullptr) [[unlikely]]
        return way.status;
    const size_t length = uct_iov_get_length(&iov);
    if (way.tuple == nullptr || length == 0 || !way.sender.may_send(*way.tuple, tag, length))
        return UCS_ERR_UNSUPPORTED;
    const Status sent = way.sender.send_zcopy(*way.channel, *way.tuple, iov.buffer,
                                              static_cast<uint32_t>(length), completion);
    return sent == Status::kNoResource ? UCS_ERR_UNSUPPORTED : to_ucs(sent);
}

ucs_status_t pieces_of_tuple(uct_ep_h ep, uint64_t tag, uint64_t immediate, const uct_iov_t* iov,
                             size_t count, uct_completion_t* completion) {
    const Way way(ep, tag);
    if (way.channel == nullptr) [[unlikely]]
        return way.status;
    if (way.tuple == nullptr) return UCS_ERR_UNSUPPORTED;
    const size_t length = total(iov, count);
    if (immediate == 0 && count == 1 && length != 0 &&
        way.sender.may_send(*way.tuple, tag, length)) {
        const Status sent = way.sender.send_zcopy(*way.channel, *way.tuple, iov->buffer,
                                                  static_cast<uint32_t>(length), completion);
        if (sent != Status::kNoResource) return to_ucs(sent);
    }
    const auto gather = [&](std::byte* to) {
        for (size_t i = 0; i < count; ++i) {
            const size_t piece = uct_iov_get_length(&iov[i]);
            if (piece != 0) memcpy(to, iov[i].buffer, piece);
            to += piece;
        }
        return length;
    };
    return status_of(immediate == 0
                         ? copied<DirectIface>(ep, TagFrameId::kEager, EagerHeader{tag}, gather)
                         : copied<DirectIface>(ep, TagFrameId::kEagerImmediate,
                                               ImmediateHeader{tag, immediate}, gather));
}

template <class Iface>
ucs_status_t eager_short(uct_ep_h ep, uct_tag_t tag, const void* data, size_t length) try {
    auto& iface = tagged_iface<Iface>(ep);
    UCT_CHECK_LENGTH(length, 0, iface.engine->max_short(), "tag_eager_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    if constexpr (Iface::kDirect) {
        status = short_of_tuple(ep, *channel, tag, data, length);
        if (status != UCS_ERR_UNSUPPORTED) {
            if (status == UCS_OK) ++iface.tags().counters.eager_sent;
            return status;
        }
    }
    const EagerHeader header{tag};
    status = to_ucs(iface.engine->am_short(*channel, type_of(TagFrameId::kEager),
                                           static_cast<uint32_t>(sizeof(header) + length),
                                           [=](std::byte* to) {
                                               memcpy(to, &header, sizeof(header));
                                               if (length != 0)
                                                   memcpy(to + sizeof(header), data, length);
                                           }));
    if (status == UCS_OK) ++iface.tags().counters.eager_sent;
    return status;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

template <class Iface>
ssize_t eager_bcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate, uct_pack_callback_t pack,
                    void* argument, unsigned) try {
    const auto fill = [&](std::byte* to) { return pack(to, argument); };
    ssize_t length = UCS_ERR_UNSUPPORTED;
    if (Iface::kDirect && immediate == 0) length = packed_of_tuple(ep, tag, pack, argument);
    if (length == UCS_ERR_UNSUPPORTED)
        length = immediate == 0 ? copied<Iface>(ep, TagFrameId::kEager, EagerHeader{tag}, fill)
                                : copied<Iface>(ep, TagFrameId::kEagerImmediate,
                                                ImmediateHeader{tag, immediate}, fill);
    if (length >= 0) ++tagged_iface<Iface>(ep).tags().counters.eager_sent;
    return length;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

template <class Iface>
ucs_status_t eager_zcopy(uct_ep_h ep, uct_tag_t tag, uint64_t immediate, const uct_iov_t* iov,
                         size_t count, unsigned, uct_completion_t* completion) try {
    auto& iface = tagged_iface<Iface>(ep);
    UCT_CHECK_IOV_SIZE(count, size_t{iface.engine->max_pieces()}, "tag_eager_zcopy");
    UCT_CHECK_LENGTH(total(iov, count), 0, longest<Iface>(ep, sizeof(ImmediateHeader)),
                     "tag_eager_zcopy");
    ucs_status_t status = UCS_ERR_UNSUPPORTED;
    if (touches_device(iov, count)) [[unlikely]] {
        if (Iface::kDirect && immediate == 0 && count == 1)
            status = direct_of_tuple(ep, tag, *iov, completion);
        if (status == UCS_ERR_UNSUPPORTED)
            status = immediate == 0
                         ? gathered_from_device<Iface>(ep, TagFrameId::kEager, EagerHeader{tag},
                                                       iov, count, completion)
                         : gathered_from_device<Iface>(ep, TagFrameId::kEagerImmediate,
                                                       ImmediateHeader{tag, immediate}, iov, count,
                                                       completion);
    } else if (Iface::kDirect)
        status = pieces_of_tuple(ep, tag, immediate, iov, count, completion);
    if (status == UCS_ERR_UNSUPPORTED)
        status = immediate == 0
                     ? gathered(ep, TagFrameId::kEager, EagerHeader{tag}, iov, count, completion)
                     : gathered(ep, TagFrameId::kEagerImmediate, ImmediateHeader{tag, immediate},
                                iov, count, completion);
    if (!UCS_STATUS_IS_ERR(status)) ++iface.tags().counters.eager_sent;
    return status;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

template <class Iface>
ucs_status_ptr_t rndv_zcopy(uct_ep_h ep, uct_tag_t tag, const void* users, unsigned users_length,
                            const uct_iov_t* iov, size_t count, unsigned,
                            uct_completion_t* completion) try {
    auto& iface = tagged_iface<Iface>(ep);
    UCT_CHECK_PARAM_PTR(count <= 1, "Too many pieces: %zu", count);
    UCT_CHECK_PARAM_PTR(users_length <= longest<Iface>(ep, sizeof(RequestHeader)),
                        "Too long a header: %u", users_length);
    const auto inside = iface.engine->enter();
    TagSend& send = iface.tags().sends.take();
    if (Iface::kDirect && count == 1) {
        const ucs_status_t status =
            direct_of_tuple(ep, tag, *iov, iface.tags().sends.direct(send, completion));
        if (status == UCS_INPROGRESS) {
            ++iface.tags().counters.rndv_sent;
            return &send;
        }
        if (status != UCS_ERR_UNSUPPORTED) {
            iface.tags().sends.give(send);
            return UCS_STATUS_PTR(status);
        }
        send.owner = nullptr;
    }
    RequestHeader header{.tag = tag, .operation = send.number};
    Packing packed;
    if (count != 0 && iov->memh != nullptr) {
        header.address = reinterpret_cast<uint64_t>(iov->buffer);
        header.length = uct_iov_get_length(iov);
        packed = pack_key(memory_domain(iface.super.md), *static_cast<MemoryHandle*>(iov->memh),
                          iov->buffer, header.length);
        memcpy(header.key, &packed.key, sizeof(header.key));
    }
    const ssize_t sent =
        copied<Iface>(ep, TagFrameId::kRequest, header, bytes(users, users_length));
    if (sent < 0) {
        iface.tags().sends.give(send);
        return UCS_STATUS_PTR(static_cast<ucs_status_t>(sent));
    }
    Channel& channel = *ep_of(ep).channel;
    if (packed.domain != nullptr) note_use(packed);
    iface.tags().sends.begun(send, channel, ep_of(ep), completion);
    if (packed.copyable())
        send.early_copy = iface.rendezvous->make_early_copy(channel, packed.message);
    ++iface.tags().counters.rndv_sent;
    return &send;
} catch (const std::bad_alloc&) {
    return UCS_STATUS_PTR(out_of_memory(ep));
}

template <class Iface>
ucs_status_t rndv_cancel(uct_ep_h ep, void* operation) try {
    const auto inside = iface_of(ep).engine->enter();
    TagInterface& tags = tagged_iface<Iface>(ep).tags();
    auto& send = *static_cast<TagSend*>(operation);
    if (send.owner != nullptr) return UCS_ERR_BUSY;  // the device has the message
    if (!send.under_way) return UCS_OK;              // the send ended with its connection
    ++tags.counters.rndv_canceled;
    tags.sends.give(send);
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

template <class Iface>
ucs_status_t rndv_request(uct_ep_h ep, uct_tag_t tag, const void* users, unsigned users_length,
                          unsigned) try {
    UCT_CHECK_LENGTH(users_length, 0, longest<Iface>(ep, sizeof(EagerHeader)), "tag_rndv_request");
    const ssize_t sent = copied<Iface>(ep, TagFrameId::kSoftwareRequest, EagerHeader{tag},
                                       bytes(users, users_length));
    if (sent < 0) return static_cast<ucs_status_t>(sent);
    ++tagged_iface<Iface>(ep).tags().counters.software_sent;
    return UCS_OK;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

}  // namespace

template <class Iface>
void offer_tag_sends(uct_iface_ops_t& table) {
    table.ep_tag_eager_short = eager_short<Iface>;
    table.ep_tag_eager_bcopy = eager_bcopy<Iface>;
    table.ep_tag_eager_zcopy = eager_zcopy<Iface>;
    table.ep_tag_rndv_zcopy = rndv_zcopy<Iface>;
    table.ep_tag_rndv_cancel = rndv_cancel<Iface>;
    table.ep_tag_rndv_request = rndv_request<Iface>;
}
template void offer_tag_sends<TagIface>(uct_iface_ops_t& table);
template void offer_tag_sends<DirectIface>(uct_iface_ops_t& table);

}  // namespace tern
