// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "verbs/handles.h"

namespace tern {

// The completion queue of an interface's XRC links and shared receive queues. Its owner, one
// thread, polls it. Receive queues are destroyed by any thread, and drivers differ in what they do
// about completions that are still there: some remove them, others look up the queue that each is
// of, and fail the poll if there is none; what that poll had taken is lost. So while a receive
// queue is destroyed nobody polls, and the completion queue is empty: what was in it is kept for
// the owner.
class XrcCompletions {
  public:
    // Room for `entries`; events go to `channel`. False and errno if the device refuses.
    bool open(ibv_context* context, uint32_t entries, ibv_comp_channel* channel);
    ibv_cq* get() const { return queue_.get(); }

    // As ibv_poll_cq(). The owner; data path. It waits for those who destroy a queue.
    int poll(int most, ibv_wc* completions) {
        inside_.store(1, std::memory_order_seq_cst);
        if (wanted_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
            return poll_later(most, completions);
        const int count = take(most, completions);
        inside_.store(0, std::memory_order_release);
        return count;
    }

    // The owner. Some completion is kept that the next poll() returns.
    bool any_kept();
    // Keeps one that has come between the last poll and the request for an event: it wakes nobody.
    // True if there is any.
    bool keep_late();

    // Destroys the receive queue; afterwards there is no completion of it but among those kept.
    // Any thread.
    void destroy(verbs::SharedReceiveQueue& receives);

  private:
    int take(int most, ibv_wc* completions) {
        if (!kept_.empty()) [[unlikely]]
            return take_kept(most, completions);
        return ibv_poll_cq(queue_.get(), most, completions);
    }
    int take_kept(int most, ibv_wc* completions);
    int poll_later(int most, ibv_wc* completions);
    void keep_all();

    verbs::CompletionQueue queue_;
    // One side sets its word and looks at the other's. The owner is between a poll's begin and its
    // end: written by the owner.
    std::atomic<uint32_t> inside_{0};
    // Somebody destroys a queue: written under the mutex.
    std::atomic<uint32_t> wanted_{0};
    std::mutex mutex_;          // of those who destroy, and of the owner if it has to wait for them
    std::vector<ibv_wc> kept_;  // oldest first; of whoever may poll
};

}  // namespace tern
