// SPDX-License-Identifier: BSD-3-Clause
#include "rwapi/engine/notifications.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "base/copy_few.h"

namespace rwapi {

namespace {

// Places what a notification carries. False: it is not permitted.
template <bool few>
[[gnu::always_inline]] inline bool place(const OwnRegion& region, uint64_t offset,
                                         std::span<const std::byte> data) {
    if (data.empty()) return true;
    if (!(region.rights & RWAPI_CARRY) || !within(offset, data.size(), region.length)) return false;
    if constexpr (few)
        tern::base::copy_few(region.address + offset, data.data(), data.size());
    else
        std::memcpy(region.address + offset, data.data(), data.size());
    return true;
}

// Other threads of the program may read the word by rwapi_signal_read, which acquires.
[[gnu::always_inline]] inline void change(uint64_t& memory, NotificationKind kind, uint64_t value) {
    std::atomic_ref<uint64_t> word(memory);
    if (kind == NotificationKind::kSet)
        word.store(value, std::memory_order_release);
    else
        word.fetch_add(value, std::memory_order_release);
}

}  // namespace

template <bool few>
inline bool Notifications::apply_now(NotificationKind kind, const Notification& notification,
                                     uint64_t offset, std::span<const std::byte> data) {
    int error;
    OwnRegion* const region = regions_.find_own(notification.index, notification.generation, error);
    if (region == nullptr || !(region->rights & RWAPI_WRITE)) [[unlikely]]
        return false;
    std::byte* const word = region->address + notification.place;
    if (kind == NotificationKind::kSlot) {
        if (!slots_.has_value(notification.place, notification.value)) return false;
    } else if (kind == NotificationKind::kSet || kind == NotificationKind::kAdd) {
        if (!(region->rights & RWAPI_SIGNAL) ||
            !within(notification.place, sizeof(uint64_t), region->length) ||
            reinterpret_cast<uintptr_t>(word) % sizeof(uint64_t) != 0)
            return false;
    } else if (kind != NotificationKind::kCount) {
        return false;
    }
    if (!place<few>(*region, offset, data)) return false;
    if (kind == NotificationKind::kSlot)
        slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
    else if (kind != NotificationKind::kCount)
        change(*reinterpret_cast<uint64_t*>(word), kind, notification.value);
    if (region->counter != 0) count(*region, kind, notification.bytes);
    return true;
}

bool Notifications::apply(NotificationKind kind, const Notification& notification, uint64_t offset,
                          std::span<const std::byte> data) {
    return apply_now<false>(kind, notification, offset, data);
}

void Notifications::count(OwnRegion& region, NotificationKind kind, uint64_t bytes) {
    // Peers write such a word themselves; this process's own writes do not count either.
    if (kind == NotificationKind::kSet && (region.rights & RWAPI_POLLED)) return;
    int error;
    if (Counter* const counter = counters_.find(region.counter, error)) {
        ++counter->writes;
        counter->bytes += bytes;
    } else {
        region.counter = 0;
    }
}

template <bool few>
inline void Notifications::on_any(Header header, const Notification& notification, uint64_t offset,
                                  std::span<const std::byte> data) {
    if (header.node >= self_.size || header.node == self_.rank ||
        !apply_now<few>(static_cast<NotificationKind>(header.kind), notification, offset, data))
        [[unlikely]]
        reject(header.node, notification.index, notification.generation);
}

void Notifications::on_notification(std::span<const std::byte> message) {
    Header header;
    Notification notification;
    if (parse(message, header, notification)) on_any<true>(header, notification, 0, {});
}

// Most are so short that this function calls nothing, and so keeps no registers.
void Notifications::on_carrying(std::span<const std::byte> message) {
    if (message.size() < kBeforeData) return;
    if (message.size() > kBeforeData + tern::base::kFewBytes) return on_much(message);
    const auto carrying = CarryingNotification::at(message);
    on_any<true>(header_at(message), carrying.with_length(message.size() - kBeforeData),
                 carrying.offset, message.subspan(kBeforeData));
}

void Notifications::on_much(std::span<const std::byte> message) {
    const auto carrying = CarryingNotification::at(message);
    on_any<false>(header_at(message), carrying.with_length(message.size() - kBeforeData),
                  carrying.offset, message.subspan(kBeforeData));
}

// Reports a notification that was not applied: in the log, and to the sender if the memory has been
// deregistered.
void Notifications::reject(uint32_t node, uint32_t index, uint32_t generation) {
    Peer* const peer = peers_.sender_of({node, 0, 0, 0});
    if (peer == nullptr) return;
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
