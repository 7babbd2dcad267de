// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "rwapi/core/messages.h"
#include "rwapi/engine/peer.h"
#include "rwapi/engine/region.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

struct Piece;

// Posts parts of operations to UCT. All peers are ready. Functions return what UCT does: UCS_OK,
// UCS_INPROGRESS (the operation's completion will be called), UCS_ERR_NO_RESOURCE (the send queue
// is full: again later), or an error.
class Posting {
  public:
    Posting(const Self& self, const Transport& transport) : transport_(transport) {
        for (size_t kind = 0; kind < headers_.size(); ++kind)
            headers_[kind] = Header{self.rank, 0, static_cast<uint8_t>(kind), 0}.pack();
    }

    // Reads RWAPI_NOTIFY. The transport is open. 0 or an RWAPI_ERR_*.
    int open();

    // Posts a put in the usual case: of few bytes, to a peer that takes them at once, with its
    // notification, if that goes by one call of UCT. `at`: in the region, and permitted; `last`:
    // one byte less than there are; `place`: as in Notification. Anything but UCS_OK: nothing is
    // posted; the other functions may.
    template <NotificationKind kind>
    [[gnu::always_inline]] ucs_status_t post_usual(const RemoteRegion& region, uint64_t at,
                                                   const std::byte* local, size_t last,
                                                   const auto& place, const uint64_t& value) const {
        Peer& peer = *region.peer;
        if (!peer.can_post()) [[unlikely]]
            return UCS_ERR_UNSUPPORTED;
        // What is computed here, and not in each branch, would need a register more.
        const auto& endpoint = peer.connection.endpoint;
        if constexpr (kind == NotificationKind::kNone) {
            if (last >= put_short_max_) [[unlikely]]
                return UCS_ERR_UNSUPPORTED;
            return uct_ep_put_short(endpoint.get(), local, static_cast<unsigned>(last + 1),
                                    region.key.address + at, region.rkey.rkey);
        }
        if (kind == NotificationKind::kSet && (region.key.rights & RWAPI_POLLED)) {
            if (last >= word_behind_max_) [[unlikely]]
                return UCS_ERR_UNSUPPORTED;
            return together_.put_word(endpoint.get(), local, static_cast<unsigned>(last + 1),
                                      region.key.address + at, region.rkey.rkey,
                                      region.key.address + place, value);
        }
        if (last >= put_then_max_) [[unlikely]]
            return UCS_ERR_UNSUPPORTED;
        const Notification notification{region_of(region), last + 1, place, value};
        return together_.put_am(endpoint.get(), local, static_cast<unsigned>(last + 1),
                                region.key.address + at, region.rkey.rkey, kNotificationMessage,
                                header_of(kind), &notification, sizeof notification);
    }

    // Posts a put that UCT copies at once, with its notification, so that it needs no operation.
    // False: nothing is posted.
    bool post_short(const RemoteRegion& region, const Transfer& transfer) const {
        TERN_ASSERT(region.peer->can_post());
        if (transfer.kind != NotificationKind::kNone)
            return post_notified(region, transfer) == UCS_OK;
        return transfer.length <= put_short_max_ &&
               uct_ep_put_short(region.peer->connection.endpoint.get(), transfer.local,
                                static_cast<unsigned>(transfer.length),
                                region.key.address + transfer.offset, region.rkey.rkey) == UCS_OK;
    }
    // Posts a notification together with its data, if those are short, or one without data.
    // UCS_ERR_UNSUPPORTED: nothing is posted, and they must be posted one after the other.
    ucs_status_t post_notified(const RemoteRegion& region, const Transfer& transfer) const {
        if (sets_directly(region, transfer.kind)) return post_word(region, transfer);
        if (transfer.length != 0) return post_copied(region, transfer, copied_max_);
        if (flush_before_notification_) return UCS_ERR_UNSUPPORTED;
        uct_ep_h const endpoint = region.peer->connection.endpoint.get();
        if (const ucs_status_t status = uct_ep_fence(endpoint, 0); status != UCS_OK) return status;
        const Notification notification = notification_of(region, transfer);
        return uct_ep_am_short(endpoint, kNotificationMessage, header_of(transfer.kind),
                               &notification, sizeof notification);
    }
    static Notification notification_of(const RemoteRegion& region, const Transfer& transfer) {
        return {region_of(region), transfer.length, transfer.place, transfer.value};
    }

    // Registers the memory of a piece for its operation, if it is neither registered nor so short
    // that it is copied.
    ucs_status_t prepare(Piece& piece, Task task) const;
    // Posts the data of an operation and its notification, if those go by one call of UCT: UCS_OK,
    // or UCS_INPROGRESS. UCS_ERR_UNSUPPORTED: as post_notified().
    ucs_status_t post_together(Operation& operation) const;
    // The data of an operation. Parts that were posted before are left out.
    ucs_status_t post_put(Operation& operation) const;
    ucs_status_t post_get(Operation& operation) const;
    ucs_status_t post_atomic(Operation& operation) const;
    // Makes later sends to the peer take effect after the operation's data: by a fence, or by a
    // flush if the device may place writes in another order (RWAPI_NOTIFY). Between two writes,
    // only Tern's fence orders.
    ucs_status_t post_order(Operation& operation) const;
    // Whether messages need a flush to stay behind writes.
    bool flushes() const { return flush_before_notification_; }
    ucs_status_t post_flush(Operation& operation) const;
    ucs_status_t post_notification(const Operation& operation) const;

  private:
    static uint64_t region_of(const RemoteRegion& region) {
        return Handle::pack(region.key.index, region.key.generation);
    }
    // Whether the notification is a write of the word itself.
    static bool sets_directly(const RemoteRegion& region, NotificationKind kind) {
        return kind == NotificationKind::kSet && (region.key.rights & RWAPI_POLLED);
    }
    // A put that UCT copies, if it has at most so many bytes, and its notification.
    ucs_status_t post_copied(const RemoteRegion& region, const Transfer& transfer,
                             size_t most) const;
    ucs_status_t post_word(const RemoteRegion& region, const Transfer& transfer) const;
    ucs_status_t register_local(Operation::Local& local, size_t length, Task task) const;
    uint64_t header_of(NotificationKind kind) const { return headers_[static_cast<size_t>(kind)]; }

    const Transport& transport_;
    std::array<uint64_t, kNotificationKinds> headers_;  // of this process's messages, by kind
    bool flush_before_notification_ = false;
    bool flush_before_write_ = false;
    PutFunctions together_;  // null: what belongs together is posted one by one
    // The most bytes that go by one call: with no notification, before a word, before a
    // notification, and before either of them by a buffer.
    size_t put_short_max_ = 0;
    size_t word_behind_max_ = 0;
    size_t put_then_max_ = 0;
    size_t copied_max_ = 0;
};

}  // namespace rwapi
