// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/put_am.h"

#include "common/copy_few.h"
#include "tern/uct/device_memory.h"
#include "tern/uct/md.h"
#include "tern/uct/rma_post.h"
#include "tern/uct/send.h"

namespace tern {
namespace {

// The channel by which a put can be posted at once, and the key of its memory in `open`. Null:
// none.
[[gnu::always_inline]] inline Channel* channel_at_once(uct_ep_h uct_ep, uct_rkey_t rkey,
                                                       uint32_t& open) {
    ucs_status_t status = UCS_OK;
    TernEp& ep = ep_of(uct_ep);
    Channel* channel = channel_for(ep, status);
    open = remote_key(rkey).rkey;
    return channel != nullptr && open != 0 && nothing_to_fence(ep, *channel) ? channel : nullptr;
}

// The channel by which a put can be posted at once in the usual case: without transfers, reads,
// atomics and direct messages. The key is one of open memory.
[[gnu::always_inline]] inline Channel* channel_in_stream(uct_ep_h uct_ep, uct_rkey_t rkey,
                                                         uint32_t& open) {
    Channel* const channel = ep_of(uct_ep).ready;
    if (channel == nullptr || channel->replies != 0) return nullptr;
    const TernIface& iface = iface_of(uct_ep);
    open = reinterpret_cast<const RemoteKey*>(rkey)->rkey;
    return open != 0 && iface.rendezvous->idle() && iface.in_order ? channel : nullptr;
}

// Calls post(piece, cookie) if the device can read the memory in place, by one request. Nothing:
// it cannot.
template <class Post>
std::optional<Status> post_by(uct_ep_h uct_ep, Channel& channel, const uct_iov_t& from,
                              uct_completion_t* completion, Post&& post) {
    const auto* const handle = static_cast<const MemoryHandle*>(from.memh);
    const Buffers::Piece piece{static_cast<std::byte*>(from.buffer), uct_iov_get_length(&from)};
    return iface_of(uct_ep).rma->put_by(
        channel, {{&piece, 1}, piece.length, handle != nullptr ? handle->region : nullptr},
        registration(from.memh), completion, post);
}

ucs_status_t put_am_result(Status sent) {
    return sent == Status::kNoResource ? UCS_ERR_UNSUPPORTED : to_ucs(sent);
}

struct PutMessage {
    uint8_t id;
    uint64_t header;
    const void* payload;
    unsigned length;
};

// The words by which a repeated message is known (common/repeated_message.h).
[[gnu::always_inline]] inline repeat::Words words_of(uint64_t header, const void* payload) {
    repeat::Words words{header};
    memcpy(&words[1], payload, repeat::kBytes - sizeof header);
    return words;
}

using Plan = RepeatedPuts::Plan;

inline Plan plan_of(Engine& engine, Channel& channel, const PutMessage& message) {
    if (!engine.settings().repeats || message.length != repeat::kBytes - sizeof message.header)
        return {};
    return engine.one_sided()->repeated().plan(channel, message.id,
                                               words_of(message.header, message.payload));
}

Status post_put_am(Engine& engine, Channel& channel, const FastPath::Put& put, const Plan& plan,
                   const PutMessage& message) {
    uint64_t& puts = engine.one_sided()->puts();
    const auto size = static_cast<uint32_t>(sizeof message.header + message.length);
    const auto fill = [=](std::byte* at) {
        memcpy(at, &message.header, sizeof message.header);
        if (message.length != 0)
            memcpy(at + sizeof message.header, message.payload, message.length);
    };
    const Status sent =
        plan.how == Plan::How::kRepeat
            ? engine.one_sided()->repeated().post(channel, put, plan)
            : engine.fast_path()->put_am(channel, put, puts, message.id, size, fill);
    if (sent == Status::kOk && put.cookie != nullptr) engine.one_sided()->posted_in_place();
    return sent;
}

// A put of few bytes that is not the usual case. The arguments are those of the caller, which
// leaves them where they are.
[[gnu::noinline]] ucs_status_t other_put_am(uct_ep_h uct_ep, const void* data, unsigned length,
                                            uint64_t to, uct_rkey_t rkey, uint8_t id,
                                            uint64_t header, const void* payload,
                                            unsigned payload_length) {
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, engine.max_inline(), "put_am_short");
    UCT_CHECK_LENGTH(payload_length, 0, engine.max_short(), "put_am_short");
    uint32_t open = 0;
    Channel* const channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    const PutMessage message{id, header, payload, payload_length};
    const Plan plan = plan_of(engine, *channel, message);
    if (plan.how == Plan::How::kWait) return UCS_ERR_NO_RESOURCE;
    return put_am_result(
        post_put_am(engine, *channel,
                    {.from = {.addr = address_of(data), .length = length, .lkey = 0},
                     .flags = IBV_SEND_INLINE,
                     .to = to,
                     .rkey = open},
                    plan, message));
}

}  // namespace
}  // namespace tern

