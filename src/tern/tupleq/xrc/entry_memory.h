// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tern/base/tunables.h"
#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/regions/regions.h"
#include "tern/tupleq/core/action.h"
#include "tern/tupleq/core/receiver.h"
#include "tern/tupleq/xrc/owner.h"
#include "tern/tupleq/xrc/queues.h"

namespace tern {

// The memory of the receives in all queues: pinned from prepare() until the entry has left its
// queue, and lent to the queue, so that the end of its declaration stops the queue.
class EntryMemory {
  public:
    EntryMemory(PinCache& pins, Regions& regions, XrcQueues& queues, uint32_t tuples,
                uint32_t depth);
    ~EntryMemory();
    EntryMemory(const EntryMemory&) = delete;
    EntryMemory& operator=(const EntryMemory&) = delete;

    // Pins the memory of a receive that is about to be granted. place() follows, in the same order.
    // False: the memory cannot be registered, or not now because enough was registered since the
    // last renew().
    bool prepare(const TupleReceive& receive);
    // Call with each call of progress. True: some receive had to wait, and can be prepared now.
    bool renew() {
        registered_now_ = 0;
        return std::exchange(any_waits_, false);
    }
    bool any_waits() const { return any_waits_; }
    // Whether something was registered since the last renew(). Only then can receives wait.
    bool any_registered() const { return registered_now_ != 0; }
    // The core's next kGrant action: the entry takes over the memory that was prepared for it. From
    // now on a thread that ends the memory's declaration stops the queue.
    void place(const TupleAction& action);
    // The piece of memory for the device.
    ibv_sge piece(uint16_t queue, uint32_t place) const { return entry(queue, place).piece; }
    // Entries of this queue may have become void. The device does not write to a void entry if the
    // peer keeps to the protocol, so from now on only the invalidation of its memory stops the
    // queue.
    void lend_void(uint16_t number, const TupleReceiver& queue);
    // The entry has left its queue, or the queue is destroyed.
    void free(uint16_t queue, uint32_t place) { release(entry(queue, place)); }
    void free_all(uint16_t queue);

    uint64_t unpinned() const { return unpinned_; }

  private:
    struct Memory {
        Pin* pin = nullptr;
        RegionUse* use = nullptr;
        ibv_sge piece{};
    };

    Memory& entry(uint16_t queue, uint32_t place) {
        return entries_[size_t{queue} * depth_ + place];
    }
    const Memory& entry(uint16_t queue, uint32_t place) const {
        return entries_[size_t{queue} * depth_ + place];
    }
    Pin* pin(const TupleReceive& receive);
    void lend(uint16_t queue, uint32_t place, bool writes);
    void release(Memory& memory);

    PinCache& pins_;
    Regions& regions_;
    XrcQueues& queues_;
    uint32_t depth_;
    std::vector<Memory> entries_;   // of all queues, queue by queue
    std::vector<Memory> prepared_;  // for the kGrant actions still in the core's list, in order
    size_t next_prepared_ = 0;
    uint64_t unpinned_ = 0;        // times memory could not be registered
    uint64_t registered_now_ = 0;  // bytes, since the last renew()
    bool any_waits_ = false;       // a receive was not prepared because of kRenewedAtOnce
};

}  // namespace tern
