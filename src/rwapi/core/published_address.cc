// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/core/published_address.h"

#include <cstring>

namespace rwapi {
namespace {

std::vector<std::byte> split_off(std::span<const std::byte>& bytes, size_t length) {
    std::vector<std::byte> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length));
    bytes = bytes.subspan(length);
    return part;
}

}  // namespace

std::vector<std::byte> PublishedAddress::pack() const {
    AddressHeader fixed = header;
    fixed.magic = AddressHeader::kMagic;
    fixed.device_length = static_cast<uint8_t>(device.size());
    fixed.interface_length = static_cast<uint8_t>(interface.size());
    fixed.wireup_device_length = static_cast<uint8_t>(wireup_device.size());
    fixed.wireup_interface_length = static_cast<uint8_t>(wireup_interface.size());
    const auto head = std::as_bytes(std::span(&fixed, 1));
    std::vector<std::byte> bytes(head.begin(), head.end());
    for (const auto* part : {&device, &interface, &wireup_device, &wireup_interface})
        bytes.insert(bytes.end(), part->begin(), part->end());
    return bytes;
}

bool PublishedAddress::unpack(std::span<const std::byte> bytes) {
    if (bytes.size() < sizeof header) return false;
    std::memcpy(&header, bytes.data(), sizeof header);
    header.transport.back() = '\0';
    const size_t parts = size_t{header.device_length} + header.interface_length +
                         header.wireup_device_length + header.wireup_interface_length;
    if (header.magic != AddressHeader::kMagic || bytes.size() != sizeof header + parts)
        return false;
    bytes = bytes.subspan(sizeof header);
    device = split_off(bytes, header.device_length);
    interface = split_off(bytes, header.interface_length);
    wireup_device = split_off(bytes, header.wireup_device_length);
    wireup_interface = split_off(bytes, header.wireup_interface_length);
    return true;
}

bool PublishedAddress::fits(const PublishedAddress& own) const {
    return device.empty() == own.device.empty() && interface.empty() == own.interface.empty() &&
           wireup_device.empty() == own.wireup_device.empty() &&
           wireup_interface.empty() == own.wireup_interface.empty();
}

}  // namespace rwapi
