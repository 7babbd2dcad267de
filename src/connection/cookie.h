// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// Whose the cookie of a work request is, in its lowest three bits: what it points to is aligned to
// eight bytes.
enum class CookieKind : uint8_t {
    kUser = 0,        // to be told as it is
    kWrite = 1,       // of a transfer
    kRead = 2,        // of a transfer
    kAtomic = 3,      // an atomic operation
    kRevocation = 4,  // of grants: no pointer, but a number above these bits
};

constexpr uintptr_t kCookieBits = 7;

inline CookieKind kind_of(const void* cookie) {
    return static_cast<CookieKind>(reinterpret_cast<uintptr_t>(cookie) & kCookieBits);
}
inline void* make_cookie(CookieKind kind, uintptr_t value) {
    return reinterpret_cast<void*>(value | static_cast<uintptr_t>(kind));
}
inline void* make_cookie(CookieKind kind, const void* owner) {
    return make_cookie(kind, reinterpret_cast<uintptr_t>(owner));
}
// The object that a cookie was made of.
template <class T>
T& owner_of(const void* cookie) {
    return *reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(cookie) & ~kCookieBits);
}

}  // namespace tern