ucs_status_t tern_uct_ep_put_am_short(uct_ep_h uct_ep, const void* data, unsigned length,
                                      uint64_t to, uct_rkey_t rkey, uint8_t id, uint64_t header,
                                      const void* payload, unsigned payload_length) {
    using namespace tern;
    // All messages of rwapi have this length: the compiler computes what depends on it.
    constexpr unsigned kUsual = base::kFewBytes;
    constexpr uint32_t kSize = sizeof header + kUsual;
    static_assert(kSize == repeat::kBytes);
    Engine& engine = *iface_of(uct_ep).engine;
    uint32_t open = 0;
    Channel* const channel = channel_in_stream(uct_ep, rkey, open);
    if (channel == nullptr || id > Word::kMaxId || length - 1 >= engine.max_inline() ||
        payload_length != kUsual) [[unlikely]]
        return other_put_am(uct_ep, data, length, to, rkey, id, header, payload, payload_length);
    const std::span bytes(static_cast<const std::byte*>(data), length);
    if (engine.settings().repeats) [[likely]] {
        uint64_t higher = 0;
        SentRepeats::Place* const place =
            RepeatedPuts::usual(*channel, id, words_of(header, payload), higher);
        if (place != nullptr) [[likely]]
            return to_ucs(engine.one_sided()->repeated().post_usual(*channel, bytes, to, open,
                                                                    *place, higher));
    } else if (FastPath::takes_usual_put(*channel)) {
        return to_ucs(engine.put_am_usual(*channel, bytes, to, open, id, kSize, [=](std::byte* at) {
            memcpy(at, &header, sizeof header);
            memcpy(at + sizeof header, payload, kUsual);
        }));
    }
    return other_put_am(uct_ep, data, length, to, rkey, id, header, payload, payload_length);
}

ucs_status_t tern_uct_ep_put_am_bcopy(uct_ep_h uct_ep, const void* data, unsigned length,
                                      uint64_t to, uct_rkey_t rkey, uint8_t id, uint64_t header,
                                      const void* payload, unsigned payload_length) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, engine.settings().segment_size, "put_am_bcopy");
    UCT_CHECK_LENGTH(payload_length, 0, engine.max_short(), "put_am_bcopy");
    if (length <= engine.max_inline())
        return tern_uct_ep_put_am_short(uct_ep, data, length, to, rkey, id, header, payload,
                                        payload_length);
    uint32_t open = 0;
    Channel* const channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    const PutMessage message{id, header, payload, payload_length};
    const Plan plan = plan_of(engine, *channel, message);
    if (plan.how == Plan::How::kWait) return UCS_ERR_NO_RESOURCE;
    if (plan.how == Plan::How::kMessage && !FastPath::takes_put(*channel))
        return UCS_ERR_UNSUPPORTED;
    SendPool::Buffer* const buffer = engine.fast_path()->take_buffer();
    if (buffer == nullptr) return UCS_ERR_UNSUPPORTED;
    memcpy(buffer->data, data, length);
    return put_am_result(post_put_am(
        engine, *channel,
        {.from = {.addr = address_of(buffer->data), .length = length, .lkey = buffer->lkey},
         .flags = 0,
         .to = to,
         .rkey = open,
         .buffer = buffer},
        plan, message));
}

