// SPDX-License-Identifier: BSD-3-Clause
// The ring of a receive queue or a shared receive queue. The owner posts; the process that delivers
// a message takes the head. Several messages may be under way and end in any order, so receives are
// in slots, and the ring holds slot numbers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <span>

#include "softhca/core/types.h"

namespace softhca {

// One posted receive; `num_sge` elements follow in memory. Peers read what the owner's program may
// have overwritten: they find at most one element more than there may be, and then refuse it.
struct RecvWqe {
    uint64_t wr_id;
    uint32_t num_sge;
    uint32_t slot;  // this slot's number
    const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
    Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
    std::span<const Sge> elements() const {
        // Read once: the owner's program may write it meanwhile.
        return {sges(), std::min(__atomic_load_n(&num_sge, __ATOMIC_RELAXED), kMaxSge + 1)};
    }
    uint64_t length() const {
        uint64_t sum = 0;
        for (const Sge& sge : elements()) sum += sge.length;
        return sum;
    }
};

// The shared part of the ring. Indices only grow. `base` is where the caller has mapped the
// owner's arena. Words are grouped by who writes them how often, because a line that the owner
// writes for each receive must not be read by the consumer for each, and the other way round.
struct RecvRing {
    uint64_t slots = 0;     // offset of the slots in the owner's arena
    uint32_t mask = 0;      // slots - 1
    uint32_t capacity = 0;  // the most receives that the owner may have posted
    uint32_t max_sge = 0;

    alignas(64) std::atomic<uint64_t> tail{0};  // posted; the owner stores, release

    alignas(64) std::atomic<uint64_t> released{0};  // completed and polled, or dropped
    uint32_t next_slot = 0;  // only for the owner: where the search for a free slot begins

    alignas(64) std::atomic<uint64_t> head{0};  // taken; the consumer stores
    uint64_t tail_seen = 0;                     // only for the consumer: `tail` as last read

    // Bytes of a slot, in whole cache lines: one process writes a slot, another one reads it.
    static uint64_t stride(uint32_t max_sge) {
        return (sizeof(RecvWqe) + uint64_t{max_sge} * sizeof(Sge) + 63) & ~uint64_t{63};
    }
    // Memory for `entries` slots, the ring itself, and what is known of each slot.
    static uint64_t bytes(uint32_t entries, uint32_t max_sge) {
        return entries * (stride(max_sge) + sizeof(uint32_t) + sizeof(std::atomic<uint32_t>));
    }
    bool full() const {
        return tail.load(std::memory_order_relaxed) - released.load(std::memory_order_acquire) >=
               capacity;
    }
    // For the consumer.
    bool empty() {
        const uint64_t at = head.load(std::memory_order_relaxed);
        if (at >= tail_seen) tail_seen = tail.load(std::memory_order_acquire);
        return at == tail_seen;
    }
    uint64_t posted() const {
        return tail.load(std::memory_order_acquire) - head.load(std::memory_order_relaxed);
    }
    // For the consumer: the receive at `index` is the next one, whose line comes meanwhile.
    void expect(char* base, uint64_t index) const {
        if (index < tail_seen) __builtin_prefetch(&at(base, index));
    }
    RecvWqe& slot(char* base, uint32_t number) const {
        return *reinterpret_cast<RecvWqe*>(base + slots + (number & mask) * stride(max_sge));
    }
    // The slot number at a ring index.
    uint32_t& order(char* base, uint64_t index) const {
        auto* numbers = reinterpret_cast<uint32_t*>(base + slots + (mask + 1ull) * stride(max_sge));
        return numbers[index & mask];
    }
    RecvWqe& at(char* base, uint64_t index) const { return slot(base, order(base, index)); }
    // Set by the owner's post, cleared by release_slot(). Not in the slot, which the consumer
    // reads.
    std::atomic<uint32_t>& in_use(char* base, uint32_t number) const {
        auto* words = reinterpret_cast<std::atomic<uint32_t>*>(&order(base, 0) + mask + 1);
        return words[number & mask];
    }

    // Empties the ring and sets it up over fresh memory.
    void init(char* base, uint64_t offset, uint32_t entries, uint32_t limit, uint32_t sges) {
        slots = offset;
        mask = entries - 1;
        capacity = limit;
        max_sge = sges;
        tail.store(0, std::memory_order_relaxed);
        head.store(0, std::memory_order_relaxed);
        for (uint32_t i = 0; i < entries; ++i) {
            slot(base, i).slot = i;
            new (&in_use(base, i)) std::atomic<uint32_t>();
        }
        drop_all(base);
    }

    // Appends a receive; the owner serializes posts and has checked full().
    void post(char* base, uint64_t wr_id, const Sge* sges, uint32_t count) {
        while (in_use(base, next_slot).load(std::memory_order_acquire) != 0) ++next_slot;
        RecvWqe& wqe = slot(base, next_slot);
        wqe.wr_id = wr_id;
        wqe.num_sge = count;
        std::copy(sges, sges + count, wqe.sges());
        in_use(base, next_slot).store(1, std::memory_order_relaxed);
        const uint64_t index = tail.load(std::memory_order_relaxed);
        order(base, index) = wqe.slot;
        ++next_slot;
        tail.store(index + 1, std::memory_order_release);
    }

    void release_slot(char* base, uint32_t number) {
        in_use(base, number).store(0, std::memory_order_release);
        released.fetch_add(1, std::memory_order_release);
    }

    // Drops all receives, posted and taken.
    void drop_all(char* base) {
        const uint64_t end = tail.load(std::memory_order_relaxed);
        for (uint32_t i = 0; i <= mask; ++i) in_use(base, i).store(0, std::memory_order_relaxed);
        tail_seen = end;
        head.store(end, std::memory_order_release);
        released.store(end, std::memory_order_release);
    }
};

}  // namespace softhca
