// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include "rwapi/core/messages.h"

namespace rwapi {

// The address that a process publishes by its launcher, in its parts. What a launcher returns is
// not trusted: it may be of another version, or damaged.
struct PublishedAddress {
    static constexpr size_t kMostOfPart = 255;  // bytes

    AddressHeader header{};  // pack() sets the lengths and the magic number
    // Of the device and of the interface, and the same of the wireup interface.
    std::array<std::vector<std::byte>, 4> parts;

    std::vector<std::byte> pack() const {
        AddressHeader fixed = header;
        fixed.magic = AddressHeader::kMagic;
        for (size_t i = 0; i < parts.size(); ++i)
            fixed.lengths[i] = static_cast<uint8_t>(parts[i].size());
        const auto head = bytes_of(fixed);
        std::vector<std::byte> bytes(head.begin(), head.end());
        for (const auto& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
        return bytes;
    }
    // False: the bytes are not an address of this version.
    bool unpack(std::span<const std::byte> bytes) {
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
    // Whether it has the parts that the address of this process has. UCT takes an address without
    // its length, so a part that is missing would be read nevertheless.
    bool fits(const PublishedAddress& own) const {
        return std::ranges::equal(parts, own.parts, {}, &std::vector<std::byte>::empty,
                                  &std::vector<std::byte>::empty);
    }
};

}  // namespace rwapi
