// SPDX-License-Identifier: BSD-3-Clause
#include "uct/put_am.h"

#include "uct/md.h"
#include "uct/send.h"

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

}  // namespace
}  // namespace tern

ucs_status_t tern_uct_ep_put_am_short(uct_ep_h uct_ep, const void* data, unsigned length,
                                      uint64_t to, uct_rkey_t rkey, uint8_t id, uint64_t header,
                                      const void* payload, unsigned payload_length) {
    using namespace tern;
    Engine& engine = *iface_of(uct_ep).engine;
    UCT_CHECK_AM_ID(id);
    UCT_CHECK_LENGTH(length, 0, engine.max_inline(), "put_am_short");
    UCT_CHECK_LENGTH(payload_length, 0, engine.max_short(), "put_am_short");
    uint32_t open = 0;
    Channel* channel = channel_at_once(uct_ep, rkey, open);
    if (channel == nullptr) return UCS_ERR_UNSUPPORTED;
    const Status sent = engine.put_am_short(
        *channel, {static_cast<const std::byte*>(data), length}, to, open, id,
        static_cast<uint32_t>(sizeof(header) + payload_length), [=](std::byte* at) {
            memcpy(at, &header, sizeof(header));
            if (payload_length != 0) memcpy(at + sizeof(header), payload, payload_length);
        });
    return sent == Status::kNoResource ? UCS_ERR_UNSUPPORTED : to_ucs(sent);
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
    const Status sent = engine.one_sided()->put_word_short(
        *channel, {static_cast<const std::byte*>(data), length}, to, word_to, word, open);
    return sent == Status::kNoResource ? UCS_ERR_UNSUPPORTED : to_ucs(sent);
}
