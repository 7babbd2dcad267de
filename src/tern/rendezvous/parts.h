// SPDX-License-Identifier: BSD-3-Clause
// What the user of a Rendezvous gives it and gets from it (settings, counters, callbacks), and what
// the parts of one share.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tern/base/tunables.h"
#include "tern/connection/connection.h"
#include "tern/rendezvous/decision.h"
#include "tern/rendezvous/messages.h"
#include "tern/rendezvous/ring_pool.h"

namespace tern {

class Engine;
class Refusals;
class Rendezvous;
class TransferAccounts;
class TransferMemory;

struct RendezvousSettings {
    uint32_t ring_bytes = 256 * 1024;
    uint32_t rings =
        kTunables.rndv_windows;  // most rings to receive into; as many again to send from
    uint32_t chunks_per_ring = kTunables.rndv_buffers;
    // While nobody gets a ring for so long, or in kIdleCalls calls of progress, transfers
    // that wait for one do without.
    std::chrono::nanoseconds ring_patience = std::chrono::seconds(1);
    Decider::Settings policy;

    uint32_t ring_slots() const {
        return std::clamp(ring_bytes / SubBlocks::kSlot, 1u, WireRing::kMostSlots);
    }
    uint32_t most_rings() const { return std::max(1u, rings); }
};

struct RendezvousCounters {
    uint64_t gets = 0;  // asked for by this side's user
    uint64_t puts = 0;
    uint64_t served = 0;  // asked for by peers, gets and puts
    uint64_t refused = 0;
    uint64_t replies = 0;        // sent with the end of a transfer
    uint64_t superpipeline = 0;  // messages received, by scheme
    uint64_t zero_copy = 0;
    uint64_t staged_bytes = 0;  // sent
    uint64_t copied_bytes = 0;  // sent from staging memory to their final place
    uint64_t gathered_bytes = 0;
    uint64_t chunks = 0;
    uint64_t ring_waits = 0;
    uint64_t early_copies_made = 0;
    uint64_t early_copies_used = 0;  // a message was fetched from them
    uint64_t early_copies_dropped = 0;
    uint64_t fallbacks = 0;  // memory that could not be pinned when it should have been
    std::array<uint64_t, kReasons> reasons{};  // decisions about messages received, by Reason
};

class RendezvousOwner {
  public:
    // An operation, or a flush, is over.
    virtual void completed(void* cookie, Status status) = 0;
    // The active message that a peer has sent with the end of its get. `data` is valid during the
    // call.
    virtual void replied(uint32_t id, const std::byte* data, uint32_t length) = 0;
    // A warning for the log.
    virtual void warn(const std::string& text) = 0;

  protected:
    ~RendezvousOwner() = default;
};

// A part of a rendezvous, with the objects that all parts use. Those outlive the parts.
class RendezvousPart {
  public:
    RendezvousPart& operator=(const RendezvousPart&) = delete;

  protected:
    RendezvousPart(const RendezvousPart&) = default;
    ~RendezvousPart() = default;

    // The rings of one half.
    RingPool new_rings() const;

    Engine& engine_;
    TransferMemory& memory_;
    TransferAccounts& accounts_;
    Refusals& refusals_;
    Decider& decider_;
    const RendezvousSettings& settings_;
    RendezvousCounters& counters_;
    ProgressBudget& budget_;
    RendezvousOwner& owner_;

  private:
    friend class Rendezvous;
    explicit RendezvousPart(Rendezvous& whole);
};

}  // namespace tern
