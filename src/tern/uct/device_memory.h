// SPDX-License-Identifier: BSD-3-Clause
// Memory of another device, a GPU say: it is registered at once, as a DMA buffer, and no processor
// may touch it. So what the transport does by copies elsewhere, it does here by the device.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/engine/engine.h"
#include "tern/uct/compat.h"
#include "tern/uct/memory.h"
#include "tern/uct/status.h"

namespace tern {

// Whether the device takes DMA buffers.
bool takes_dma_buffers(const verbs::Device& device);
// Declares the memory of a DMA buffer, registers it, and opens it to peers that get its key.
ucs_status_t register_device_memory(MemoryDomain& domain, void* address, size_t length,
                                    unsigned access, const compat::DmaBuffer& buffer,
                                    uct_mem_h* memh);

// UCP 1.13 leaves the handle of an empty piece undefined.
inline bool is_of_device(const uct_iov_t& piece) {
    if (uct_iov_get_length(&piece) == 0) return false;
    const auto* handle = static_cast<const MemoryHandle*>(piece.memh);
    return handle != nullptr && handle->of_device != nullptr;
}
// Whether a piece is in memory of another device.
[[gnu::always_inline]] inline bool touches_device(const uct_iov_t* iov, size_t count) {
    if (count == 1) [[likely]]
        return is_of_device(*iov);
    return std::any_of(iov, iov + count, is_of_device);
}

// Puts and gets of such memory. Several pieces must all be registered, and the peer's memory must
// be open; one piece may be of any memory, and go to any.
ucs_status_t put_from_device(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t to,
                             const RemoteKey& key, uct_completion_t* completion);
ucs_status_t get_to_device(uct_ep_h ep, const uct_iov_t* iov, size_t count, uint64_t from,
                           const RemoteKey& key, uct_completion_t* completion);

// An active message with pieces in such memory. `fill` writes the header; see
// FastPath::am_gathered().
template <class Fill>
[[gnu::noinline, gnu::cold]] ucs_status_t send_from_device(Engine& engine, Channel& channel,
                                                           uint32_t id, size_t header, Fill&& fill,
                                                           const uct_iov_t* iov, size_t count,
                                                           uct_completion_t* completion) {
    FastPath::Piece pieces[engine_limits::kPieces];
    size_t used = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t length = uct_iov_get_length(&iov[i]);
        if (length == 0) continue;
        const ibv_mr* const registered = registration(iov[i].memh);
        pieces[used++] = {.memory = {.addr = address_of(iov[i].buffer),
                                     .length = static_cast<uint32_t>(length),
                                     .lkey = registered != nullptr ? registered->lkey : 0},
                          .copied = registered == nullptr};
    }
    return to_ucs(engine.fast_path()->am_gathered(channel, id, static_cast<uint32_t>(header), fill,
                                                  {pieces, used}, completion));
}

}  // namespace tern
