// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/notifications.h"

#include <algorithm>
#include <atomic>

namespace rwapi {

bool Notifications::apply(NotificationKind kind, const Notification& notification) {
    int error;
    OwnRegion* const region = regions_.find_own(notification.index, notification.generation, error);
    if (region == nullptr || !(region->rights & RWAPI_WRITE)) return false;
    switch (kind) {
        case NotificationKind::kSet:
        case NotificationKind::kAdd: {
            std::byte* const place = region->address + notification.place;
            if (!(region->rights & RWAPI_SIGNAL) ||
                !within(notification.place, sizeof(uint64_t), region->length) ||
                reinterpret_cast<uintptr_t>(place) % sizeof(uint64_t) != 0)
                return false;
            // Other threads of the program may read the word by rwapi_signal_read, which acquires.
            std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(place));
            if (kind == NotificationKind::kSet)
                word.store(notification.value, std::memory_order_release);
            else
                word.fetch_add(notification.value, std::memory_order_release);
            break;
        }
        case NotificationKind::kSlot:
            if (notification.place >= slots_.count() || notification.value == 0) return false;
            slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
            break;
        case NotificationKind::kCount:
            break;
        default:
            return false;
    }
    if (region->counter != 0) {
        if (Counter* const counter = counters_.find(region->counter, error)) {
            ++counter->writes;
            counter->bytes += notification.bytes;
        } else {
            region->counter = 0;
        }
    }
    return true;
}

// Reports a notification that was not applied: in the log, and to the sender if the memory has been
// deregistered.
void Notifications::reject(const Header& header, const Notification& notification) {
    Peer* const peer = peers_.sender_of(header);
    if (peer == nullptr) return;
    int error;
    regions_.find_own(notification.index, notification.generation, error);
    if (error != RWAPI_ERR_STALE) {
        peers_.report_dropped(peer->node, "a notification that its key does not permit");
        return;
    }
    peers_.report_dropped(peer->node, "a notification for memory that has been deregistered");
    const uint64_t name =
        NetAddress{self_.rank, notification.generation, notification.index, 0}.name();
    if (std::ranges::find(peer->stale_names, name) == peer->stale_names.end())
        peer->stale_names.push_back(name);
    peers_.add_work(*peer);
}

bool Notifications::send_stale_regions(Peer& peer) {
    while (!peer.stale_names.empty()) {
        const Header header{self_.rank, 0, 0, 0};
        const uint64_t name = peer.stale_names.back();
        const ucs_status_t status = uct_ep_am_short(peer.connection.endpoint.get(), kStaleRegion,
                                                    header.pack(), &name, sizeof name);
        if (status == UCS_ERR_NO_RESOURCE) return false;
        peer.stale_names.pop_back();
        if (status != UCS_OK) peers_.mark_failed(peer, status);
    }
    return true;
}

// The sender's next flush fails, and so do operations that wait and later uses of the region's
// keys.
void Notifications::on_stale_region(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* peer;
    if (!parse(message, header, name) || (peer = peers_.sender_of(header)) == nullptr) return;
    const NetAddress region = NetAddress::of_name(name);
    if (region.node != peer->node) return;
    peer->unreported_error = RWAPI_ERR_STALE;
    RemoteRegions::mark_stale(*peer, region);
    for (Operation* each = peer->waiting.first(); each != nullptr; each = each->next) {
        if (each->target.region != nullptr && each->target.region->stale)
            each->status = RWAPI_ERR_STALE;
    }
}

}  // namespace rwapi
