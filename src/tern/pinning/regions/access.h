// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace tern {

// Rights to memory: of this process's own transfers (local), and of peers (remote).
enum Access : unsigned {
    kLocalRead = 1u << 0,
    kLocalWrite = 1u << 1,
    kRemoteGet = 1u << 2,
    kRemotePut = 1u << 3,
    kRemoteAtomic = 1u << 4,
    kRemoteAll = kRemoteGet | kRemotePut | kRemoteAtomic,
};

// Whether these rights allow the bytes to change.
constexpr bool writes(unsigned access) {
    return (access & (kLocalWrite | kRemotePut | kRemoteAtomic)) != 0;
}

}  // namespace tern
