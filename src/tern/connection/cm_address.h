// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>

#include "tern/connection/address.h"

namespace tern {

// Decodes a device address that UCP hands over: a packed PortAddress, or what UCX's connection
// manager for rdma_cm says of the peer's port. UCP does not send device addresses to peers that are
// connected by socket address; it takes the address of the path that rdma_cm has found, in the form
// of UCX's own InfiniBand transports, for all transports on that device. The result is then
// incomplete: the peer's LID or one of its GIDs. Empty if the bytes are malformed. Reads as many
// bytes as the first byte says.
std::optional<PortAddress> read_device_address(const std::byte* device);

}  // namespace tern
