// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rwapi/core/handles.h"
#include "rwapi/core/slots.h"
#include "rwapi/engine/peers.h"
#include "rwapi/engine/regions.h"
#include "rwapi/engine/remote_regions.h"

namespace rwapi {

// Notifications of writes into this process: signals and slots. Messages are not trusted:
// a notification changes only what the rights of its region permit.
class Notifications {
  public:
    Notifications(const Self& self, Regions& regions, Peers& peers)
        : self_(self), regions_(regions), peers_(peers), slots_(self.slots) {}

    Slots& slots() { return slots_; }

    // Applies a notification. False: it is not permitted, and nothing is changed.
    bool apply(NotificationKind kind, const Notification& notification);

    // For UCT's callbacks. Where a function returns UCT's status, that is UCS_OK.
    ucs_status_t on_notification(std::span<const std::byte> message) noexcept;
    // A peer reports that notifications of this process were for memory that it has deregistered.
    void on_stale_region(std::span<const std::byte> message);

    // Sends such reports that are due to the peer. False: the send queue is full.
    bool send_stale_regions(Peer& peer);

  private:
    static void change(const OwnRegion& region, uint64_t place, NotificationKind kind,
                       uint64_t value);
    [[gnu::cold, gnu::noinline]] ucs_status_t drop(std::span<const std::byte> message) noexcept;
    [[gnu::cold, gnu::noinline]] void reject(uint32_t node, uint64_t region);

    const Self self_;
    Regions& regions_;
    Peers& peers_;
    Slots slots_;
};

// Other threads of the program may read the word by rwapi_signal_read, which acquires.
[[gnu::always_inline]] inline void Notifications::change(const OwnRegion& region, uint64_t place,
                                                         NotificationKind kind, uint64_t value) {
    std::atomic_ref<uint64_t> word(*reinterpret_cast<uint64_t*>(region.address + place));
    if (kind == NotificationKind::kSet)
        word.store(value, std::memory_order_release);
    else
        word.fetch_add(value, std::memory_order_release);
}

// What is permitted does not depend on the sender, who is of interest only for an error.
[[gnu::always_inline]] inline bool Notifications::apply(NotificationKind kind,
                                                        const Notification& notification) {
    const OwnRegion* const region = regions_.find(notification.region);
    if (region == nullptr || !(region->rights & RWAPI_WRITE)) [[unlikely]]
        return false;
    if (kind == NotificationKind::kSlot) {
        if (!slots_.has_value(notification.place, notification.value)) [[unlikely]]
            return false;
        slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
    } else {
        if (!is_signal(kind) || !region->has_word(notification.place)) [[unlikely]]
            return false;
        change(*region, notification.place, kind, notification.value);
    }
    return true;
}

// Calls nothing if the notification is permitted, and so keeps no registers.
[[gnu::always_inline]] inline ucs_status_t Notifications::on_notification(
    std::span<const std::byte> message) noexcept {
    if (message.size() != sizeof(Header) + sizeof(Notification)) [[unlikely]]
        return UCS_OK;
    if (!apply(kind_at(message), notification_at(message))) [[unlikely]]
        return drop(message);
    return UCS_OK;
}

}  // namespace rwapi
