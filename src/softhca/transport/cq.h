// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: how any process writes to them, and how their owner polls them.
#pragma once

#include <mutex>
#include <optional>

#include "softhca/fabric/host.h"

namespace softhca {

class Adapter;

// Writes a completion, and its event if the queue is armed. False if the queue has failed or
// overflows, of which the owner is notified. The caller holds an AccessGuard on another process's
// queue. `position`: of a send, its index in the send queue.
bool write_completion(Adapter& adapter, CqShared& cq, const Completion& wc, uint64_t position = 0);

// Finishes what a producer that died had committed.
void repair_completions(Host& host, CqShared& cq);

// The owner's handle of a completion queue. Destroyed only when no queue pair uses it.
class Cq {
  public:
    // A queue of `entries` entries; nullptr if there is no number or memory left. `memory`: bytes
    // that a driver takes for it.
    static Cq* create(Adapter& adapter, uint32_t entries, uint64_t memory = 0);
    ~Cq();
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    // Calls `out(const Completion&)` for up to `count` completions and returns their number. -1 if
    // the queue has failed or a completion is stale: then it and those before it in this call are
    // lost.
    template <typename Out>
    int poll(int count, Out&& out) {
        int taken = 0;
        if (next_.load(std::memory_order_relaxed)->load(std::memory_order_relaxed) ==
            shared_->head.load(std::memory_order_relaxed) + 1) {
            const std::lock_guard lock(poll_mutex);
            taken = poll_locked(count, out);
        }
        return taken != 0 ? taken : poll_empty();
    }
    // Like poll() for a caller that holds `poll_mutex`, but returns 0 if there is no completion.
    template <typename Out>
    int poll_locked(int count, Out&& out);
    // For a poll without completions: runs the progress engine. 0, or -1 if the queue has failed.
    // The caller must not hold `poll_mutex`, because the engine takes locks that others hold when
    // they take `poll_mutex`.
    int poll_empty();

    // Whether a poll would take a completion now.
    bool has_visible();

    // Requests one event for the next completion (`solicited_only`: for the next one that is
    // solicited or failed). If there has been such a completion since the last event, the event is
    // raised at once.
    void arm(bool solicited_only);
    // 0, EINVAL if the program has `asked` for too few for the completions in the queue, or ENOMEM.
    // `entries`: what the device gives it; `memory`: as for create().
    int resize(uint32_t asked, uint32_t entries, uint64_t memory);
    // Removes the completions of a queue pair that is reset or destroyed.
    void purge(uint32_t qp_number);
    // Leaves the completions of a queue pair that is destroyed, and frees the entries that they
    // complete: another queue pair may get its number.
    void disown(uint32_t qp_number);
    uint32_t capacity() const { return static_cast<uint32_t>(shared_->capacity); }
    uint32_t number() const { return number_; }
    CqShared& shared() { return *shared_; }

    std::mutex poll_mutex;
    std::atomic<uint32_t> users{0};  // queue pairs and SRQs that use it
    void* cookie = nullptr;          // the CqObject of the verbs layer

  private:
    Cq(Adapter& adapter, CqShared* shared, uint32_t number)
        : adapter_(adapter), shared_(shared), number_(number) {}
    bool release_entry(const Cqe& cqe);
    bool stale_fails() const;
    static constexpr uint64_t kNothing = ~uint64_t{0};
    uint64_t first_event_time();
    // The entry to poll; none if no entry is visible. Under poll_mutex.
    std::optional<uint64_t> next_visible(uint64_t head);
    // Under poll_mutex.
    void move_head(uint64_t head);

    Adapter& adapter_;
    CqShared* shared_;
    uint32_t number_;
    uint64_t memory_ = 0;
    // Copies of `ring` and `mask` of CqShared, so that polling does not read the producers' cache
    // line. Under poll_mutex.
    Cqe* slots_ = nullptr;
    uint64_t mask_ = 0;
    // `ready` of the entry at the head, for polls without the lock. If another thread polls or
    // resizes meanwhile, such a poll may find nothing, or take the lock for nothing.
    std::atomic<std::atomic<uint64_t>*> next_{nullptr};
};

template <typename Out>
int Cq::poll_locked(int count, Out&& out) {
    uint64_t head = shared_->head.load(std::memory_order_relaxed);
    CompletionRing ring(slots_, mask_);
    int taken = 0;
    while (taken < count) {
        const std::optional<uint64_t> index = next_visible(head);
        if (!index) break;
        const Cqe& cqe = ring.at(*index);
        out(static_cast<const Completion&>(cqe.wc));
        const bool known = release_entry(cqe);
        ring.close_gap(head, *index);
        ++head;
        ++taken;
        if (!known && stale_fails()) {
            taken = -1;
            break;
        }
    }
    if (taken != 0) move_head(head);
    return taken;
}

}  // namespace softhca
