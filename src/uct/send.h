// SPDX-License-Identifier: BSD-3-Clause
// Shared by sends of all kinds. Data path.
#pragma once

#include <span>

#include "engine/engine.h"
#include "uct/iface.h"

namespace tern {

// The channel to send on. Null: `status` says why.
inline Channel* channel_for(TernEp& ep, ucs_status_t& status) {
    Channel* channel = ep.ready;
    return channel != nullptr ? channel : find_channel(ep, status);
}

inline size_t total(const uct_iov_t* iov, size_t count) {
    size_t length = 0;
    for (size_t i = 0; i < count; ++i) length += uct_iov_get_length(&iov[i]);
    return length;
}

// Sends `header` and the memory of `iov` as one message, gathered by the device if all of that
// memory is registered. `id`: as for Engine's sends.
ucs_status_t send_zcopy(Engine& engine, Channel& channel, uint32_t id,
                        std::span<const std::byte> header, const uct_iov_t* iov, size_t count,
                        uct_completion_t* completion);

}  // namespace tern
