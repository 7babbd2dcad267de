// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "rwapi/core/messages.h"
#include "rwapi/engine/peer.h"
#include "rwapi/engine/region.h"
#include "rwapi/engine/self.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

// Posts parts of operations to UCT. All peers are ready. Functions return what UCT does: UCS_OK,
// UCS_INPROGRESS (the operation's completion will be called), UCS_ERR_NO_RESOURCE (the send queue
// is full: again later), or an error.
class Posting {
  public:
    Posting(const Self& self, const Transport& transport)
        : transport_(transport), header_{self.rank, 0, 0, 0} {}

    // Reads RWAPI_NOTIFY. The transport is open. 0 or an RWAPI_ERR_*.
    int open();

    // Posts a put that UCT copies at once, with its notification, so that it needs no operation.
    // False: nothing is posted.
    bool post_short(const RemoteRegion& region, const Transfer& transfer) const {
        TERN_ASSERT(region.peer->can_post());
        if (transfer.kind != NotificationKind::kNone)
            return post_notified(region, transfer, notification_of(region, transfer)) == UCS_OK;
        return transfer.length <= put_short_max_ &&
               uct_ep_put_short(region.peer->connection.endpoint.get(), transfer.local,
                                static_cast<unsigned>(transfer.length),
                                region.key.address + transfer.offset, region.rkey.rkey) == UCS_OK;
    }
    // Posts short data and their notification together. UCS_ERR_UNSUPPORTED: nothing is posted, and
    // they must be posted one after the other.
    ucs_status_t post_notified(const RemoteRegion& region, const Transfer& transfer,
                               const Notification& notification) const;
    static Notification notification_of(const RemoteRegion& region, const Transfer& transfer) {
        return {region.key.index, region.key.generation, transfer.length, transfer.place,
                transfer.value};
    }

    // The data of an operation. Parts that were posted before are left out.
    ucs_status_t post_put(Operation& operation) const;
    ucs_status_t post_get(Operation& operation) const;
    // Makes later sends to the peer take effect after the operation's data: by a fence or a flush
    // (RWAPI_NOTIFY).
    ucs_status_t post_order(Operation& operation) const;
    ucs_status_t post_flush(Operation& operation) const;
    ucs_status_t post_notification(const Operation& operation) const;

  private:
    ucs_status_t register_local(Operation& operation) const;
    uint64_t header_of(NotificationKind kind) const {
        Header header = header_;
        header.kind = static_cast<uint8_t>(kind);
        return header.pack();
    }

    const Transport& transport_;
    const Header header_;  // of this process's notifications
    bool flush_before_notification_ = false;
    Transport::PutAm put_am_ = nullptr;  // null: post_notified() is not possible
    size_t put_short_max_ = 0;
};

}  // namespace rwapi
