// SPDX-License-Identifier: BSD-3-Clause
// The ring of a completion queue. Any process that completes work writes entries; only the owner
// polls.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "softhca/core/types.h"

namespace softhca {

// The queue whose entry becomes free when the owner polls the completion.
enum class Releases : uint8_t { kNothing, kSendQueue, kReceiveQueue, kSharedReceiveQueue };

// A completion, as the process that completes the work writes it.
struct Completion {
    uint64_t wr_id = 0;
    uint64_t visible_at = 0;  // ns; the completion is not polled before this time; 0: at once
    uint32_t byte_len = 0;
    uint32_t imm = 0;  // immediate data (network order) or the invalidated rkey
    uint32_t qp_num = 0;
    uint32_t src_qp = 0;
    uint32_t owner = 0;  // number of the queue pair or shared receive queue that `releases` names
    uint32_t slot = 0;   // of a receive: its slot in the receive ring
    uint16_t slid = 0;
    WcStatus status = WcStatus::kSuccess;
    WcOpcode opcode = WcOpcode::kSend;
    uint8_t flags = 0;
    Releases releases = Releases::kNothing;
    bool solicited = false;
    uint8_t path_bits = 0;  // of a datagram
};

// One cache line.
struct alignas(64) Cqe {
    Completion wc;
    uint64_t position = 0;  // of a send completion: the send-queue entry it completes
    // index + 1 once the entry is whole: the commit point, at which the owner may poll it. If the
    // producer has died, the next one finishes a committed entry.
    std::atomic<uint64_t> ready{0};
};
static_assert(sizeof(Cqe) == 64);

// Indices only grow; a slot is index & mask. Producers hold the queue's lock; the owner polls
// without the lock.
class CompletionRing {
  public:
    CompletionRing(Cqe* slots, uint64_t mask) : slots_(slots), mask_(mask) {}

    // Writes the entry at index `tail` and commits it: the owner may poll it. The caller then moves
    // the tail.
    void write(uint64_t tail, const Completion& wc, uint64_t position) {
        Cqe& cqe = slots_[tail & mask_];
        cqe.wc = wc;
        cqe.position = position;
        cqe.ready.store(tail + 1, std::memory_order_release);
    }

    // Whether the entry at `index`, which is not before the head nor behind the tail, is written.
    bool committed(uint64_t index) const {
        return slots_[index & mask_].ready.load(std::memory_order_acquire) == index + 1;
    }

    // The entry at `index` is the next one to be written, whose line comes meanwhile.
    void expect(uint64_t index) { __builtin_prefetch(&at(index), 1); }

    Cqe& at(uint64_t index) { return slots_[index & mask_]; }

    // The index from `head` on of the entry to poll at time `now`: the one that became visible
    // first. None if no entry is visible.
    std::optional<uint64_t> next_visible(uint64_t head, uint64_t now) {
        std::optional<uint64_t> best;
        for (uint64_t i = head; i - head <= mask_ && committed(i); ++i) {
            const uint64_t visible_at = at(i).wc.visible_at;
            if (visible_at <= now && (!best || visible_at < at(*best).wc.visible_at)) best = i;
        }
        return best;
    }

    // Closes the gap at `index` after its entry was polled: older entries move up by one, and the
    // caller moves the head. Only the owner calls this; producers do not touch [head, tail).
    void close_gap(uint64_t head, uint64_t index) {
        for (uint64_t i = index; i != head; --i) {
            at(i).wc = at(i - 1).wc;
            at(i).position = at(i - 1).position;
        }
    }

  private:
    Cqe* slots_;
    uint64_t mask_;
};

}  // namespace softhca