ucs_status_t tern_uct_ep_put_am_zcopy(uct_ep_h uct_ep, const uct_iov_t* from, uint64_t to,
                                      uct_rkey_t rkey, uint8_t id, uint64_t header,
                                      const void* payload, unsigned payload_length,
                                      uct_completion_t* completion) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(payload_length, 0, engine.max_short(), "put_am_zcopy");
    if (touches_device(from, 1)) return UCS_ERR_UNSUPPORTED;
    uint32_t open = 0;
    Channel* const channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    const PutMessage message{id, header, payload, payload_length};
    bool waits = false;
    const auto post = [&](const ibv_sge& in_place, void* cookie) {
        const Plan plan = plan_of(engine, *channel, message);
        waits = plan.how == Plan::How::kWait;
        if (waits) return Status::kNoResource;
        return post_put_am(engine, *channel,
                           {.from = in_place, .flags = 0, .to = to, .rkey = open, .cookie = cookie},
                           plan, message);
    };
    if (const auto put = post_by(uct_ep, *channel, *from, completion, post))
        return waits ? UCS_ERR_NO_RESOURCE : put_am_result(*put);
    const size_t length = uct_iov_get_length(from);
    if (length > engine.settings().segment_size) return UCS_ERR_UNSUPPORTED;
    return tern_uct_ep_put_am_bcopy(uct_ep, from->buffer, static_cast<unsigned>(length), to, rkey,
                                    id, header, payload, payload_length);
}

ucs_status_t tern_uct_ep_put_word_short(uct_ep_h uct_ep, const void* data, unsigned length,
                                        uint64_t to, uct_rkey_t rkey, uint64_t word_to,
                                        uint64_t word) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_LENGTH(length + sizeof word, 0, engine.max_inline(), "put_word_short");
    uint32_t open = 0;
    Channel* channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    return put_am_result(engine.one_sided()->put_word_short(
        *channel, {static_cast<const std::byte*>(data), length}, to, word_to, word, open));
}

ucs_status_t tern_uct_ep_put_word_bcopy(uct_ep_h uct_ep, const void* data, unsigned length,
                                        uint64_t to, uct_rkey_t rkey, uint64_t word_to,
                                        uint64_t word) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_LENGTH(length, 0, engine.settings().segment_size, "put_word_bcopy");
    if (length + sizeof word <= engine.max_inline())
        return tern_uct_ep_put_word_short(uct_ep, data, length, to, rkey, word_to, word);
    uint32_t open = 0;
    Channel* const channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    SendPool::Buffer* const buffer = engine.one_sided()->take_buffer();
    if (buffer == nullptr) return UCS_ERR_UNSUPPORTED;
    memcpy(buffer->data, data, length);
    return put_am_result(engine.one_sided()->put_word(
        *channel, {.from = {address_of(buffer->data), length, buffer->lkey},
                   .to = to,
                   .word_to = word_to,
                   .word = word,
                   .rkey = open,
                   .copy = buffer}));
}

ucs_status_t tern_uct_ep_put_word_zcopy(uct_ep_h uct_ep, const uct_iov_t* from, uint64_t to,
                                        uct_rkey_t rkey, uint64_t word_to, uint64_t word,
                                        uct_completion_t* completion) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    if (touches_device(from, 1)) return UCS_ERR_UNSUPPORTED;
    uint32_t open = 0;
    Channel* const channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    const auto post = [&](const ibv_sge& in_place, void* cookie) {
        return engine.one_sided()->put_word(*channel, {.from = in_place,
                                                       .to = to,
                                                       .word_to = word_to,
                                                       .word = word,
                                                       .rkey = open,
                                                       .cookie = cookie});
    };
    if (const auto put = post_by(uct_ep, *channel, *from, completion, post))
        return put_am_result(*put);
    const size_t length = uct_iov_get_length(from);
    if (length > engine.settings().segment_size) return UCS_ERR_UNSUPPORTED;
    return tern_uct_ep_put_word_bcopy(uct_ep, from->buffer, static_cast<unsigned>(length), to, rkey,
                                      word_to, word);
}
