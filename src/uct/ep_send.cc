// SPDX-License-Identifier: BSD-3-Clause

// The data path of endpoints.

#include <algorithm>
#include <span>

#include "fastpath/engine_send.h"
#include "uct/iface.h"
#include "uct/md.h"

namespace tern {

namespace {

// The channel to send on. Null: `status` says why not.
inline Channel* channel_for(TernEp& ep, ucs_status_t& status) {
    Channel* channel = ep.ready;
    return channel != nullptr ? channel : find_channel(ep, status);
}

size_t total(const uct_iov_t* iov, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += uct_iov_get_length(&iov[i]);
    return length;
}

ucs_status_t copied(Engine& engine, Channel& channel, uint8_t id, std::span<const std::byte> header,
                    const uct_iov_t* iov, size_t count) {
    uint32_t length = 0;
    return to_ucs(engine.am_bcopy(
        channel, id,
        [&](void* to) {
            if (!header.empty()) memcpy(to, header.data(), header.size());
            ucs_iov_iter_t iterator;
            ucs_iov_iter_init(&iterator);
            auto* behind = static_cast<std::byte*>(to) + header.size();
            const size_t rest = uct_iov_to_buffer(iov, count, &iterator, behind, SIZE_MAX);
            return static_cast<uint32_t>(header.size() + rest);
        },
        length));
}

}  // namespace

ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length) {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, engine.max_short(), "am_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return to_ucs(engine.am_short(*channel, id, sizeof(header) + length, [&](std::byte* to) {
        memcpy(to, &header, sizeof(header));
        if (length != 0) memcpy(to + sizeof(header), payload, length);
    }));
}

ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t count) {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    const size_t length = total(iov, count);
    UCT_CHECK_LENGTH(length, 0, engine.max_short() + sizeof(uint64_t), "am_short_iov");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return to_ucs(engine.am_short(*channel, id, static_cast<uint32_t>(length), [&](std::byte* to) {
        ucs_iov_iter_t iterator;
        ucs_iov_iter_init(&iterator);
        (void)uct_iov_to_buffer(iov, count, &iterator, to, SIZE_MAX);
    }));
}

ssize_t ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void* argument, unsigned) {
    UCT_CHECK_AM_ID(id);
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    uint32_t length = 0;
    const Status sent = iface_of(ep).engine->am_bcopy(
        *channel, id, [&](void* to) { return static_cast<uint32_t>(pack(to, argument)); }, length);
    return sent == Status::kOk ? static_cast<ssize_t>(length) : static_cast<ssize_t>(to_ucs(sent));
}

ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t count, unsigned,
                         uct_completion_t* completion) {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(count, size_t{engine.max_pieces()}, "am_zcopy");
    UCT_CHECK_LENGTH(header_length, 0, engine.max_header(), "am_zcopy header");
    UCT_CHECK_LENGTH(header_length + total(iov, count), 0, engine.settings().segment_size,
                     "am_zcopy");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    // Memory that could not be registered is copied.
    if (std::any_of(iov, iov + count,
                    [](const uct_iov_t& piece) { return piece.memh == &not_pinned; })) [[unlikely]]
        return copied(engine, *channel, id, {static_cast<const std::byte*>(header), header_length},
                      iov, count);
    ibv_sge pieces[Engine::kPieces];
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t length = uct_iov_get_length(&iov[i]);
        if (length == 0) continue;
        pieces[used++] = {.addr = address_of(iov[i].buffer),
                          .length = static_cast<uint32_t>(length),
                          .lkey = static_cast<ibv_mr*>(iov[i].memh)->lkey};
    }
    return to_ucs(engine.am_zcopy(*channel, id,
                                  {static_cast<const std::byte*>(header), header_length},
                                  {pieces, used}, completion));
}

ucs_status_t ep_put_short(uct_ep_h ep, const void* data, unsigned length, uint64_t to,
                          uct_rkey_t rkey) {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_LENGTH(length, 0, engine.max_inline(), "put_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return to_ucs(engine.put_short(*channel, data, length, to, static_cast<uint32_t>(rkey)));
}

ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void* argument, uint64_t to,
                     uct_rkey_t rkey) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    uint32_t length = 0;
    const Status sent = iface_of(ep).engine->put_bcopy(
        *channel, [&](void* at) { return static_cast<uint32_t>(pack(at, argument)); }, length, to,
        static_cast<uint32_t>(rkey));
    return sent == Status::kOk ? static_cast<ssize_t>(length) : static_cast<ssize_t>(to_ucs(sent));
}

}  // namespace tern
