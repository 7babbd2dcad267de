// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "pinning/regions/region_use.h"
#include "tupleq/xrc/completions.h"
#include "verbs/xrc.h"

namespace tern {

// The XRC shared receive queues of an interface: made when they are needed, kept for the next
// tuple.
class XrcQueues {
  public:
    // What ids of receives say: bit 63 is 1, bits 32..62 the queue's generation, bits 0..31 its
    // index.
    static constexpr uint64_t kReceive = uint64_t{1} << 63;
    static constexpr uint32_t kGenerations = uint32_t{1} << 31;
    static bool is_receive(uint64_t id) { return (id & kReceive) != 0; }
    static uint32_t index_of(uint64_t id) { return static_cast<uint32_t>(id); }
    static uint32_t generation_of(uint64_t id) {
        return static_cast<uint32_t>(id >> 32) & (kGenerations - 1);
    }

    // `most` queues of `depth` entries. All completions go to `completions`.
    XrcQueues(ibv_pd* pd, const verbs::XrcDomain& domain, XrcCompletions& completions,
              uint32_t depth, uint32_t most);
    ~XrcQueues();
    XrcQueues(const XrcQueues&) = delete;
    XrcQueues& operator=(const XrcQueues&) = delete;

    // Queue `index` is there from now on. False if the device refuses.
    bool open(uint32_t index);
    // The entries of a queue are no longer written to, whoever sends; the queue is no more.
    void destroy(uint32_t index);
    // How often there was another queue in its place, modulo 2^31.
    uint32_t generation(uint32_t index) const { return queues_[index].generation; }

    // What has come into the queue was not for it: nobody knows any more what its entries are for.
    void spoil(uint32_t index) { queues_[index].spoilt = true; }
    bool spoilt(uint32_t index) const { return queues_[index].spoilt; }

    // To stop the queue when memory that is in it is declared no more, by any thread: its entries
    // are no longer written to. It remains to be destroyed.
    Stoppable& stopper(uint32_t index) { return queues_[index]; }
    bool stopped(uint32_t index) const { return queues_[index].gate.load() >= Queue::kStopped; }
    // Some have been stopped since this was asked last.
    bool any_stopped() { return stops_wait() && look_for_stops(); }
    // The next any_stopped() has something to look at.
    bool stops_wait() const { return stops_.load(std::memory_order_acquire) != seen_stops_; }
    // Readable when a queue has been stopped since forget_wake(), which says whether it was; -1 if
    // the system has no room for it, and errno. stops_wait() is so before.
    int wake_fd() const { return wake_fd_; }
    bool forget_wake();

    bool is_open(uint32_t index) const { return queues_[index].number != 0; }
    // By which senders name it.
    uint32_t number(uint32_t index) const { return queues_[index].number; }
    // Posts a receive behind the others; a piece of no bytes for a message of none. Data path. To
    // a queue that has been stopped nothing is posted, and that is all right.
    bool post(uint32_t index, ibv_sge& piece) {
        Queue& queue = queues_[index];
        ibv_recv_wr request{};
        request.wr_id = kReceive | uint64_t{queue.generation} << 32 | index;
        request.sg_list = &piece;
        request.num_sge = piece.length != 0 ? 1 : 0;
        ibv_recv_wr* refused = nullptr;
        const bool open = queue.enter();
        const bool good = !open || ibv_post_srq_recv(queue.srq.get(), &request, &refused) == 0;
        queue.leave();
        return good;
    }

  private:
    struct Queue final : Stoppable {
        static constexpr unsigned kInside = 1;
        static constexpr unsigned kStopped = 2;

        void stop() override;
        // The owner's thread may use the queue until leave(). False: it is not there.
        bool enter() { return (gate.fetch_or(kInside, std::memory_order_acquire) & kStopped) == 0; }
        void leave() { gate.fetch_and(~kInside, std::memory_order_release); }

        std::mutex mutex;  // not for the data path
        XrcQueues* owner = nullptr;
        std::atomic<unsigned> gate{0};
        verbs::SharedReceiveQueue srq;
        uint32_t number = 0;
        uint32_t generation = 0;
        bool spoilt = false;
    };

    bool look_for_stops();

    ibv_pd* pd_;
    const verbs::XrcDomain& domain_;
    XrcCompletions& completions_;
    uint32_t depth_;
    uint32_t most_;
    std::atomic<uint32_t> stops_{0};  // ever; counted by whoever stops a queue
    uint32_t seen_stops_ = 0;
    int wake_fd_;
    std::unique_ptr<Queue[]> queues_;
};

}  // namespace tern
