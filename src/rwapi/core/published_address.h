// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
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

    std::vector<std::byte> pack() const;
    // False: the bytes are not an address of this version.
    bool unpack(std::span<const std::byte> bytes);
    // Whether it has the parts that the address of this process has. UCT takes an address without
    // its length, so a part that is missing would be read nevertheless.
    bool fits(const PublishedAddress& own) const;
};

}  // namespace rwapi
