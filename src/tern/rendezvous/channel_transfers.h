// SPDX-License-Identifier: BSD-3-Clause
// What the rendezvous knows of a channel.
#pragma once

#include <cstdint>

#include "tern/engine/channel.h"

namespace tern {

struct Transfer;

struct ChannelTransfers {
    // The operations of this side's users, oldest first.
    Transfer* first;
    Transfer* last;
    uint32_t rings;  // lent to transfers from the peer
    // The transfers that the peer has asked for, in each direction.
    uint32_t incoming;
    uint32_t outgoing;
    // The number of this side's operations that have failed while the connection has not, and the
    // status of the last one.
    uint32_t failures;
    Status failure;
    // Whether the peer could read the message that was announced to it last, and whether the peer
    // asks for readable messages nevertheless, because its buffers are new.
    bool readable;
    bool fetches;
};
static_assert(Status{} == Status::kOk);

inline ChannelTransfers& transfers_on(Channel& channel) {
    return channel.transfers_state.as<ChannelTransfers>();
}
inline const ChannelTransfers& transfers_on(const Channel& channel) {
    return channel.transfers_state.as<ChannelTransfers>();
}

}  // namespace tern
