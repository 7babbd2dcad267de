// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/core/key.h"

#include <bit>
#include <cstring>

namespace rwapi {
namespace {

static_assert(std::endian::native == std::endian::little, "keys go over the wire as they are");

constexpr uint32_t kMagic = 0x314b5752;  // "RWK1"

struct Packed {
    uint32_t magic;
    uint32_t sum;  // of what follows
    uint64_t incarnation;
    uint64_t address;
    uint64_t length;
    uint32_t node;
    uint32_t index;
    uint32_t generation;
    uint32_t slots;
    uint8_t rights;
    uint8_t rkey_length;
    uint16_t zero;
};
constexpr size_t kFixed = 52;
static_assert(offsetof(Packed, zero) + 2 == kFixed && kFixed + Key::kMaxRkey <= RWAPI_KEY_MAX);

// FNV-1a: finds damage, not malice.
uint32_t sum_of(std::span<const std::byte> bytes) {
    uint32_t sum = 2166136261u;
    for (const std::byte byte : bytes) sum = (sum ^ static_cast<uint8_t>(byte)) * 16777619u;
    return sum;
}

}  // namespace

size_t Key::pack(std::span<std::byte> bytes) const {
    const size_t size = kFixed + rkey_length;
    if (bytes.size() < size) return 0;
    Packed packed{kMagic, 0,          incarnation, address, length,      node,
                  index,  generation, slots,       rights,  rkey_length, 0};
    std::memcpy(bytes.data(), &packed, kFixed);
    std::memcpy(bytes.data() + kFixed, rkey.data(), rkey_length);
    packed.sum = sum_of(bytes.subspan(8, size - 8));
    std::memcpy(bytes.data() + offsetof(Packed, sum), &packed.sum, sizeof packed.sum);
    return size;
}

bool Key::unpack(std::span<const std::byte> bytes) {
    Packed packed{};
    if (bytes.size() < kFixed) return false;
    std::memcpy(&packed, bytes.data(), kFixed);
    if (packed.magic != kMagic || packed.rkey_length > kMaxRkey || packed.zero != 0 ||
        packed.rights > RWAPI_ALL || bytes.size() != kFixed + packed.rkey_length ||
        packed.sum != sum_of(bytes.subspan(8)) || packed.address + packed.length < packed.address)
        return false;
    incarnation = packed.incarnation;
    address = packed.address;
    length = packed.length;
    node = packed.node;
    index = packed.index;
    generation = packed.generation;
    slots = packed.slots;
    rights = packed.rights;
    rkey_length = packed.rkey_length;
    std::memcpy(rkey.data(), bytes.data() + kFixed, rkey_length);
    return true;
}

}  // namespace rwapi
