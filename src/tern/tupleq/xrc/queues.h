// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "tern/pinning/regions/regions.h"
#include "tern/tupleq/xrc/completions.h"
#include "tern/verbs/xrc.h"

namespace tern {

// The XRC shared receive queues of an interface: made when they are needed, kept for the next
// tuple.
//
//   closed    open(): a Bind is to be sent                                        open
//   open      stop(), on any thread: the memory of an entry is undeclared         stopped
//             destroy(): the tuple ended with entries in the queue                closed
//   stopped   destroy()                                                           closed
class XrcQueues {
  public:
    // Work request ids: bit 63 is 1, bits 32..62 are the queue's generation, bits 0..31 its index.
    static constexpr uint64_t kReceive = uint64_t{1} << 63;
    static constexpr uint32_t kGenerations = uint32_t{1} << 31;
    static bool is_receive(uint64_t id) { return (id & kReceive) != 0; }
    static uint32_t index_of(uint64_t id) { return static_cast<uint32_t>(id); }
    static uint32_t generation_of(uint64_t id) {
        return static_cast<uint32_t>(id >> 32) & (kGenerations - 1);
    }

    // At most `most` queues of `depth` entries. All completions go to `completions`.
    XrcQueues(ibv_pd* pd, const verbs::XrcDomain& domain, XrcCompletions& completions,
              uint32_t depth, uint32_t most);
    ~XrcQueues();
    XrcQueues(const XrcQueues&) = delete;
    XrcQueues& operator=(const XrcQueues&) = delete;

    // Makes queue `index` unless it is open. False if the device refuses.
    bool open(uint32_t index);
    // Destroys the queue: the device no longer writes to its entries.
    void destroy(uint32_t index);
    // Number of queues that were destroyed at this index, modulo 2^31.
    uint32_t generation(uint32_t index) const { return queues_[index].generation; }

    // An unexpected completion has come from the queue, so it is unknown what its entries are for.
    void spoil(uint32_t index) { queues_[index].spoilt = true; }
    bool spoilt(uint32_t index) const { return queues_[index].spoilt; }

    // Stops the queue, on any thread, when the declaration of memory in it ends: the device no
    // longer writes to its entries. destroy() is still to be called.
    Stoppable& stopper(uint32_t index) { return queues_[index]; }
    bool stopped(uint32_t index) const { return queues_[index].gate.load() >= Queue::kStopped; }
    // True if a queue has been stopped since the last call, and is not destroyed yet.
    bool any_stopped() { return stops_wait() && look_for_stops(); }
    // True if a queue has been stopped since the last any_stopped().
    bool stops_wait() const { return stops_.load(std::memory_order_acquire) != seen_stops_; }
    // Readable when a queue has been stopped since the last forget_wake(), which returns whether
    // that was so. stops_wait() is true by then. -1 and errno if the system refused the descriptor.
    int wake_fd() const { return wake_fd_; }
    bool forget_wake();

    // The queue's verbs::next_identity(); null if there is no queue.
    const void* identity(uint32_t index);
    bool is_open(uint32_t index) const { return queues_[index].number != 0; }
    // The number by which senders name the queue; 0: not open.
    uint32_t number(uint32_t index) const { return queues_[index].number; }
    // The open, empty queue is bound to another tuple: makes a new nonce for its messages.
    void renew_nonce(uint32_t index);
    uint32_t nonce(uint32_t index) const { return queues_[index].nonce; }
    // Posts a receive behind the others; a piece of length 0 is for a message of no bytes. False if
    // the device refuses. Posts nothing to a stopped queue, and returns true. Data path.
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
        // The owner's thread may use the queue until leave(). False: the queue is stopped.
        bool enter() { return (gate.fetch_or(kInside, std::memory_order_acquire) & kStopped) == 0; }
        void leave() { gate.fetch_and(~kInside, std::memory_order_release); }

        std::mutex mutex;  // for open(), destroy() and stop(); not on the data path
        XrcQueues* owner = nullptr;
        std::atomic<unsigned> gate{0};
        verbs::SharedReceiveQueue srq;
        uint32_t number = 0;
        uint32_t generation = 0;
        uint32_t nonce = 0;  // of the bind, see to_immediate()
        bool spoilt = false;
    };

    bool look_for_stops();

    ibv_pd* pd_;
    const verbs::XrcDomain& domain_;
    XrcCompletions& completions_;
    uint32_t depth_;
    uint32_t most_;
    std::atomic<uint32_t> stops_{0};  // so far; incremented by threads that stop a queue
    uint32_t seen_stops_ = 0;
    int wake_fd_;
    std::unique_ptr<Queue[]> queues_;
};

}  // namespace tern
