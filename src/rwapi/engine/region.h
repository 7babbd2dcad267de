// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <uct/api/uct.h>

#include <cstddef>
#include <cstdint>

#include "rwapi/core/key.h"
#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"

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
};

// Memory of this process that the user has registered.
struct OwnRegion {
    std::byte* address = nullptr;
    uint64_t length = 0;
    uct_mem_h memory = nullptr;
    uint64_t handle = 0;
    uint64_t counter = 0;  // handle; 0: none
    uint32_t users = 0;    // operations of this process
    int rights = 0;
    bool allocated = false;  // by rwapi_alloc
};

// Memory of a peer, whose key has come. Exists until the owner uses its place again for another
// region, and as long as operations use it.
struct RemoteRegion {
    Key key;
    uct_rkey_bundle_t rkey{};
    Peer* peer = nullptr;
    uint64_t name = 0;
    uint64_t check = 0;   // of its network addresses
    uint32_t users = 1;   // the peer's keys, until another one replaces it, and operations
    bool has_key = true;  // false: the owner has no such region, and it is stale
    bool stale = false;   // the owner has deregistered the memory
};

}  // namespace rwapi
