// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

namespace tern {

class Region;

// Something by which the device may write to memory.
class Stoppable {
  public:
    // When this returns the device does so no more. Any thread; must not call Regions.
    virtual void stop() = 0;

  protected:
    ~Stoppable() = default;
};

// That a peer's transfer reads or writes a declared region, until the transfer releases it. What
// ends the declaration ends the use, see lend(): when Regions::undeclare() has returned, neither
// this process nor the device touches the memory for the transfer any more. The transfer belongs to
// one thread, undeclare() may be called by any other.
class RegionUse {
  public:
    const Region& region() const { return *region_; }

    // The memory may be touched until leave(). False: it is declared no more, and may not. What is
    // between the two must be short, and may not call Regions.
    bool enter() {
        if ((state_.fetch_or(kInside, std::memory_order_acquire) & kRevoked) == 0) return true;
        leave();
        return false;
    }
    void leave() { state_.fetch_and(~kInside, std::memory_order_release); }

    // Once inside: from now on the device may touch the memory as well, for what goes over this
    // queue pair; null: it does so no more. Undeclared in between, the queue pair is put into
    // error, which is the only way to stop it. Not for what the device reads, unless the memory is
    // invalidated: the peer may have all of it and have said so by another way, and the memory is
    // pinned until the transfer ends.
    void lend(ibv_qp* qp, bool writes) {
        device_ = qp;
        writes_ = writes;
    }
    // The same for a queue of receives, which is stopped.
    void lend(Stoppable& queue, bool writes) {
        queue_ = &queue;
        writes_ = writes;
    }
    // The queue pair has been put into error.
    bool cut() const { return (state_.load(std::memory_order_relaxed) & kCut) != 0; }

    // Memory that is declared no more: enter() fails.
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
    // Of the same region; or of those that are free.
    RegionUse* next_ = nullptr;
    RegionUse* previous_ = nullptr;
};

}  // namespace tern
