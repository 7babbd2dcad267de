// SPDX-License-Identifier: BSD-3-Clause
// The status of UCX for each of Tern's, and what happens when memory is exhausted.
//
// Inside Tern, containers throw std::bad_alloc. No exception
// may reach the C code that calls this library: each of its functions that allocates catches it.
//
//   a function that makes an object or looks one up   logs it, and returns UCS_ERR_NO_MEMORY
//   one of an interface or its endpoints              the same, and the interface fails, because
//                                                     nobody knows what it was about to note down
//
// The functions for short messages and atomics catch nothing, because that would cost them nine
// instructions each. Other functions, which catch it, find their channel and send UCP's requests.
// Apart from that, short messages and atomics allocate only where a lack of memory means that there
// is no room now (SendPool, Atomics, Backlog), and enter channels in lists that have room for all
// (common/make_room.h).
#pragma once

#include <new>

#include "tern/connection/connection.h"
#include "tern/uct/compat.h"

namespace tern {

inline ucs_status_t to_ucs(Status status) {
    switch (status) {
        case Status::kOk:
            return UCS_OK;
        case Status::kInProgress:
            return UCS_INPROGRESS;
        case Status::kNoResource:
            return UCS_ERR_NO_RESOURCE;
        case Status::kTimedOut:
            return UCS_ERR_ENDPOINT_TIMEOUT;
        case Status::kConnectionReset:
        case Status::kPeerClosed:
            return compat::kPeerGone;
        case Status::kRefused:
            return UCS_ERR_UNREACHABLE;
        case Status::kRemoteAccess:
        case Status::kProtocol:
        case Status::kDevice:
            return UCS_ERR_IO_ERROR;
        case Status::kCanceled:
            return UCS_ERR_CANCELED;
    }
    return UCS_ERR_IO_ERROR;
}

// For the `catch` blocks of the first kind. `what`: what failed, for the log.
[[gnu::cold]] ucs_status_t no_memory(const char* what);

// For those of the second kind: ends the interface, as if the device had failed. Its endpoints are
// told by the next calls of progress.
[[gnu::cold]] ucs_status_t out_of_memory(uct_iface_h iface) noexcept;
inline ucs_status_t out_of_memory(uct_ep_h ep) noexcept {
    return out_of_memory(ep->iface);
}

}  // namespace tern
