// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tern::base {

inline constexpr size_t kFewBytes = 32;

struct Sixteen {
    uint64_t words[2];
};

// Copies the first and the last sizeof(T) bytes, which may overlap.
template <class T>
[[gnu::always_inline]] inline void copy_ends(std::byte* to, const std::byte* from, size_t length) {
    T first, last;
    memcpy(&first, from, sizeof(T));
    memcpy(&last, from + length - sizeof(T), sizeof(T));
    memcpy(to, &first, sizeof(T));
    memcpy(to + length - sizeof(T), &last, sizeof(T));
}

// Copies at most kFewBytes bytes, without a call: a caller would have to keep its registers for
// memcpy().
[[gnu::always_inline]] inline void copy_few(std::byte* to, const void* from, size_t length) {
    const auto* const source = static_cast<const std::byte*>(from);
    if (length == 0) return;
    if (length >= 16)
        copy_ends<Sixteen>(to, source, length);
    else if (length >= 8)
        copy_ends<uint64_t>(to, source, length);
    else if (length >= 4)
        copy_ends<uint32_t>(to, source, length);
    else if (length >= 2)
        copy_ends<uint16_t>(to, source, length);
    else
        *to = *source;
}

// Copies a message of any length that fits into a work request.
[[gnu::always_inline]] inline void copy_short(std::byte* to, const void* from, size_t length) {
    const auto* source = static_cast<const std::byte*>(from);
    while (__builtin_expect(length > kFewBytes, 0)) {
        Sixteen bytes;
        memcpy(&bytes, source, sizeof(bytes));
        memcpy(to, &bytes, sizeof(bytes));
        source += sizeof(bytes);
        to += sizeof(bytes);
        length -= sizeof(bytes);
    }
    copy_few(to, source, length);
}

}  // namespace tern::base
