// SPDX-License-Identifier: BSD-3-Clause

// The data path of endpoints.

#include <algorithm>
#include <memory>
#include <new>
#include <optional>
#include <span>

#include "common/copy_few.h"
#include "tern/uct/device_memory.h"
#include "tern/uct/key_owner.h"
#include "tern/uct/md.h"
#include "tern/uct/rma_post.h"
#include "tern/uct/send.h"

namespace tern {

namespace {

ucs_status_t copied(Engine& engine, Channel& channel, uint32_t id,
                    std::span<const std::byte> header, const uct_iov_t* iov, size_t count) {
    uint32_t length = 0;
    channel.sending.last_bcopy = static_cast<uint32_t>(header.size() + total(iov, count));
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

// Sends a message from memory that is only declared, if that is pinned or worth a pin; nothing:
// copy it. UCP sends a message of several frames in full ones, and waits for all of them together:
// the copies would delay the message, the first one all of it. A message of a single frame is
// copied in a burst, or if the peer sends at the same time: its sender then need not wait until the
// peer has the bytes, and the copy takes less than that. If the two sides send in turns, the sender
// waits for an answer anyway, and the copy would only delay the message.
std::optional<Status> send_in_place(TernIface& iface, Channel& channel, uint32_t id,
                                    std::span<const std::byte> header, const uct_iov_t* iov,
                                    size_t count, uct_completion_t* completion) {
    if (count != 1) return std::nullopt;
    const Buffers::Piece piece{static_cast<std::byte*>(iov->buffer), uct_iov_get_length(iov)};
    const size_t segment = iface.engine->settings().segment_size;
    const size_t length = header.size() + piece.length;
    if ((length < segment - segment / 8 && !channel.sending.path.answered()) ||
        piece.length <= engine_limits::kInline || !channel.sends.takes_data())
        return std::nullopt;
    const auto* handle = static_cast<const MemoryHandle*>(iov->memh);
    const Region* region = handle != nullptr ? handle->region : nullptr;
    return iface.rma->send_by(
        channel, {{&piece, 1}, piece.length, region}, completion,
        [&](const ibv_sge& from, void* cookie) {
            const Status sent = iface.engine->am_zcopy(channel, id, header, {&from, 1}, cookie);
            return sent == Status::kInProgress ? Status::kOk : sent;
        });
}

// Puts a copy of bytes that exist only during the call. `fill` writes at most `most` bytes and
// returns their number.
template <class Fill>
Status put_copied(Rendezvous& rendezvous, Channel& channel, size_t most, Fill&& fill, uint64_t to,
                  const RemoteKey& key) {
    if (!rendezvous.can_begin(channel)) return Status::kNoResource;
    std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[most]);
    if (!data) return Status::kNoResource;
    const size_t length = fill(data.get());
    if (length == 0) return Status::kOk;
    return rendezvous.put_owned(channel, std::move(data), length, to, key.region);
}

[[gnu::noinline]] Status put_short_copied(Rendezvous& rendezvous, Channel& channel,
                                          const void* data, unsigned length, uint64_t to,
                                          const RemoteKey& key) {
    return put_copied(
        rendezvous, channel, length,
        [&](std::byte* at) {
            memcpy(at, data, length);
            return size_t{length};
        },
        to, key);
}

// Calls `move(channel, memory)` for the user's memory, which has at most Buffers::kMost pieces.
template <class Move>
[[gnu::always_inline]] inline ucs_status_t with_pieces(uct_ep_h ep, const uct_iov_t* iov,
                                                       size_t count, Move&& move) {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    const auto go = [&](std::span<const Buffers::Piece> pieces, size_t length) {
        if (length == 0) return UCS_OK;
        const auto* handle = static_cast<const MemoryHandle*>(count != 0 ? iov->memh : nullptr);
        const Region* region = handle != nullptr ? handle->region : nullptr;
        return to_ucs(move(*channel, Rma::Memory{pieces, length, region}));
    };
    if (count == 1) [[likely]] {
        const Buffers::Piece piece{static_cast<std::byte*>(iov->buffer), uct_iov_get_length(iov)};
        return go({&piece, 1}, piece.length);
    }
    Buffers::Piece pieces[Buffers::kMost];
    for (size_t i = 0; i < count; ++i)
        pieces[i] = {static_cast<std::byte*>(iov[i].buffer), uct_iov_get_length(&iov[i])};
    return go({pieces, count}, total(iov, count));
}

static_assert(base::kFewBytes + sizeof(uint64_t) + BlockWriter::kOverhead <=
              engine_limits::kLeastInline);

// `usual`: takes_usual() has just returned true, and the payload has at most kFewBytes.
template <bool usual>
[[gnu::always_inline]] inline Status send_short(TernIface& iface, Channel& channel, uint32_t id,
                                                uint64_t header, const void* payload,
                                                unsigned length) {
    const auto fill = [=](std::byte* to) {
        memcpy(to, &header, sizeof(header));
        if constexpr (usual)
            base::copy_few(to + sizeof(header), payload, length);
        else if (length != 0)
            memcpy(to + sizeof(header), payload, length);
    };
    const auto send = [&](auto last_fill) __attribute__((always_inline)) {
        const auto size = static_cast<uint32_t>(sizeof(header) + length);
        return usual ? iface.engine->am_usual(channel, id, size, last_fill)
                     : iface.engine->am_short(channel, id, size, last_fill);
    };
    // What a lambda captures costs instructions even if nothing is dumped.
    if constexpr (kDumpsMessages)
        return send([=, &iface](std::byte* to) {
            fill(to);
            dump_message(iface, UCT_AM_TRACE_TYPE_SEND, static_cast<uint8_t>(id), to,
                         sizeof(header) + length, "TX: AM_SHORT");
        });
    else
        return send(fill);
}

[[gnu::noinline, gnu::cold]] ssize_t refused_packed(TernEp& ep, uint8_t id,
                                                    uct_pack_callback_t pack, void* argument,
                                                    ucs_status_t status) {
    const EngineSettings& settings = iface_of(&ep.super.super).engine->settings();
    const bool of_ucp = id == settings.urgent_id && !settings.early_sends;
    // A pending request that has its turn stays at the head of the queue.
    const bool has_turn = ep.ready != nullptr && !ucs_arbiter_group_is_empty(&ep.pending);
    if (!of_ucp || status != UCS_ERR_NO_RESOURCE || has_turn || !may_keep(ep))
        return static_cast<ssize_t>(status);
    const PackingMessage packing(Packer::kOtherMessage);
    return keep_message(ep, pack, argument);
}

// Has UCP write a message.
[[gnu::always_inline]] inline uint32_t call_packer(TernIface& iface, uint8_t id,
                                                   uct_pack_callback_t pack, void* to,
                                                   void* argument) {
    const PackingMessage packing(id == compat::kUcpRequestToSend ? Packer::kRequestToSend
                                                                 : Packer::kOtherMessage);
    const auto packed = static_cast<uint32_t>(pack(to, argument));
    dump_message(iface, UCT_AM_TRACE_TYPE_SEND, id, to, packed, "TX: AM_BCOPY");
    return packed;
}

// What am_bcopy returns.
ssize_t send_packed(uct_ep_h ep, Channel& channel, uint8_t id, uct_pack_callback_t pack,
                    void* argument) {
    TernIface& iface = iface_of(ep);
    uint32_t length = 0;
    const Status sent = iface.engine->am_bcopy(
        channel, id, [&](void* to) { return call_packer(iface, id, pack, to, argument); }, length);
    if (sent != Status::kOk) [[unlikely]]
        return refused_packed(ep_of(ep), id, pack, argument, to_ucs(sent));
    return static_cast<ssize_t>(length);
}

// Sends a request to send as a short message. Out of line, so that other messages take no
// instruction more.
[[gnu::noinline]] ucs_status_t short_request(TernIface& iface, Channel& channel, uint64_t header,
                                             const void* payload, unsigned length) try {
    const Status sent =
        send_short<false>(iface, channel, compat::kUcpRequestToSend, header, payload, length);
    if (sent == Status::kOk)
        request_sent(iface, channel, {static_cast<const std::byte*>(payload), length});
    return to_ucs(sent);
} catch (const std::bad_alloc&) {
    return out_of_memory(&iface.super.super);
}

// All that ep_am_short() does not do itself.
[[gnu::noinline]] ucs_status_t other_short(uct_ep_h ep, uint32_t id, uint64_t header,
                                           const void* payload, unsigned length) {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, engine.max_short(), "am_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    if (id == compat::kUcpRequestToSend) [[unlikely]]
        return short_request(iface_of(ep), *channel, header, payload, length);
    return to_ucs(send_short<false>(iface_of(ep), *channel, id, header, payload, length));
}

// A message that may wait with others. All that is not so is other_short().
[[gnu::noinline]] ucs_status_t batched_short(uct_ep_h ep, uint32_t id, uint64_t header,
                                             const void* payload, unsigned length) {
    const auto fill = [=](std::byte* to) {
        memcpy(to, &header, sizeof(header));
        base::copy_short(to + sizeof(header), payload, length);
    };
    Channel* const channel = ep_of(ep).ready;
    Engine& engine = *iface_of(ep).engine;
    if (!kDumpsMessages && channel != nullptr && channel->sends.held() && id <= Word::kMaxId &&
        id != compat::kUcpRequestToSend && length <= engine.max_short() &&
        engine.fast_path()->am_batched(*channel, id, sizeof(header) + length, fill)) [[likely]]
        return UCS_OK;
    return other_short(ep, id, header, payload, length);
}

[[gnu::noinline]] ssize_t packed_request(uct_ep_h ep, Channel& channel, uct_pack_callback_t pack,
                                         void* argument) {
    request_begins();
    const ssize_t sent = send_packed(ep, channel, compat::kUcpRequestToSend, pack, argument);
    if (sent >= 0) request_sent(iface_of(ep), channel);
    return sent;
}

// All that ep_am_bcopy() does not do itself.
[[gnu::noinline]] ssize_t other_packed(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack,
                                       void* argument) try {
    UCT_CHECK_AM_ID(id);
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return refused_packed(ep_of(ep), id, pack, argument, status);
    if (id == compat::kUcpRequestToSend) [[unlikely]]
        return packed_request(ep, *channel, pack, argument);
    return send_packed(ep, *channel, id, pack, argument);
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

}  // namespace

ucs_status_t send_zcopy(TernIface& iface, Channel& channel, uint32_t id,
                        std::span<const std::byte> header, const uct_iov_t* iov, size_t count,
                        uct_completion_t* completion) {
    Engine& engine = *iface.engine;
    if (touches_device(iov, count)) [[unlikely]]
        return send_from_device(
            engine, channel, id, header.size(),
            [&](std::byte* to) {
                if (!header.empty()) memcpy(to, header.data(), header.size());
            },
            iov, count, completion);
    if (std::any_of(iov, iov + count, [](const uct_iov_t& piece) {
            return uct_iov_get_length(&piece) != 0 && registration(piece.memh) == nullptr;
        })) {
        if (const auto sent = send_in_place(iface, channel, id, header, iov, count, completion))
            return to_ucs(*sent);
        return copied(engine, channel, id, header, iov, count);
    }
    ibv_sge pieces[engine_limits::kPieces];
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t length = uct_iov_get_length(&iov[i]);
        if (length == 0) continue;
        pieces[used++] = {.addr = address_of(iov[i].buffer),
                          .length = static_cast<uint32_t>(length),
                          .lkey = registration(iov[i].memh)->lkey};
    }
    return to_ucs(engine.am_zcopy(channel, id, header, {pieces, used}, completion));
}

ucs_status_t ep_am_short(uct_ep_h ep, uint8_t id, uint64_t header, const void* payload,
                         unsigned length) {
    Channel* const channel = ep_of(ep).ready;
    uint32_t type = id;
    asm("" : "+r"(type));  // GCC would extend it at each use
    if (channel == nullptr || type > Word::kMaxId || type == compat::kUcpRequestToSend ||
        length > base::kFewBytes || !FastPath::takes_usual(*channel, sizeof(header) + length))
        [[unlikely]]
        return batched_short(ep, type, header, payload, length);
    return to_ucs(send_short<true>(iface_of(ep), *channel, type, header, payload, length));
}

ucs_status_t ep_am_short_iov(uct_ep_h ep, uint8_t id, const uct_iov_t* iov, size_t count) try {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    const size_t length = total(iov, count);
    UCT_CHECK_LENGTH(length, 0, engine.max_short() + sizeof(uint64_t), "am_short_iov");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    return to_ucs(engine.am_short(*channel, id, static_cast<uint32_t>(length), [=](std::byte* to) {
        ucs_iov_iter_t iterator;
        ucs_iov_iter_init(&iterator);
        (void)uct_iov_to_buffer(iov, count, &iterator, to, SIZE_MAX);
        dump_message(iface_of(ep), UCT_AM_TRACE_TYPE_SEND, id, to, length, "TX: AM_SHORT_IOV");
    }));
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ssize_t ep_am_bcopy(uct_ep_h ep, uint8_t id, uct_pack_callback_t pack, void* argument, unsigned) {
    Channel* const channel = ep_of(ep).ready;
    if (channel == nullptr || id > Word::kMaxId || id == compat::kUcpRequestToSend) [[unlikely]]
        return other_packed(ep, id, pack, argument);
    const auto path = iface_of(ep).engine->fast_path();
    SendPool::Buffer* const buffer = path->begin_packed(*channel);
    if (buffer == nullptr) [[unlikely]]
        return other_packed(ep, id, pack, argument);
    const uint32_t length =
        call_packer(iface_of(ep), id, pack, FastPath::payload_of(*buffer), argument);
    const Status sent = path->post_packed(*channel, id, length, *buffer);
    if (sent != Status::kOk) [[unlikely]]
        return static_cast<ssize_t>(to_ucs(sent));
    return static_cast<ssize_t>(length);
}

ucs_status_t ep_am_zcopy(uct_ep_h ep, uint8_t id, const void* header, unsigned header_length,
                         const uct_iov_t* iov, size_t count, unsigned,
                         uct_completion_t* completion) try {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_IOV_SIZE(count, size_t{engine.max_pieces()}, "am_zcopy");
    UCT_CHECK_LENGTH(header_length, 0, engine.settings().max_header(), "am_zcopy header");
    UCT_CHECK_LENGTH(header_length + total(iov, count), 0, engine.settings().segment_size,
                     "am_zcopy");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    dump_message(iface_of(ep), UCT_AM_TRACE_TYPE_SEND, id, header, header_length, "TX: AM_ZCOPY");
    return send_zcopy(iface_of(ep), *channel, id,
                      {static_cast<const std::byte*>(header), header_length}, iov, count,
                      completion);
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ucs_status_t ep_put_short(uct_ep_h ep, const void* data, unsigned length, uint64_t to,
                          uct_rkey_t rkey) try {
    Engine& engine = *iface_of(ep).engine;
    UCT_CHECK_LENGTH(length, 0, engine.max_inline(), "put_short");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    const RemoteKey& key = remote_key(rkey);
    // An empty put needs no key, but is posted: if it fails, the peer's death is noticed.
    if (key.rkey == 0 && length != 0) [[unlikely]]
        return to_ucs(put_short_copied(*iface_of(ep).rendezvous, *channel, data, length, to, key));
    ucs_trace_data("tern: put_short of %u bytes to 0x%lx, rkey 0x%x", length, to, key.rkey);
    return to_ucs(engine.one_sided()->put_short(*channel, data, length, to, key.rkey));
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ucs_status_t ep_put_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t to,
                          uct_rkey_t rkey, uct_completion_t* completion) try {
    UCT_CHECK_IOV_SIZE(count, Buffers::kMost, "put_zcopy");
    const RemoteKey& key = remote_key(rkey);
    ucs_trace_data("tern: put_zcopy of %zu bytes to 0x%lx, rkey 0x%x", total(iov, count), to,
                   key.rkey);
    if (touches_device(iov, count)) [[unlikely]]
        return put_from_device(ep, iov, count, to, key, completion);
    TernIface& iface = iface_of(ep);
    return with_pieces(ep, iov, count, [&](Channel& channel, const Rma::Memory& from) {
        const ibv_mr* open = registration(iov->memh);
        if (const auto put = iface.rma->put(channel, from, {to, key.rkey}, open, completion))
            return *put;
        return iface.rendezvous->put(channel, from.pieces, to, key.region, key.rkey,
                                     {completion, &ep_of(ep)});
    });
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ucs_status_t ep_get_zcopy(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t from,
                          uct_rkey_t rkey, uct_completion_t* completion) try {
    UCT_CHECK_IOV_SIZE(count, Buffers::kMost, "get_zcopy");
    const RemoteKey& key = remote_key(rkey);
    ucs_trace_data("tern: get_zcopy of %zu bytes from 0x%lx, rkey 0x%x", total(iov, count), from,
                   key.rkey);
    if (touches_device(iov, count)) [[unlikely]]
        return get_to_device(ep, iov, count, from, key, completion);
    TernIface& iface = iface_of(ep);
    ReplyOffer& offer = iface.offer;
    bool takes = offer.ep == ep &&
                 (offer.completion == nullptr || offer.completion == completion) && key.replies &&
                 offer.length == total(iov, count);
    const ucs_status_t status =
        with_pieces(ep, iov, count, [&](Channel& channel, const Rma::Memory& to) {
            const uint32_t readable = key.to_read(*iface.rendezvous, to.pieces);
            // The owner of memory that is read gets no frame.
            takes = takes && readable == 0;
            const ibv_mr* open = registration(iov->memh);
            if (const auto get = iface.rma->get(channel, to, {from, readable}, open, completion))
                return *get;
            return iface.rendezvous->get(channel, to.pieces, from, key.region, readable, key.source,
                                         {completion, &ep_of(ep)}, takes ? &offer.reply : nullptr);
        });
    if (takes && status == UCS_INPROGRESS) {
        offer.ep = nullptr;
        offer.taken = true;
    }
    return status;
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ucs_status_t ep_get_bcopy(uct_ep_h ep, uct_unpack_callback_t unpack, void* argument, size_t length,
                          uint64_t from, uct_rkey_t rkey, uct_completion_t* completion) try {
    UCT_CHECK_LENGTH(length, 0, size_t{iface_of(ep).engine->settings().segment_size}, "get_bcopy");
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    if (length == 0) return UCS_OK;
    const RemoteKey& key = remote_key(rkey);
    TernIface& iface = iface_of(ep);
    if (const auto get =
            iface.rma->get(*channel, length, {from, key.rkey}, unpack, argument, completion))
        return to_ucs(*get);
    return to_ucs(iface.rendezvous->get_owned(*channel, length, from, key.region, key.rkey, unpack,
                                              argument, {completion, &ep_of(ep)}));
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

ssize_t ep_put_bcopy(uct_ep_h ep, uct_pack_callback_t pack, void* argument, uint64_t to,
                     uct_rkey_t rkey) try {
    ucs_status_t status = UCS_OK;
    Channel* channel = channel_for(ep_of(ep), status);
    if (channel == nullptr) [[unlikely]]
        return status;
    static constexpr RemoteKey kNone;  // for empty puts: their length is known only after packing
    const RemoteKey& key = rkey != UCT_INVALID_RKEY ? remote_key(rkey) : kNone;
    uint32_t length = 0;
    if (key.rkey == 0) {
        const Engine& engine = *iface_of(ep).engine;
        const Status put = put_copied(
            *iface_of(ep).rendezvous, *channel, engine.settings().segment_size,
            [&](std::byte* at) {
                length = static_cast<uint32_t>(pack(at, argument));
                return size_t{length};
            },
            to, key);
        return put == Status::kOk ? static_cast<ssize_t>(length)
                                  : static_cast<ssize_t>(to_ucs(put));
    }
    const Status sent = iface_of(ep).engine->one_sided()->put_bcopy(
        *channel, [&](void* at) { return static_cast<uint32_t>(pack(at, argument)); }, length, to,
        key.rkey);
    return sent == Status::kOk ? static_cast<ssize_t>(length) : static_cast<ssize_t>(to_ucs(sent));
} catch (const std::bad_alloc&) {
    return out_of_memory(ep);
}

}  // namespace tern
