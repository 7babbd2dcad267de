// SPDX-License-Identifier: BSD-3-Clause
// Completion queues: pushing to any queue of the fabric, and the owner's side of its own.
#pragma once

#include <functional>
#include <mutex>

#include "fabric/host.h"

namespace softhca {

class Adapter;

/// Adds a completion to a queue of process `owner`, and wakes its owner if it asked for that.
/// False if the queue has failed or overflows; its owner is told. The caller holds an AccessGuard
/// on a foreign owner.
bool write_completion(Adapter& adapter, CqShared& cq, const Completion& wc, uint64_t position = 0);

/// Finishes what a producer that died in the queue had committed.
void repair_completions(Host& host, CqShared& cq);

/// The owner's handle of a completion queue. Destroyed only when no queue pair uses it.
class Cq {
  public:
    /// nullptr when the adapter has no more completion queues or memory. `entries`: at least so
    /// many.
    static Cq* create(Adapter& adapter, uint32_t entries);
    ~Cq();
    Cq(const Cq&) = delete;
    Cq& operator=(const Cq&) = delete;

    /// Up to `count` completions into `out(const Completion &)`; the number taken. -1 if the queue
    /// has failed, or a completion is stale: that one is gone, and so is what was taken before it.
    template <typename Out>
    int poll(int count, Out&& out) {
        int taken = 0;
        if (shared_->head.load(std::memory_order_relaxed) !=
            shared_->tail.load(std::memory_order_acquire)) {
            const std::lock_guard lock(poll_mutex);
            taken = poll_locked(count, out);
        }
        return taken != 0 ? taken : poll_empty();
    }
    /// The same for a caller that holds `poll_mutex`; 0 if there is nothing.
    template <typename Out>
    int poll_locked(int count, Out&& out);
    /// What a poll of nothing does: helps the engine. 0, or -1 if the queue has failed. Not to be
    /// called with `poll_mutex`: the engine's work takes locks that others hold when they take it.
    int poll_empty();

    /// Asks for one event at the next completion (`solicited_only`: the next solicited or failed
    /// one); at once if an unpolled one has come since the last event.
    void arm(bool solicited_only);
    /// 0, EINVAL if more entries are waiting than would fit, ENOMEM.
    int resize(uint32_t entries);
    /// Removes the completions of a queue pair that is going away.
    void purge(uint32_t qp_number);
    uint32_t capacity() const { return static_cast<uint32_t>(shared_->capacity); }
    uint32_t number() const { return number_; }
    CqShared& shared() { return *shared_; }

    std::mutex poll_mutex;
    std::atomic<uint32_t> users{0};  ///< queue pairs and shared receive queues
    void* cookie = nullptr;          ///< the front end's object

  private:
    Cq(Adapter& adapter, CqShared* shared, uint32_t number)
        : adapter_(adapter), shared_(shared), number_(number) {}
    bool release_entry(const Cqe& cqe);
    bool stale_fails() const;
    static constexpr uint64_t kNothing = ~uint64_t{0};
    uint64_t first_event_time();
    uint64_t next_visible(uint64_t head, uint64_t tail);

    Adapter& adapter_;
    CqShared* shared_;
    uint32_t number_;
    // Copies of what the producers' line says, so that polling leaves that line alone. Under
    // poll_mutex.
    Cqe* slots_ = nullptr;
    uint64_t mask_ = 0;
};

template <typename Out>
int Cq::poll_locked(int count, Out&& out) {
    uint64_t head = shared_->head.load(std::memory_order_relaxed);
    const uint64_t tail = shared_->tail.load(std::memory_order_acquire);
    CompletionRing ring(slots_, mask_);
    int taken = 0;
    while (taken < count && head != tail) {
        const uint64_t index = next_visible(head, tail);
        if (index == tail) {
            break;
        }
        const Cqe& cqe = ring.at(index);
        out(static_cast<const Completion&>(cqe.wc));
        const bool known = release_entry(cqe);
        ring.close_gap(head, index);
        ++head;
        ++taken;
        if (!known && stale_fails()) {
            taken = -1;
            break;
        }
    }
    shared_->head.store(head, std::memory_order_release);
    return taken;
}

}  // namespace softhca
