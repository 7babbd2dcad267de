// SPDX-License-Identifier: BSD-3-Clause
// What the unreliable transport services need besides a queue pair.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "tern/verbs/handles.h"
#include "tern/verbs/port.h"

namespace bench {

constexpr uint32_t kDatagramKey = 0x1234;
// Bytes that a datagram has before its data in the receiver's memory.
constexpr uint32_t kDatagramHeader = 40;

// Bring a queue pair from RESET to RTS, and throw if that fails. `to`: the peer's address vector.
void connect_unreliable(ibv_qp* qp, const tern::verbs::Port& port, const ibv_ah_attr& to,
                        uint32_t peer_qp_number);
// Returns what sends to the peer are addressed by.
tern::verbs::AddressHandle start_datagrams(ibv_qp* qp, ibv_pd* pd, const tern::verbs::Port& port,
                                           ibv_ah_attr to);

}  // namespace bench
