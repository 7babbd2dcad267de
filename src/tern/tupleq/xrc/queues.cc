// SPDX-License-Identifier: BSD-3-Clause
#include "tern/tupleq/xrc/queues.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "tern/base/trace.h"

namespace tern {

XrcQueues::XrcQueues(ibv_pd* pd, const verbs::XrcDomain& domain, XrcCompletions& completions,
                     uint32_t depth, uint32_t most)
    : pd_(pd),
      domain_(domain),
      completions_(completions),
      depth_(depth),
      most_(most),
      wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      queues_(std::make_unique<Queue[]>(most)) {
    for (uint32_t i = 0; i < most; ++i) queues_[i].owner = this;
}

XrcQueues::~XrcQueues() {
    if (wake_fd_ >= 0) close(wake_fd_);
}

bool XrcQueues::open(uint32_t index) {
    Queue& queue = queues_[index];
    if (queue.number != 0) return true;
    const std::lock_guard lock(queue.mutex);
    queue.srq = verbs::create_xrc_receives(pd_, domain_, completions_.get(), depth_);
    if (queue.srq) queue.number = verbs::xrc_number(queue.srq.get());
    if (queue.number == 0) queue.srq.reset();
    TERN_DEBUG("queue %u: %s", index, queue.number != 0 ? "open" : "refused by the device");
    return queue.number != 0;
}

void XrcQueues::destroy(uint32_t index) {
    Queue& queue = queues_[index];
    const std::lock_guard lock(queue.mutex);
    if (queue.number != 0) TERN_DEBUG("queue %u: destroyed", index);
    completions_.destroy(queue.srq);
    queue.gate = 0;
    queue.number = 0;
    queue.generation = (queue.generation + 1) % kGenerations;
    queue.spoilt = false;
}

const void* XrcQueues::identity(uint32_t index) {
    const std::lock_guard lock(queues_[index].mutex);
    return queues_[index].srq ? queues_[index].srq->srq_context : nullptr;
}

void XrcQueues::renew_nonce(uint32_t index) {
    queues_[index].nonce = std::random_device{}();
}

void XrcQueues::Queue::stop() {
    const std::lock_guard lock(mutex);
    if (!srq) return;
    gate.fetch_or(kStopped);
    // Waits no longer than a post takes.
    while ((gate.load(std::memory_order_acquire) & kInside) != 0) std::this_thread::yield();
    owner->completions_.destroy(srq);
    owner->stops_.fetch_add(1, std::memory_order_release);
    const uint64_t one = 1;
    (void)!write(owner->wake_fd_, &one, sizeof(one));
}

bool XrcQueues::forget_wake() {
    uint64_t count = 0;
    return read(wake_fd_, &count, sizeof(count)) == sizeof(count);
}

bool XrcQueues::look_for_stops() {
    seen_stops_ = stops_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < most_; ++i)
        if (stopped(i)) return true;
    return false;
}

}  // namespace tern
