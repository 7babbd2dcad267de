// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tern/verbs/handles.h"

namespace tern {

// The completion queue of an interface's XRC links and shared receive queues. Its owner, one
// thread, polls it. Any thread may destroy a receive queue. Drivers treat completions of a
// destroyed queue differently: some remove them; others look up the queue of each completion, and
// fail the poll if there is none, which loses the completions that the poll has taken. So while a
// thread destroys a receive queue, no thread polls, and the completion queue is empty: its
// completions are kept for the owner.
class XrcCompletions {
  public:
    // Creates the queue with room for `entries`, or for `fixed_entries` on a device that cannot
    // resize a completion queue; events go to `channel`. False and errno if the device refuses.
    bool open(ibv_context* context, uint32_t entries, uint32_t fixed_entries,
              ibv_comp_channel* channel);
    ibv_cq* get() const { return queue_.get(); }
    // Call for each link and each shared receive queue that is made with this completion queue.
    void add_source() { ++sources_; }
    // False: no completion can come yet. Data path.
    bool in_use() const { return sources_ != 0; }

    // Polls like ibv_poll_cq(), but waits for threads that destroy a queue. Owner only; data path.
    int poll(int most, ibv_wc* completions) {
        inside_.store(1, std::memory_order_seq_cst);
        if (wanted_.load(std::memory_order_seq_cst) != 0) [[unlikely]]
            return poll_later(most, completions);
        const int count = take(most, completions);
        inside_.store(0, std::memory_order_release);
        return count;
    }

    // Owner only. True if the next poll() returns a kept completion.
    bool any_kept();
    // Owner only, after requesting an event. Keeps a completion that came between the last poll and
    // the request, because it causes no event. True if any completion is kept.
    bool keep_late();

    // Destroys the receive queue; afterwards its only completions are among the kept ones. Any
    // thread.
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
    uint32_t sources_ = 0;  // ever made; owner only
    // Each side sets its own word and then reads the other's. inside_: the owner is within poll();
    // written by the owner.
    std::atomic<uint32_t> inside_{0};
    // wanted_: a thread is destroying a queue; written under the mutex.
    std::atomic<uint32_t> wanted_{0};
    std::mutex mutex_;          // held to destroy a queue, and by the owner off the fast path
    std::vector<ibv_wc> kept_;  // oldest first; accessed by the thread that may poll
};

}  // namespace tern
