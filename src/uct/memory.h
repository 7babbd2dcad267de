// SPDX-License-Identifier: BSD-3-Clause
// Handles and keys of memory, as UCT's users hold them.
#pragma once

#include <atomic>
#include <tuple>

#include "pinning/regions/regions.h"
#include "rendezvous/messages.h"
#include "uct/compat.h"
#include "verbs/handles.h"

namespace tern {

/// uct_mem_h: memory that was declared.
struct MemoryHandle {
    Region* region = nullptr;
    /// Memory whose key the program packs is what peers may use at any time. It is registered as it
    /// is when that is done first, and stays so: null before, or if that fails. Written by whoever
    /// packs, under MemoryDomain::opening; any thread may have the handle in a send.
    std::atomic<ibv_mr*> open = nullptr;

    MemoryHandle() = default;
    MemoryHandle(const MemoryHandle&) = delete;
    MemoryHandle& operator=(const MemoryHandle&) = delete;
    ~MemoryHandle() { close(); }

    void close() { verbs::MemoryRegion(open.exchange(nullptr)).reset(); }
};

/// The registration of open memory; null if it has none, as pieces of no bytes may have no handle.
inline const ibv_mr* registration(uct_mem_h memh) {
    const auto* handle = static_cast<const MemoryHandle*>(memh);
    return handle != nullptr ? handle->open.load(std::memory_order_acquire) : nullptr;
}

/// Whether this thread packs a message. A key that is packed meanwhile is UCX's own, of a
/// rendezvous: for one transfer, which pins what it needs. All other keys are the program's. How
/// the memory was declared does not tell: UCX's registration cache hands what a rendezvous declared
/// to programs too.
extern constinit thread_local bool packing_message __attribute__((tls_model("initial-exec")));

class PackingMessage {
  public:
    PackingMessage() { packing_message = true; }
    ~PackingMessage() { packing_message = false; }
    PackingMessage(const PackingMessage&) = delete;
    PackingMessage& operator=(const PackingMessage&) = delete;
};

/// What a key says on the wire.
struct PackedKey {
    WireKey region;
    uint32_t rkey;  ///< of open memory; 0: none
    uint32_t flags;
    static constexpr uint32_t kPinned = 1;  ///< for all that was known when the key was packed
};

/// uct_rkey_t: a peer's memory.
struct RemoteKey {
    WireKey region;
    uint32_t rkey = 0;
    bool pinned = false;

    auto identity() const { return std::tuple(region.index, region.generation, rkey); }
};

/// Of no memory at all, for keys that are none.
inline constexpr RemoteKey kNoMemory{};

inline const RemoteKey& remote_key(uct_rkey_t rkey) {
    if (rkey == 0 || rkey == UCT_INVALID_RKEY) [[unlikely]]
        return kNoMemory;
    return *reinterpret_cast<const RemoteKey*>(rkey);
}

}  // namespace tern
