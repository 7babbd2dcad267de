// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/core/key.h"

#include <bit>
#include <cstring>

namespace rwapi {
namespace {

static_assert(std::endian::native == std::endian::little, "keys go over the wire as they are");

constexpr size_t kFixed = offsetof(Key, rkey);
// No padding: its bytes would be undefined.
static_assert(kFixed == 52 && kFixed + Key::kMaxRkey <= Key::kMaxBytes);

// FNV-1a. It detects accidental damage, not forged keys.
uint32_t sum_of(std::span<const std::byte> bytes) {
    uint32_t sum = 2166136261u;
    for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint8_t>(byte)) * 16777619u;
    return sum;
}

}  // namespace

size_t Key::bytes(size_t rkey_length) {
    return kFixed + rkey_length;
}

size_t Key::pack(std::span<std::byte> bytes) const {
    const size_t size = Key::bytes(rkey_length);
    if (bytes.size() < size) return 0;
    std::memcpy(bytes.data(), this, size);
    const uint32_t sum_of_bytes = sum_of(bytes.subspan(offsetof(Key, incarnation), size - 8));
    std::memcpy(bytes.data() + offsetof(Key, sum), &sum_of_bytes, sizeof sum_of_bytes);
    return size;
}

bool Key::unpack(std::span<const std::byte> bytes) {
    Key key{};
    if (bytes.size() < kFixed || bytes.size() > kFixed + kMaxRkey) return false;
    std::memcpy(&key, bytes.data(), bytes.size());
    if (key.magic != kMagic || bytes.size() != kFixed + key.rkey_length ||
        key.zero != decltype(zero){} || (key.rights & ~kRights) != 0 ||
        key.sum != sum_of(bytes.subspan(offsetof(Key, incarnation))) ||
        key.address + key.length < key.address)
        return false;
    *this = key;
    return true;
}

}  // namespace rwapi
