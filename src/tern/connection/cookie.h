// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// A work request's id leads from its completion to the buffer or connection:
//
//   receive   bit 63 is 1; bits 0..31 the buffer's index
//   send      bit 63 is 0; bits 52..62 generation and bits 32..51 index of the connection;
//             bits 0..31 the number of the work request in its send queue
//
// The generation distinguishes a late completion of a destroyed connection from one of its
// successor.
namespace work_request_id {

inline constexpr uint64_t kReceive = uint64_t{1} << 63;
inline constexpr uint32_t kMaxConnections = 1u << 20;

constexpr uint64_t connection_tag(uint32_t index, uint32_t generation) {
    return uint64_t{generation & 0x7ff} << 52 | uint64_t{index} << 32;
}
constexpr uint64_t receive(uint32_t buffer) {
    return kReceive | buffer;
}
constexpr bool is_receive(uint64_t id) {
    return (id & kReceive) != 0;
}
constexpr uint32_t number(uint64_t id) {
    return static_cast<uint32_t>(id);
}
constexpr uint64_t tag(uint64_t id) {
    return id & ~uint64_t{0xffffffff};
}
constexpr uint32_t index(uint64_t id) {
    return static_cast<uint32_t>(id >> 32) & (kMaxConnections - 1);
}

}  // namespace work_request_id

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
