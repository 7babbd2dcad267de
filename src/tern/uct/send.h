// SPDX-License-Identifier: BSD-3-Clause
// Shared by sends of all kinds. Data path.
#pragma once

#include <span>

#include "common/assert.h"
#include "tern/engine/engine.h"
#include "tern/uct/iface.h"

namespace tern {

// The channel to send on. Null: `status` is the reason.
inline Channel* channel_for(TernEp& ep, ucs_status_t& status) {
    Channel* channel = ep.ready;
    TERN_ASSERT(channel == nullptr || (channel == ep.channel && ep.failed == UCS_OK));
    return channel != nullptr ? channel : find_channel(ep, status);
}

// Whether UCX has the level trace_data.
inline constexpr bool kDumpsMessages = UCS_LOG_LEVEL_TRACE_DATA <= UCS_MAX_LOG_LEVEL;

// Writes an active message to the log at trace_data, with the user's description of it. UCX without
// that level compiles no code for this, as in its own transports.
[[gnu::always_inline]] inline void dump_message(TernIface& iface, uct_am_trace_type_t type,
                                                uint8_t id, const void* data, size_t length,
                                                const char* how) {
    uct_iface_trace_am(&iface.super, type, id, data, length, "%s", how);
}

inline size_t total(const uct_iov_t* iov, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += uct_iov_get_length(&iov[i]);
    return length;
}

// Sends `header` and the memory of `iov` as one message, gathered by the device if all of that
// memory is registered, or if the message is a full frame and its memory is pinned. `id`: as for
// Engine's sends.
ucs_status_t send_zcopy(TernIface& iface, Channel& channel, uint32_t id,
                        std::span<const std::byte> header, const uct_iov_t* iov, size_t count,
                        uct_completion_t* completion);

// Requests to send that are UCP's own: the transport only carries them, but makes early copies of
// the messages that they announce (keys.cc).
// To be called before a message with the id compat::kUcpRequestToSend is packed.
void request_begins();
// To be called when the message has been sent. Copies the beginning of the message that it
// announces, if it is a request to send of UCP with the one key that has been packed since it
// began.
void request_sent(TernIface& iface, Channel& channel);
// To be called when a message has been sent that UCP packed before the call: it must contain the
// key.
void request_sent(TernIface& iface, Channel& channel, std::span<const std::byte> message);

}  // namespace tern
