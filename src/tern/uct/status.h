// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

}  // namespace tern
