// SPDX-License-Identifier: BSD-3-Clause
#include "engine/send_room.h"

#include "connection/connector.h"
#include "engine/owner.h"
#include "engine/work_requests.h"

namespace tern {

Status SendRoom::no_place(const Channel& channel) {
    if (channel.up() && !channel.failed) ++refused_;
    return Status::kNoResource;
}

// The last work request of a connection may be unsignaled; only a later signaled one reports its
// completion, so each such connection gets one.
Status SendRoom::no_buffer() {
    ++refused_;
    if (pool_.refused() && !warned_send_pool_) {
        warned_send_pool_ = true;
        owner_.warn(
            "cannot register more memory for the send pool: raise the limit of locked memory "
            "(ulimit -l) or lower UCX_TERN_TX_BUFFERS");
    }
    connector_.table().for_each([this](Connection& connection) {
        if (connection.up()) requests_.report_all(static_cast<Channel&>(connection));
    });
    return Status::kNoResource;
}

}  // namespace tern
