// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/core/published_address.h"

#include <algorithm>
#include <cstring>

namespace rwapi {

std::vector<std::byte> PublishedAddress::pack() const {
    AddressHeader fixed = header;
    fixed.magic = AddressHeader::kMagic;
    for (size_t i = 0; i < parts.size(); ++i)
        fixed.lengths[i] = static_cast<uint8_t>(parts[i].size());
    const auto head = bytes_of(fixed);
    std::vector<std::byte> bytes(head.begin(), head.end());
    for (const auto& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    return bytes;
}

bool PublishedAddress::unpack(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.transport.back() = '\0';
    size_t left = bytes.size() - sizeof header;
    for (const uint8_t length : header.lengths) left -= length;  // wraps if it is too short
    if (header.magic != AddressHeader::kMagic || left != 0) return false;
    const std::byte* at = bytes.data() + sizeof header;
    for (size_t i = 0; i < parts.size(); at += header.lengths[i++])
        parts[i].assign(at, at + header.lengths[i]);
    return true;
}

bool PublishedAddress::fits(const PublishedAddress& own) const {
    return std::ranges::equal(parts, own.parts, {}, &std::vector<std::byte>::empty,
                              &std::vector<std::byte>::empty);
}

}  // namespace rwapi
