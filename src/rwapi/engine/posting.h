// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/copy_few.h"
#include "rwapi/core/messages.h"
#include "rwapi/engine/peer.h"
#include "rwapi/engine/region.h"
#include "rwapi/engine/self.h"
#include "rwapi/transport/transport.h"

namespace rwapi {

struct Piece;

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
    [[gnu::always_inline]] bool post_short(const RemoteRegion& region,
                                           const Transfer& transfer) const {
        TERN_ASSERT(region.peer->can_post());
        if (transfer.kind != NotificationKind::kNone)
            return post_notified(region, transfer) == UCS_OK;
        if (transfer.length > put_short_max_ ||
            uct_ep_put_short(region.peer->connection.endpoint.get(), transfer.local,
                             static_cast<unsigned>(transfer.length),
                             region.key.address + transfer.offset, region.rkey.rkey) != UCS_OK)
            return false;
        region.peer->carried.unfenced = true;
        return true;
    }
    // Posts a notification together with its data, if those are short or if the target lets the
    // notification carry them; or one without data. UCS_ERR_UNSUPPORTED: nothing is posted, and
    // they must be posted one after the other.
    [[gnu::always_inline]] ucs_status_t post_notified(const RemoteRegion& region,
                                                      const Transfer& transfer) const {
        if (sets_directly(region, transfer.kind)) return post_word(region, transfer);
        Peer& peer = *region.peer;
        const bool carried = (region.key.rights & RWAPI_CARRY) && transfer.length <= carried_max_ &&
                             CarryingNotification::fits(transfer.offset, transfer.place);
        if (!carried && transfer.length != 0) {
            if (together_.put_am == nullptr || transfer.length > put_short_max_)
                return UCS_ERR_UNSUPPORTED;
            const Notification notification = notification_of(region, transfer);
            return together_.put_am(peer.connection.endpoint.get(), transfer.local,
                                    static_cast<unsigned>(transfer.length),
                                    region.key.address + transfer.offset, region.rkey.rkey,
                                    kNotificationMessage, header_of(transfer.kind), &notification,
                                    sizeof notification);
        }
        if (peer.carried.unfenced) [[unlikely]] {
            if (const ucs_status_t status = fence(peer); status != UCS_OK) return status;
        }
        if (transfer.length == 0) {
            const Notification notification = notification_of(region, transfer);
            return uct_ep_am_short(peer.connection.endpoint.get(), kNotificationMessage,
                                   header_of(transfer.kind), &notification, sizeof notification);
        }
        if (transfer.length > carried_short_max_)
            return post_carrying_copy(region, Transfer(transfer));
        return post_carrying_short(region, transfer);
    }
    static Notification notification_of(const RemoteRegion& region, const Transfer& transfer) {
        return {region.key.index, region.key.generation, transfer.length, transfer.place,
                transfer.value};
    }

    // Registers the memory of a piece for its operation, if it is neither registered nor so short
    // that it is copied.
    ucs_status_t prepare(Piece& piece) const;
    // The data of an operation. Parts that were posted before are left out.
    ucs_status_t post_put(Operation& operation) const;
    ucs_status_t post_get(Operation& operation) const;
    ucs_status_t post_atomic(Operation& operation) const;
    // Makes later sends to the peer take effect after the operation's data: by a fence or a flush
    // (RWAPI_NOTIFY).
    ucs_status_t post_order(Operation& operation) const;
    ucs_status_t post_flush(Operation& operation) const;
    ucs_status_t post_notification(const Operation& operation) const;

  private:
    // Bytes that are carried without a call that copies.
    static constexpr size_t kMostShort = tern::base::kFewBytes;

    static CarryingNotification carrying(const RemoteRegion& region, const Transfer& transfer) {
        return {region.key.index, region.key.generation, static_cast<uint32_t>(transfer.offset),
                static_cast<uint32_t>(transfer.place), transfer.value};
    }

    // Whether the notification is a write of the word itself.
    static bool sets_directly(const RemoteRegion& region, NotificationKind kind) {
        return kind == NotificationKind::kSet && (region.key.rights & RWAPI_POLLED);
    }
    ucs_status_t register_local(Operation& operation) const;
    [[gnu::always_inline]] ucs_status_t post_word(const RemoteRegion& region,
                                                  const Transfer& transfer) const {
        if (together_.put_word == nullptr ||
            transfer.length + sizeof transfer.value > put_short_max_)
            return UCS_ERR_UNSUPPORTED;
        region.peer->carried.unfenced = true;
        return together_.put_word(region.peer->connection.endpoint.get(), transfer.local,
                                  static_cast<unsigned>(transfer.length),
                                  region.key.address + transfer.offset, region.rkey.rkey,
                                  region.key.address + transfer.place, transfer.value);
    }
    [[gnu::always_inline]] ucs_status_t post_carrying_short(const RemoteRegion& region,
                                                            const Transfer& transfer) const {
        struct {
            CarryingNotification notification;
            std::byte data[kMostShort];
        } message;
        message.notification = carrying(region, transfer);
        tern::base::copy_few(message.data, transfer.local, transfer.length);
        const ucs_status_t status = uct_ep_am_short(
            region.peer->connection.endpoint.get(), kCarryingMessage, header_of(transfer.kind),
            &message, static_cast<unsigned>(sizeof message.notification + transfer.length));
        if (status == UCS_OK) ++region.peer->carried.sent;
        return status;
    }
    ucs_status_t post_carrying_copy(const RemoteRegion& region, const Transfer& transfer) const;
    ucs_status_t fence(Peer& peer) const;
    ucs_status_t ask_if_placed(Operation& operation) const;
    ucs_status_t flush_endpoint(Operation& operation) const;
    uint64_t header_of(NotificationKind kind) const {
        Header header = header_;
        header.kind = static_cast<uint8_t>(kind);
        return header.pack();
    }

    const Transport& transport_;
    const Header header_;  // of this process's notifications
    bool flush_before_notification_ = false;
    PutFunctions together_;  // null: what belongs together is posted one by one
    size_t put_short_max_ = 0;
    size_t carried_max_ = 0;
    size_t carried_short_max_ = 0;
};

}  // namespace rwapi
