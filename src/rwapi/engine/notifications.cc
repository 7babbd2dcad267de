// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/notifications.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "common/copy_few.h"
#include "rwapi/engine/message_handler.h"

namespace rwapi {

namespace {

// Places what a notification carries. False: it is not permitted.
[[gnu::always_inline]] inline bool place(const OwnRegion& region, uint64_t offset,
                                         std::span<const std::byte> data) {
    if (data.empty()) return true;
    if (!(region.rights & RWAPI_CARRY) || !within(offset, data.size(), region.length)) return false;
    if (data.size() <= tern::base::kFewBytes)
        tern::base::copy_few(region.address + offset, data.data(), data.size());
    else
        std::memcpy(region.address + offset, data.data(), data.size());
    return true;
}

}  // namespace

bool Notifications::apply(NotificationKind kind, const Notification& notification, uint64_t offset,
                          std::span<const std::byte> data) {
    OwnRegion* const region = regions_.find_live(notification.region);
    if (region == nullptr || !(region->rights & RWAPI_WRITE)) return false;
    if (kind == NotificationKind::kSlot) {
        if (!slots_.has_value(notification.place, notification.value)) return false;
    } else if (kind == NotificationKind::kSet || kind == NotificationKind::kAdd) {
        if (!region->has_word(notification.place)) return false;
    } else if (kind != NotificationKind::kCount) {
        return false;
    }
    if (!place(*region, offset, data)) return false;
    if (kind == NotificationKind::kSlot)
        slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
    else if (kind != NotificationKind::kCount)
        change(*region, notification.place, kind, notification.value);
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
void Notifications::take(std::span<const std::byte> message, const Notification& notification,
                         uint64_t offset, std::span<const std::byte> data) noexcept {
    if (apply(kind_at(message), notification, offset, data)) return;
    try {
        reject(node_at(message), notification.region);
    } catch (const std::exception& error) {
        log_lost_message(error);
    }
}

ucs_status_t Notifications::take_other(std::span<const std::byte> message) noexcept {
    if (message.size() == sizeof(Header) + sizeof(Notification))
        take(message, notification_at(message), 0, {});
    return UCS_OK;
}

ucs_status_t Notifications::take_other_carrying(std::span<const std::byte> message) noexcept {
    if (message.size() < kBeforeData) return UCS_OK;
    const auto carrying = carrying_at(message);
    const auto data = message.subspan(kBeforeData);
    take(message, carrying.with_length(data.size()), carrying.offset, data);
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

// All that the peer has sent before has been placed or dropped.
void Notifications::on_placed_request(std::span<const std::byte> message) {
    Header header;
    uint64_t number;
    Peer* const peer = peers_.sender_of(message, header, number);
    if (peer == nullptr) return;
    peer->carried.asked = number;
    peers_.add_work(*peer);
}

// Sends a message that is a number. False: the send queue is full.
bool Notifications::send_number(Peer& peer, MessageId id, uint64_t number) {
    const Header header{self_.rank, 0, 0, 0};
    const ucs_status_t status =
        uct_ep_am_short(peer.connection.endpoint.get(), id, header.pack(), &number, sizeof number);
    if (status == UCS_ERR_NO_RESOURCE) return false;
    if (status != UCS_OK) peers_.mark_failed(peer, status);
    return true;
}

// After the reports of stale regions, so that the flush that has asked returns their error.
bool Notifications::send_placed(Peer& peer) {
    std::optional<uint64_t>& asked = peer.carried.asked;
    if (asked && !send_number(peer, kPlacedAnswer, *asked)) return false;
    asked.reset();
    return true;
}

bool Notifications::send_stale_regions(Peer& peer) {
    while (!peer.stale_names.empty()) {
        if (!send_number(peer, kStaleRegion, peer.stale_names.back())) return false;
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
