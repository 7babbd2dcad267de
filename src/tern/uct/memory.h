// SPDX-License-Identifier: BSD-3-Clause
// Memory handles and remote keys, as UCT's users hold them.
#pragma once

#include <atomic>
#include <span>
#include <tuple>
#include <vector>

#include "tern/pinning/cache/pin_table.h"
#include "tern/pinning/regions/regions.h"
#include "tern/rendezvous/rendezvous.h"
#include "tern/uct/compat.h"
#include "tern/verbs/handles.h"

namespace tern {

struct MemoryDomain;

// uct_mem_h: declared memory.
struct MemoryHandle {
    Region* region = nullptr;
    // The registration of open memory. It is made when the program first packs a key of the
    // memory, because peers may then use the memory at any time, and is kept. Null: no such key
    // was packed, or the device refused. Written by the thread that packs, under
    // MemoryDomain::opening; other threads may use the handle in a send at the same time.
    std::atomic<ibv_mr*> open = nullptr;
    // The program has packed a key of the memory, so that peers may access it at any time, open or
    // not. It stays so.
    std::atomic<bool> published = false;
    // Memory of another device was registered when it was declared; this is its pin, with a
    // reference, to which the registration in `open` belongs. Null: memory of the host.
    Pin* of_device = nullptr;
    // The pins whose rkeys were packed for messages, each with a reference: peers may read by them
    // until the declaration ends. Under MemoryDomain::opening.
    std::vector<Pin*> lent;

    MemoryHandle() = default;
    MemoryHandle(const MemoryHandle&) = delete;
    MemoryHandle& operator=(const MemoryHandle&) = delete;
    ~MemoryHandle() { close(); }

    // Whether no key was packed. For the thread that ends the declaration.
    bool is_as_new() const {
        return !published.load(std::memory_order_relaxed) && lent.empty() &&
               open.load(std::memory_order_relaxed) == nullptr;
    }
    void close() {
        ibv_mr* const registered = open.exchange(nullptr);
        if (of_device == nullptr) verbs::MemoryRegion(registered).reset();
    }
};

// The registration of open memory, or null. `memh` may be null: empty pieces need no handle.
inline const ibv_mr* registration(uct_mem_h memh) {
    const auto* handle = static_cast<const MemoryHandle*>(memh);
    return handle != nullptr ? handle->open.load(std::memory_order_acquire) : nullptr;
}

// A key on the wire.
struct PackedKey {
    WireKey region;
    uint32_t rkey;  // of open memory; with kReadOnly, of a pin; 0: none
    uint32_t flags;
    static constexpr uint32_t kPinned = 1;   // when packed: memory is pinned, or soon will be
    static constexpr uint32_t kReplies = 2;  // the owner understands an Ack with a Reply
    // The rkey is of a pin: valid for reads, until the message is over. Earlier versions treat it
    // as one of open memory, but they only read an announced message.
    static constexpr uint32_t kReadOnly = 4;

    bool has(uint32_t flag) const { return (flags & flag) != 0; }
};

// A packing of a key.
struct Packing {
    PackedKey key{};
    const MemoryDomain* domain = nullptr;
    Announced message;            // the memory, if the key was packed for a request to send
    std::span<std::byte> buffer;  // the whole of it, for note_use()
    bool published = false;
    // Whether the message may be copied early: only its receiver has a key, and the message's
    // memory is known.
    bool copyable() const { return !published && message.length != 0; }
};

// The keys that a thread has packed with mkey_pack.
struct PackedKeys {
    unsigned count = 0;  // since it was set to 0
    Packing last;
};
extern constinit thread_local PackedKeys packed_keys;

// uct_rkey_t: a key to a peer's memory.
struct RemoteKey {
    constexpr RemoteKey() = default;
    explicit RemoteKey(const PackedKey& packed)
        : region(packed.region),
          rkey(packed.has(PackedKey::kReadOnly) ? 0 : packed.rkey),
          read_rkey(packed.rkey),
          source{
              .pinned = packed.has(PackedKey::kPinned),
              .readable = packed.has(PackedKey::kReadOnly) ? Reason::kReused : Reason::kOpenMemory},
          replies(packed.has(PackedKey::kReplies)) {}

    WireKey region;
    uint32_t rkey = 0;       // of open memory
    uint32_t read_rkey = 0;  // of open memory, or of a message's
    Source source;
    bool replies = false;

    // The rkey to read the memory with; 0: its owner is to write.
    uint32_t to_read(const Rendezvous& rendezvous, std::span<const Buffers::Piece> to) const {
        return rendezvous.rkey_to_read(rkey, read_rkey, to);
    }

    auto identity() const { return std::tuple(region.index, region.generation, rkey); }
};

// Stands for null and invalid keys; refers to no memory.
inline constexpr RemoteKey kNoMemory{};

inline const RemoteKey& remote_key(uct_rkey_t rkey) {
    if (rkey == 0 || rkey == UCT_INVALID_RKEY) [[unlikely]]
        return kNoMemory;
    return *reinterpret_cast<const RemoteKey*>(rkey);
}

}  // namespace tern
