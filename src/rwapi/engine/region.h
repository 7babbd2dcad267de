// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/api/uct.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "rwapi/core/key.h"
#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"
#include "rwapi/engine/operation.h"

namespace rwapi {

struct Peer;

// What a put or get asks for.
struct Transfer {
    uint64_t name;  // of the region
    uint64_t offset;
    std::byte* local;
    size_t length;
    NotificationKind kind = NotificationKind::kNone;
    uint64_t place = 0;
    uint64_t value = 0;

    // To or from the memory `offset` bytes after an address.
    static Transfer of(const rwapi_net& net, uint64_t offset, const void* local, size_t length) {
        return {net.word[0], NetAddress::offset_of(net, offset),
                static_cast<std::byte*>(const_cast<void*>(local)), length};
    }
};

// What is to be posted next of an operation.
inline Transfer transfer_of(const Operation& operation) {
    return {operation.target.name,       operation.target.offset, operation.local.memory,
            operation.local.length,      operation.kind,          operation.notification.place,
            operation.notification.value};
}

// Memory of this process that the user has registered.
struct OwnRegion {
    std::byte* address = nullptr;
    uint64_t length = 0;
    uct_mem_h memory = nullptr;
    uint64_t handle = 0;
    uint32_t users = 0;  // operations of this process
    int rights = 0;
    bool allocated = false;  // by rwapi_alloc

    // Whether peers may change the word at this offset.
    [[gnu::always_inline]] bool has_word(uint64_t offset) const {
        return (rights & RWAPI_SIGNAL) && within(offset, sizeof(uint64_t), length) &&
               reinterpret_cast<uintptr_t>(address + offset) % sizeof(uint64_t) == 0;
    }
};

// Memory of a peer, whose key has come. Exists until the owner uses its place again for another
// region, and as long as operations use it.
struct RemoteRegion {
    // What a put in the usual case needs comes first.
    uint64_t name = 0;
    uint64_t origin = 0;        // word 1 of the network address of its begin
    uint64_t put_end = 0;       // puts up to this offset are permitted and usual; 0: none
    uint64_t signal_words = 0;  // and so are signals to the words of 64 bits below this number
    Peer* peer = nullptr;
    uct_rkey_bundle_t rkey{};
    Key key{};
    uint32_t users = 1;   // the peer's keys, until another one replaces it, and operations
    bool has_key = true;  // false: the owner has no such region, and it is stale
    bool stale = false;   // the owner has deregistered the memory

    // Whether the byte that is `last` bytes behind `offset` from a network address lies before
    // `end`; `at` is where `offset` is in the region. False also for addresses that were not made
    // by the owner. word: the second one of the address.
    [[gnu::always_inline]] bool place(uint64_t word, uint64_t offset, size_t last, uint64_t end,
                                      uint64_t& at) const {
        return last < end && !__builtin_add_overflow(word - origin, offset, &at) && at < end - last;
    }
    // place() for a word that a signal changes. By one compare: in an offset that is no multiple
    // of 8, the lowest bits come first.
    [[gnu::always_inline]] bool place_word(uint64_t word, uint64_t offset, uint64_t& at) const {
        return !__builtin_add_overflow(word - origin, offset, &at) &&
               std::rotr(at, 3) < signal_words;
    }
    // The key has come. Of an address that the owner has not made, word 1 differs from `origin` by
    // more than the longest offset.
    void permit() {
        if (!(key.rights & RWAPI_WRITE)) return;
        put_end = std::min(key.length, NetAddress::kMaxOffset);
        // Of memory that begins elsewhere, the offsets of words are no multiples of 8.
        if ((key.rights & RWAPI_SIGNAL) && key.address % sizeof(uint64_t) == 0)
            signal_words = put_end / sizeof(uint64_t);
    }
    // Nothing is permitted any more.
    void make_stale() {
        stale = true;
        put_end = signal_words = 0;
        key.length = 0;
        key.rights = 0;
    }
};

}  // namespace rwapi
