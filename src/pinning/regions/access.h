// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// What may be done with memory: by this process's own transfers, and by peers.
enum Access : unsigned {
    kLocalRead = 1u << 0,
    kLocalWrite = 1u << 1,
    kRemoteGet = 1u << 2,
    kRemotePut = 1u << 3,
    kRemoteAtomic = 1u << 4,
    kRemoteAll = kRemoteGet | kRemotePut | kRemoteAtomic,
};

// Whether the bytes can change by it.
constexpr bool writes(unsigned access) {
    return (access & (kLocalWrite | kRemotePut | kRemoteAtomic)) != 0;
}

}  // namespace tern
