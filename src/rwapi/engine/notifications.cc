// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/notifications.h"

#include <algorithm>

#include "rwapi/engine/message_handler.h"

namespace rwapi {

bool Notifications::apply(NotificationKind kind, const Notification& notification) {
    OwnRegion* const region = regions_.find_live(notification.region);
    if (region == nullptr || !(region->rights & RWAPI_WRITE)) return false;
    if (kind == NotificationKind::kSlot) {
        if (!slots_.has_value(notification.place, notification.value)) return false;
        slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
    } else if (is_signal(kind)) {
        if (!region->has_word(notification.place)) return false;
        change(*region, notification.place, kind, notification.value);
    } else if (kind != NotificationKind::kCount) {
        return false;
    }
    if (region->counter != 0) count(*region, kind, notification.bytes);
    return true;
}

void Notifications::count(OwnRegion& region, NotificationKind kind, uint64_t bytes) {
    // Peers write such a word themselves; this process's own writes do not count either.
    if (kind == NotificationKind::kSet && (region.rights & RWAPI_POLLED)) return;
    int error;
    if (Counter* const counter = counters_.find(region.counter, error)) {
        ++counter->writes;
        counter->bytes += bytes;
    } else {
        region.attach(0);
    }
}

// What is permitted does not depend on the sender, who is of interest only for an error.
ucs_status_t Notifications::take_other(std::span<const std::byte> message) noexcept {
    const Notification notification = notification_at(message);
    if (apply(kind_at(message), notification)) return UCS_OK;
    try {
        reject(node_at(message), notification.region);
    } catch (const std::exception& error) {
        log_lost_message(error);
    }
    return UCS_OK;
}

// Reports a notification that was not applied: in the log, and to the sender if the memory has been
// deregistered.
void Notifications::reject(uint32_t node, uint64_t region) {
    Peer* const peer = peers_.sender_of({node, 0, 0, 0});
    if (peer == nullptr) return;
    const uint32_t index = Notification::index_of(region);
    const uint32_t generation = Notification::generation_of(region);
    int error;
    regions_.find_own(index, generation, error);
    if (error != RWAPI_ERR_STALE) {
        peers_.report_dropped(peer->node, "a notification that its key does not permit");
        return;
    }
    peers_.report_dropped(peer->node, "a notification for memory that has been deregistered");
    const uint64_t name = NetAddress{self_.rank, generation, index, 0}.name();
    if (std::ranges::find(peer->stale_names, name) == peer->stale_names.end())
        peer->stale_names.push_back(name);
    peers_.add_work(*peer);
}

bool Notifications::send_stale_regions(Peer& peer) {
    while (!peer.stale_names.empty()) {
        const uint64_t name = peer.stale_names.back();
        if (!peers_.send(peer, kStaleRegion, 0, &name, sizeof name)) return false;
        peer.stale_names.pop_back();
    }
    return true;
}

// The sender's next flush fails, and so do operations that wait and later uses of the region's
// keys.
void Notifications::on_stale_region(std::span<const std::byte> message) {
    Header header;
    uint64_t name;
    Peer* const peer = peers_.sender_of(message, header, name);
    if (peer == nullptr) return;
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
