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

    // Applies a notification, and before it places the data that it carries, if any. False: it is
    // not permitted, and nothing is changed.
    bool apply(NotificationKind kind, const Notification& notification, uint64_t offset = 0,
               std::span<const std::byte> data = {});

    // For UCT's callbacks.
    void on_notification(std::span<const std::byte> message);
    void on_carrying(std::span<const std::byte> message);
    // A peer asks whether the data that it has sent so far have been placed.
    void on_placed_request(std::span<const std::byte> message);
    // A peer reports that notifications of this process were for memory that it has deregistered.
    void on_stale_region(std::span<const std::byte> message);

    // Sends such reports that are due to the peer. False: the send queue is full.
    bool send_stale_regions(Peer& peer);
    // Answers the peer's question, if there is one. False: the send queue is full.
    bool send_placed(Peer& peer);

  private:
    // As apply(); compiled into the fast paths, which leave out what they do not need. few: the
    // data are at most tern::base::kFewBytes.
    template <bool few>
    [[gnu::always_inline]] bool apply_now(NotificationKind kind, const Notification& notification,
                                          uint64_t offset, std::span<const std::byte> data);
    template <bool few>
    [[gnu::always_inline]] void on_any(Header header, const Notification& notification,
                                       uint64_t offset, std::span<const std::byte> data);
    [[gnu::noinline]] void on_much(std::span<const std::byte> message);
    [[gnu::noinline]] void count(OwnRegion& region, NotificationKind kind, uint64_t bytes);
    bool send_number(Peer& peer, MessageId id, uint64_t number);
    [[gnu::cold, gnu::noinline]] void reject(uint32_t node, uint32_t index, uint32_t generation);

    const Self self_;
    Regions& regions_;
    Peers& peers_;
    Slots slots_;
    HandleTable<Counter> counters_;
};

}  // namespace rwapi
