// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/completions.h"

#include <algorithm>
#include <thread>

#include "tern/verbs/queue_pair.h"

namespace tern {

bool XrcCompletions::open(ibv_context* context, uint32_t entries, uint32_t fixed_entries,
                          ibv_comp_channel* channel) {
    queue_ = verbs::create_completion_queue(context, entries, fixed_entries, channel);
    return queue_ != nullptr;
}

int XrcCompletions::take_kept(int most, ibv_wc* completions) {
    const auto count = std::min(static_cast<ptrdiff_t>(kept_.size()), ptrdiff_t{most});
    std::copy_n(kept_.begin(), count, completions);
    kept_.erase(kept_.begin(), kept_.begin() + count);
    return static_cast<int>(count);
}

int XrcCompletions::poll_later(int most, ibv_wc* completions) {
    inside_.store(0, std::memory_order_release);
    const std::lock_guard lock(mutex_);
    return take(most, completions);
}

bool XrcCompletions::any_kept() {
    const std::lock_guard lock(mutex_);
    return !kept_.empty();
}

bool XrcCompletions::keep_late() {
    const std::lock_guard lock(mutex_);
    ibv_wc completion;
    if (kept_.empty() && ibv_poll_cq(queue_.get(), 1, &completion) > 0) kept_.push_back(completion);
    return !kept_.empty();
}

// Polls one completion at a time, so that a poll that fails loses no other. A completion queue that
// has failed fails every poll, here a limited number and then the owner's.
void XrcCompletions::keep_all() {
    ibv_wc completion;
    for (int left = queue_->cqe; left >= 0; --left) {
        const int count = ibv_poll_cq(queue_.get(), 1, &completion);
        if (count == 0) return;
        if (count > 0) kept_.push_back(completion);
    }
}

// A message may come until the receive queue is gone. Its completion is useless, and must not stay
// in the completion queue.
void XrcCompletions::destroy(verbs::SharedReceiveQueue& receives) {
    if (!receives) return;
    const std::lock_guard lock(mutex_);
    wanted_.store(1, std::memory_order_seq_cst);
    // Waits no longer than the owner's poll takes.
    while (inside_.load(std::memory_order_seq_cst) != 0) std::this_thread::yield();
    keep_all();
    receives.reset();
    keep_all();
    wanted_.store(0, std::memory_order_release);
}

}  // namespace tern
