// SPDX-License-Identifier: BSD-3-Clause
#pragma once

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

    // For UCT's callbacks.
    void on_notification(std::span<const std::byte> message) {
        Header header;
        Notification notification;
        if (!parse(message, header, notification)) return;
        if (header.node >= self_.size || header.node == self_.rank ||
            !apply(static_cast<NotificationKind>(header.kind), notification)) [[unlikely]]
            reject(header, notification);
    }
    // A peer reports that notifications of this process were for memory that it has deregistered.
    void on_stale_region(std::span<const std::byte> message);

    // Sends such reports that are due to the peer. False: the send queue is full.
    bool send_stale_regions(Peer& peer);

  private:
    void reject(const Header& header, const Notification& notification);

    const Self self_;
    Regions& regions_;
    Peers& peers_;
    Slots slots_;
    HandleTable<Counter> counters_;
};

}  // namespace rwapi
