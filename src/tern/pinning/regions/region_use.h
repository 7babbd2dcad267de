// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

namespace tern {

class Region;

// An object through which the device may write to memory.
class Stoppable {
  public:
    // When this returns, the device writes no more. For any thread; must not call Regions.
    virtual void stop() = 0;

  protected:
    ~Stoppable() = default;
};

// The use of a declared region by a peer's transfer, until the transfer releases it. The end of the
// declaration ends the use, see lend(): when Regions::undeclare() has returned, neither this
// process nor the device touches the memory for the transfer any more. The transfer belongs to one
// thread; any other thread may call undeclare().
class RegionUse {
  public:
    const Region& region() const { return *region_; }

    // True: the memory may be touched until leave(). False: the memory is not declared any more.
    // The code between enter() and leave() must be short, and may not call Regions.
    bool enter() {
        if ((state_.fetch_or(kInside, std::memory_order_acquire) & kRevoked) == 0) return true;
        leave();
        return false;
    }
    void leave() { state_.fetch_and(~kInside, std::memory_order_release); }

    // Only between enter() and leave(): from now on the device may touch the memory too, through
    // this queue pair; null: no longer. `writes`: the device may write. undeclare() puts the queue
    // pair into error, the only way to stop the device. If the device only reads, undeclare() does
    // so only to invalidate the memory: the peer may have read all of it and have said so by other
    // means, and the memory is pinned until the transfer ends.
    void lend(ibv_qp* qp, bool writes) {
        device_ = qp;
        writes_ = writes;
    }
    // Lends the memory to a queue of receives, which undeclare() stops.
    void lend(Stoppable& queue, bool writes) {
        queue_ = &queue;
        writes_ = writes;
    }
    // Whether undeclare() has put the queue pair into error.
    bool cut() const { return (state_.load(std::memory_order_relaxed) & kCut) != 0; }

    // Whether the memory is not declared any more: enter() fails.
    bool revoked() const { return (state_.load(std::memory_order_relaxed) & kRevoked) != 0; }

  private:
    friend class Regions;
    static constexpr unsigned kInside = 1;
    static constexpr unsigned kRevoked = 2;
    static constexpr unsigned kCut = 4;

    Region* region_ = nullptr;
    std::atomic<unsigned> state_{0};
    ibv_qp* device_ = nullptr;
    Stoppable* queue_ = nullptr;
    bool writes_ = false;
    // In the list of one region's uses, or of the free ones.
    RegionUse* next_ = nullptr;
    RegionUse* previous_ = nullptr;
};

}  // namespace tern
