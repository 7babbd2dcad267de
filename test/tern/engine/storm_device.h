// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "tern/pinning/cache/pin_cache.h"
#include "tern/pinning/cache/pin_table.h"

namespace tern::test {

// A device that registers memory, and moves bytes through the registrations. For any thread.
class StormDevice {
  public:
    static constexpr size_t kMost = 1 << 16;  // bytes of a transfer

    virtual ~StormDevice() = default;
    virtual std::unique_ptr<Registrar> registrar() = 0;
    // Copy from and to the registered memory, which may not be what is mapped there now.
    virtual bool gather(const Pin& pin, const void* from, size_t size, void* to) = 0;
    virtual bool scatter(const Pin& pin, void* to, size_t size, const void* from) = 0;
};

// Writes by RDMA within this process.
std::unique_ptr<StormDevice> open_loopback();

// Fixed buffers of io_uring: the kernel pins pages, and copies from and to these pages, whatever is
// mapped at their addresses later. Null if io_uring is not allowed.
std::unique_ptr<StormDevice> open_physical_pages();

// When registrations were made, by a clock that counts events. This shows stale registrations on a
// device that uses virtual addresses.
class Stamps {
  public:
    uint64_t now() { return clock_.fetch_add(1); }
    void made(uint32_t key, uint64_t when) {
        const std::lock_guard lock(mutex_);
        made_[key] = when;
    }
    void gone(uint32_t key) {
        const std::lock_guard lock(mutex_);
        made_.erase(key);
    }
    // 0 if there is no such registration.
    uint64_t of(uint32_t key) {
        const std::lock_guard lock(mutex_);
        const auto found = made_.find(key);
        return found == made_.end() ? 0 : found->second;
    }
    size_t count() {
        const std::lock_guard lock(mutex_);
        return made_.size();
    }

  private:
    std::atomic<uint64_t> clock_{1};
    std::mutex mutex_;
    std::map<uint32_t, uint64_t> made_;
};

class StampedRegistrar final : public Registrar {
  public:
    StampedRegistrar(std::unique_ptr<Registrar> inner, Stamps& stamps)
        : inner_(std::move(inner)), stamps_(stamps) {}
    ibv_mr* add(void* address, size_t length, int access) override {
        const uint64_t before = stamps_.now();
        ibv_mr* region = inner_->add(address, length, access);
        if (region != nullptr) stamps_.made(region->lkey, before);
        return region;
    }
    void remove(ibv_mr* region) override {
        stamps_.gone(region->lkey);
        inner_->remove(region);
    }

  private:
    std::unique_ptr<Registrar> inner_;
    Stamps& stamps_;
};

}  // namespace tern::test
