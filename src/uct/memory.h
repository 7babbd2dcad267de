// SPDX-License-Identifier: BSD-3-Clause
// Handles and keys of memory, as UCT's users hold them.
#pragma once

#include "pinning/regions.h"
#include "rendezvous/messages.h"
#include "uct/compat.h"
#include "verbs/handles.h"

namespace tern {

/// uct_mem_h: memory that was declared.
struct MemoryHandle {
    Region* region = nullptr;
    /// Memory that is declared for all there is, atomic operations included, is what programs give
    /// their peers to use at any time. It is registered as it is when its key is first packed, and
    /// stays so: null before, or if that fails.
    verbs::MemoryRegion open;
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
};

inline const RemoteKey& remote_key(uct_rkey_t rkey) {
    return *reinterpret_cast<const RemoteKey*>(rkey);
}

}  // namespace tern
