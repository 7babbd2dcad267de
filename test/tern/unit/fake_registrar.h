// SPDX-License-Identifier: BSD-3-Clause
// A device that registers memory for a PinCache, and caches without a thread of their own.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>

#include "tern/pinning/cache/pin_cache.h"

namespace tern {
namespace pin_cache_test {

inline constexpr uint64_t kPage = 4096;
inline constexpr unsigned kPut = kLocalRead | kRemotePut;

inline void* at(uint64_t address) {
    return reinterpret_cast<void*>(address);
}

// A device, as a cache sees it.
struct Device {
    struct Region {
        ibv_mr mr{};
        int access = 0;
    };
    std::set<Region*> regions;
    uint64_t limit = UINT64_MAX;  // bytes
    uint64_t read_only = 0;       // pages from this address on are read-only
    unsigned attempts = 0;
    uint32_t keys = 0;
    bool on_demand = false;
    bool survives_fork = true;
    std::mutex mutex;                 // the cache has a thread of its own
    std::function<void()> meanwhile;  // called while memory is being registered

    uint64_t bytes() {
        const std::lock_guard lock(mutex);
        uint64_t sum = 0;
        for (const Region* region : regions) sum += region->mr.length;
        return sum;
    }
};

class FakeRegistrar final : public Registrar {
  public:
    explicit FakeRegistrar(Device& device) : device_(device) {}
    ibv_mr* add(void* address, size_t length, int access) override {
        ++device_.attempts;
        const auto end = reinterpret_cast<uintptr_t>(address) + length;
        if (device_.bytes() + length > device_.limit) {
            errno = ENOMEM;
            return nullptr;
        }
        if (device_.read_only != 0 && end > device_.read_only &&
            (access & IBV_ACCESS_LOCAL_WRITE) != 0) {
            errno = EFAULT;
            return nullptr;
        }
        auto* region = new Device::Region;
        region->mr.addr = address;
        region->mr.length = length;
        region->access = access;
        region->mr.lkey = region->mr.rkey = ++device_.keys;
        {
            const std::lock_guard lock(device_.mutex);
            device_.regions.insert(region);
        }
        if (device_.meanwhile) device_.meanwhile();
        return &region->mr;
    }
    void remove(ibv_mr* mr) override {
        auto* region = reinterpret_cast<Device::Region*>(mr);
        const std::lock_guard lock(device_.mutex);
        ASSERT_EQ(device_.regions.erase(region), 1u) << "deregistered twice";
        delete region;
    }
    bool on_demand() const override { return device_.on_demand; }
    bool survives_fork() const override { return device_.survives_fork; }

  private:
    Device& device_;
};

// With a monitor whose events come from the test.
inline PinSettings remembering(uint64_t most = 1u << 30) {
    return {.monitor = MonitorKind::kUcm,
            .has_hooks = true,
            .most_bytes = most,
            .refusal = std::chrono::milliseconds(50),
            .quarantine = std::chrono::milliseconds(0),
            .background = false};
}

class PinCacheTest : public testing::Test {
  protected:
    PinCache make(const PinSettings& settings) {
        return PinCache(std::make_unique<FakeRegistrar>(device), settings);
    }
    Device device;
};

}  // namespace pin_cache_test
}  // namespace tern
