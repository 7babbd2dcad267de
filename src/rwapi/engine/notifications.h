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

// Notifications of writes into this process: signals, slots and counters. Messages are not trusted:
// a notification changes only what the rights of its region permit.
class Notifications {
  public:
    // used: the highest generation that earlier handles with this tag may have.
    Notifications(const Self& self, uint16_t tag, uint32_t used, Regions& regions, Peers& peers)
        : self_(self),
          regions_(regions),
          peers_(peers),
          slots_(self.slots),
          counters_(tag, Kind::kCounter, used) {}

    Slots& slots() { return slots_; }
    HandleTable<Counter>& counters() { return counters_; }

    // The highest generation of the handles of counters.
    uint32_t highest_generation() const { return counters_.highest(); }

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
    [[gnu::noinline]] ucs_status_t take_other(std::span<const std::byte> message) noexcept;
    [[gnu::noinline]] void count(OwnRegion& region, NotificationKind kind, uint64_t bytes);
    [[gnu::cold, gnu::noinline]] void reject(uint32_t node, uint64_t region);

    const Self self_;
    Regions& regions_;
    Peers& peers_;
    Slots slots_;
    HandleTable<Counter> counters_;
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

// The usual notification is of a slot or of a word, and of a region without a counter. For these,
// this function calls nothing, and so keeps no registers.
[[gnu::always_inline]] inline ucs_status_t Notifications::on_notification(
    std::span<const std::byte> message) noexcept {
    if (message.size() != sizeof(Header) + sizeof(Notification)) [[unlikely]]
        return UCS_OK;
    const Notification notification = notification_at(message);
    const NotificationKind kind = kind_at(message);
    const OwnRegion* const region = regions_.find_live(notification.region);
    if (region == nullptr || !(region->uncounted & RWAPI_WRITE)) [[unlikely]]
        return take_other(message);
    if (kind == NotificationKind::kSlot) {
        if (!slots_.has_value(notification.place, notification.value)) [[unlikely]]
            return take_other(message);
        slots_.notify(static_cast<uint32_t>(notification.place), notification.value);
    } else {
        if (!is_signal(kind) || !region->has_word(notification.place)) [[unlikely]]
            return take_other(message);
        change(*region, notification.place, kind, notification.value);
    }
    return UCS_OK;
}

}  // namespace rwapi
