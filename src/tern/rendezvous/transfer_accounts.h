// SPDX-License-Identifier: BSD-3-Clause
// The beginning and the end of each transfer of an interface.
#pragma once

#include <cstdint>

#include "tern/base/shortage.h"
#include "tern/engine/engine.h"
#include "tern/engine/idle_time.h"
#include "tern/rendezvous/rendezvous_owner.h"
#include "tern/rendezvous/transfer.h"
#include "tern/rendezvous/transfer_memory.h"

namespace tern {

// Counts the transfers of both halves, and reports their beginnings and ends to the engine and
// their ends to the user.
class TransferAccounts {
  public:
    TransferAccounts(Engine& engine, TransferMemory& memory, RendezvousCounters& counters,
                     RendezvousOwner& owner)
        : engine_(engine), memory_(memory), counters_(counters), owner_(owner) {}
    TransferAccounts(const TransferAccounts&) = delete;
    TransferAccounts& operator=(const TransferAccounts&) = delete;

    uint64_t begun() const { return begun_; }  // transfers, so far
    // Operations of this side's users under way.
    uint32_t users() const { return static_cast<uint32_t>(work_); }
    // Whether there are any, or requests of peers that wait for a place.
    bool any_work() const { return work_ != 0; }
    // Whether there are neither such requests nor transfers of any kind.
    bool none() const { return transfers_ == 0 && work_ == 0; }
    uint32_t running() const { return running_; }  // transfers whose bytes are being moved

    void begin(Transfer& transfer, Channel& channel, void* cookie);
    // The transfer is an operation of this side's user, on the peer's memory.
    void begin_operation(Transfer& transfer, uint64_t address, const WireKey& key);
    // The peer asks to access this side's memory, which has been checked.
    void begin_service(Transfer& transfer, RegionUse* use, uint64_t address, uint64_t length);
    // A request of a peer waits for a place; `count` of them do not wait any more.
    void request_waits() { work_ += kRequest; }
    void requests_taken(size_t count) {
        TERN_ASSERT(count <= work_ / kRequest);
        work_ -= count * kRequest;
    }
    void started() { ++running_; }
    // `count` of those that started() have ended.
    void stopped(size_t count) {
        TERN_ASSERT(count <= running_);
        running_ -= static_cast<uint32_t>(count);
    }
    // Ends a transfer, except for its place in the table.
    void end(Transfer& transfer);
    // Reports the end of an operation, if a user asked for it. If the operation failed and has no
    // cookie, the endpoint fails, as with any write that the peer's memory does not take.
    void complete(bool asked_here, void* cookie, Channel& channel, Status status);

    // Whether the memory was undeclared while the device accessed it, so that the queue pair has
    // been put into error; fails the channel then.
    bool fail_if_cut(Transfer& transfer);
    // Warns once that no ring can be registered.
    void warn_of_limit();

    // Calls of progress in a row that found nothing to do, since the last transfer began.
    uint32_t idle_calls() const { return idle_.calls(); }
    // True: peers have kept this side waiting, and may be dead.
    bool note_progress(bool any) {
        if (any) idle_.end();
        return !any && idle_.count();
    }

  private:
    Engine& engine_;
    TransferMemory& memory_;
    RendezvousCounters& counters_;
    RendezvousOwner& owner_;
    uint64_t begun_ = 0;
    // In the low 32 bits the operations of users, above them the waiting requests of peers: each
    // call of progress looks at both.
    static constexpr uint64_t kRequest = uint64_t{1} << 32;
    uint64_t work_ = 0;
    uint32_t transfers_ = 0;  // that have begun and not ended
    uint32_t running_ = 0;
    IdleTime idle_;
    Shortage rings_{scarce::kRing};
};

// Calls `begin(transfer)` for the transfers that have waited for a connection that is up now.
// Returns their number.
template <class Transfers, class Begin>
unsigned take_connected(Transfers& transfers, Begin&& begin) {
    unsigned count = 0;
    for (size_t i = 0; i < transfers.size();) {
        auto& transfer = *transfers[i];
        if (!transfer.channel->up()) {
            ++i;
            continue;
        }
        transfers.erase(transfers.begin() + static_cast<std::ptrdiff_t>(i));
        begin(transfer);
        ++count;
    }
    return count;
}

}  // namespace tern
