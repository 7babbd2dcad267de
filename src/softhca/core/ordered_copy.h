// SPDX-License-Identifier: BSD-3-Clause
// Copies memory in ascending order, in units that a concurrent reader or writer cannot tear.
#pragma once

#include <atomic>
#include <cstdint>

namespace softhca {

namespace ordered_copy_detail {

using Block __attribute__((vector_size(16), aligned(1), may_alias)) = uint64_t;
constexpr uint64_t kLine = 64;  // copied in one step of a long copy

// Copies one unit with one load and one store.
template <typename Unit>
inline void copy_unit(char*& to, const char*& from, uint64_t& length) {
    using Anywhere __attribute__((aligned(1), may_alias)) = Unit;
    const Unit unit = *reinterpret_cast<const volatile Anywhere*>(from);
    __atomic_store_n(reinterpret_cast<Unit*>(to), unit, __ATOMIC_RELEASE);
    to += sizeof(Unit);
    from += sizeof(Unit);
    length -= sizeof(Unit);
}

// Each store is the longest one of up to 8 bytes that is aligned at the target and fits.
inline void copy_units(char* to, const char* from, uint64_t length) {
    const auto at = reinterpret_cast<uintptr_t>(to);
    if ((at & 7) != 0) {
        if ((at & 1) != 0 && length >= 1) copy_unit<uint8_t>(to, from, length);
        if ((reinterpret_cast<uintptr_t>(to) & 2) != 0 && length >= 2)
            copy_unit<uint16_t>(to, from, length);
        if ((reinterpret_cast<uintptr_t>(to) & 4) != 0 && length >= 4)
            copy_unit<uint32_t>(to, from, length);
    }
    while (length >= 8) copy_unit<uint64_t>(to, from, length);
    if (length >= 4) copy_unit<uint32_t>(to, from, length);
    if (length >= 2) copy_unit<uint16_t>(to, from, length);
    if (length != 0) copy_unit<uint8_t>(to, from, length);
}

}  // namespace ordered_copy_detail

// Copies in ascending order; memcpy() promises no order, and may copy the end first. Each aligned
// unit of 8, 4 or 2 bytes of the target is written by one store. Each aligned unit of the source is
// read by one load if the copy has up to 64 bytes, or if both addresses have the same remainder
// modulo 8.
inline void ordered_copy(char* to, const char* from, uint64_t length) {
    using namespace ordered_copy_detail;
    if (length > kLine) {
        const uint64_t head = -reinterpret_cast<uintptr_t>(to) & 7;
        copy_units(to, from, head);
        to += head;
        from += head;
        length -= head;
    }
    while (length > kLine) {
        for (uint64_t i = 0; i < kLine / sizeof(Block); ++i) {
            reinterpret_cast<Block*>(to)[i] = reinterpret_cast<const Block*>(from)[i];
            std::atomic_thread_fence(std::memory_order_release);
        }
        to += kLine;
        from += kLine;
        length -= kLine;
    }
    const uintptr_t offset = reinterpret_cast<uintptr_t>(from) & 7;
    if ((reinterpret_cast<uintptr_t>(to) & 7) == offset) {
        copy_units(to, from, length);
        return;
    }
    // Reads the source in units that are aligned there.
    alignas(8) char line[kLine + 8];
    copy_units(line + offset, from, length);
    copy_units(to, line + offset, length);
}

}  // namespace softhca
