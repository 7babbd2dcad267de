// SPDX-License-Identifier: BSD-3-Clause
#include "tern/pinning/regions/regions.h"

#include <sys/random.h>

#include <bit>
#include <new>
#include <thread>

#include "common/clock.h"
#include "tern/verbs/queue_pair.h"

namespace tern {

namespace {

uint64_t random_word() {
    uint64_t word = 0;
    if (getrandom(&word, sizeof(word), GRND_NONBLOCK) == sizeof(word)) return word;
    return base::monotonic_ns() ^ reinterpret_cast<uintptr_t>(&word);
}

// The finalizer of SplitMix64.
uint64_t mix(uint64_t word) {
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
    word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
    return word ^ (word >> 31);
}

}  // namespace

Regions::Regions() : secret_(random_word()) {}

// Chunk c holds the indices from (2^c - 1) * kFirstChunk on.
Region* Regions::slot(uint32_t index) const {
    const unsigned chunk = std::bit_width(index / kFirstChunk + 1) - 1;
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): bit_width() is at least 1
    return &chunks_[chunk][index - ((1u << chunk) - 1) * kFirstChunk];
}

bool Regions::grow() {
    if (chunk_count_ == chunks_.size()) return false;
    const uint32_t count = kFirstChunk << chunk_count_;
    auto chunk = std::unique_ptr<Region[]>(new (std::nothrow) Region[count]);
    if (!chunk) return false;
    for (uint32_t i = count; i-- > 0;) {
        chunk[i].key_.index = slots_ + i;
        chunk[i].next_free_ = free_;
        free_ = &chunk[i];
    }
    slots_ += count;
    chunks_[chunk_count_++] = std::move(chunk);
    return true;
}

// For every index a permutation of the 32-bit numbers: a secret start and a secret odd step.
uint32_t Regions::generation(uint32_t index, uint32_t born) const {
    const uint64_t own = mix(secret_ + (uint64_t{index} + 1) * 0x9e3779b97f4a7c15);
    return static_cast<uint32_t>(own) + born * (static_cast<uint32_t>(own >> 32) | 1);
}

Region* Regions::declare(const void* address, size_t length, unsigned access) {
    if (guard_.inherited()) return nullptr;
    const std::lock_guard lock(mutex_);
    if (free_ == nullptr && !grow()) return nullptr;
    Region* region = free_;
    free_ = region->next_free_;
    region->address_ = reinterpret_cast<uintptr_t>(address);
    region->length_ = length;
    region->access_ = access;
    uint32_t next = 0;
    while (next == 0) next = generation(region->key_.index, region->born_++);
    __atomic_store_n(&region->key_.generation, next, __ATOMIC_RELAXED);
    __atomic_store_n(&region->declared_, true, __ATOMIC_RELEASE);
    return region;
}

bool Regions::undeclare(Region* region, bool invalidate) {
    if (guard_.inherited()) return false;
    const std::lock_guard lock(mutex_);
    __atomic_store_n(&region->declared_, false, __ATOMIC_RELEASE);
    if (region->uses_ == nullptr) {
        reuse(region);
        return false;
    }
    for (RegionUse* use = region->uses_; use != nullptr; use = use->next_) {
        use->state_.fetch_or(RegionUse::kRevoked, std::memory_order_acquire);
        // Until the transfer has made some copies, at most.
        while ((use->state_.load(std::memory_order_acquire) & RegionUse::kInside) != 0)
            std::this_thread::yield();
        // The queue pair, or the queue, outlives the use.
        if (!(use->writes_ || invalidate)) continue;
        if (use->queue_ != nullptr) use->queue_->stop();
        if (use->device_ == nullptr) continue;
        (void)verbs::to_error(use->device_);
        use->state_.fetch_or(RegionUse::kCut, std::memory_order_relaxed);
    }
    revocations_.fetch_add(1, std::memory_order_release);
    return true;
}

RegionUse* Regions::find(RegionKey key) {
    if (guard_.inherited()) return nullptr;
    const std::lock_guard lock(mutex_);
    if (key.index >= slots_) return nullptr;
    Region* region = slot(key.index);
    if (!region->declared_ || region->key_.generation != key.generation) return nullptr;
    RegionUse* use = free_uses_;
    if (use != nullptr)
        free_uses_ = use->next_;
    else
        use = &uses_.emplace_back();
    use->region_ = region;
    use->state_.store(0, std::memory_order_relaxed);
    use->device_ = nullptr;
    use->queue_ = nullptr;
    use->previous_ = nullptr;
    use->next_ = region->uses_;
    if (use->next_ != nullptr) use->next_->previous_ = use;
    region->uses_ = use;
    return use;
}

void Regions::release(RegionUse* use) {
    if (guard_.inherited()) return;
    const std::lock_guard lock(mutex_);
    Region* region = use->region_;
    (use->previous_ != nullptr ? use->previous_->next_ : region->uses_) = use->next_;
    if (use->next_ != nullptr) use->next_->previous_ = use->previous_;
    use->next_ = free_uses_;
    free_uses_ = use;
    if (region->uses_ == nullptr && !region->declared_) reuse(region);
}

void Regions::reuse(Region* region) {
    region->next_free_ = free_;
    free_ = region;
}

size_t Regions::slots() const {
    if (guard_.inherited()) return 0;
    const std::lock_guard lock(mutex_);
    return slots_;
}

}  // namespace tern
