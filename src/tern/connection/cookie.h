// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// The owner of a work request's cookie, in its lowest three bits: cookies point to objects aligned
// to eight bytes.
enum class CookieKind : uint8_t {
    kUser = 0,   // of the user, unchanged
    kWrite = 1,  // of a transfer
    kRead = 2,   // of a transfer
    kAtomic = 3,
    kRevocation = 4,  // of grants; above these bits is a number, not a pointer
    kRma = 5,
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
// The object whose address the cookie holds.
template <class T>
T& owner_of(const void* cookie) {
    return *reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(cookie) & ~kCookieBits);
}

}  // namespace tern
