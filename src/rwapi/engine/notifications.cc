// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/notifications.h"

#include <algorithm>

namespace rwapi {

ucs_status_t Notifications::drop(std::span<const std::byte> message) noexcept {
    try {
        reject(node_at(message), notification_at(message).region);
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
    int error;
    regions_.find(region, error);
    if (error != RWAPI_ERR_STALE) {
        peers_.report_dropped(peer->node, "a notification that its key does not permit");
        return;
    }
    peers_.report_dropped(peer->node, "a notification for memory that has been deregistered");
    const uint64_t name = NetAddress::of_region(self_.rank, region).name();
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
    peer->keep_error(RWAPI_ERR_STALE);
    RemoteRegions::mark_stale(*peer, region);
    for (Operation* each = peer->waiting.first(); each != nullptr; each = each->next) {
        if (each->target.region != nullptr && each->target.region->stale)
            each->status = RWAPI_ERR_STALE;
    }
}

}  // namespace rwapi
