// SPDX-License-Identifier: BSD-3-Clause
// Packed addresses of ports and interfaces, which peers and launchers hand over.
#include "tern/connection/address.h"

#include <algorithm>
#include <array>

#include "fuzz.h"

using namespace tern;
using fuzz::require;

namespace {

// Of exactly the given size, so that a read behind its end is seen.
std::optional<PortAddress> unpack(std::span<const std::byte> bytes) {
    const std::vector<std::byte> copy(bytes.begin(), bytes.end());
    return PortAddress::unpack(copy);
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    InterfaceAddress interface;
    std::array<std::byte, InterfaceAddress::kPacked> packed_interface;
    const auto first = input.take_bytes(packed_interface.size());
    if (first.size() == packed_interface.size()) {
        interface = InterfaceAddress::unpack(first.data());
        interface.pack(packed_interface.data());
        require(std::ranges::equal(first, packed_interface), "an interface address has two forms");
    }
    // What UCX's connection manager says of a port.
    std::array<std::byte, 32> device{};
    std::ranges::copy(input.take_bytes(input.below(device.size())), device.begin());
    if (const auto port = read_device_address(device.data())) {
        require(port->may_be(*port), "an address is not its own");
        require(port->to_string() != "nowhere", "an address leads nowhere");
    }
    const auto one = unpack(input.take_bytes(input.below(40)));
    const auto other = unpack(input.rest());
    for (const auto& address : {one, other}) {
        if (!address) continue;
        std::array<std::byte, PortAddress::kMaxPacked + 1> packed{};
        require(address->packed_size() <= PortAddress::kMaxPacked, "an address is too long");
        address->pack(packed.data());
        const auto bytes = std::span(packed).first(address->packed_size());
        require(PortAddress::packed_size(packed[0]) == bytes.size(), "the first byte is wrong");
        require(unpack(bytes) == address, "an address changes on its way");
        require(!unpack(bytes.first(bytes.size() - 1)), "a cut address is an address");
        require(!PeerAddress{*address, interface}.to_string().empty(), "an address has no text");
        require(address->unreachable(*address) == nullptr || !address->ethernet,
                "a port does not reach itself");
    }
    if (one && other) {
        require((one->unreachable(*other) == nullptr) == (other->unreachable(*one) == nullptr),
                "one port reaches the other, but not the other way");
        require(*one != *other || PortAddressHash()(*one) == PortAddressHash()(*other),
                "equal addresses have different hashes");
    }
    return 0;
}
