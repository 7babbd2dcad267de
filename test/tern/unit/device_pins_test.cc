// SPDX-License-Identifier: BSD-3-Clause
// The pins of another device's memory; without a device.
#include "fake_registrar.h"
#include "tern/pinning/cache/held_pins.h"

namespace tern {
namespace pin_cache_test {

using DevicePinsTest = PinCacheTest;

// It is found exactly, whatever happens to the process's memory, and needs no room of the cap.
TEST_F(DevicePinsTest, MemoryOfADeviceIsFoundUntilItIsRetired) {
    FakeRegistrar registrar(device);
    PinCache cache = make(remembering(2 * kPage));
    EXPECT_FALSE(cache.has_device_memory());
    Pin* own = cache.adopt(registrar.add(at(0x10010), 4 * kPage, 0), at(0x10010), 4 * kPage, kPut);
    Pin* other = cache.adopt(registrar.add(at(0x10010), kPage, 0), at(0x10010), kPage, kPut);
    EXPECT_TRUE(cache.has_device_memory());
    EXPECT_EQ(cache.counters().pinned_bytes, 0u);
    cache.invalidate(at(0), at(UINT64_MAX));
    cache.unmapped(at(0x10000), at(0x20000));
    Pin* room = cache.pin(at(1 << 20), 2 * kPage, kPut);
    EXPECT_TRUE(room);
    bool found = false;
    Pin* pin = cache.pin(at(0x10010 + kPage), 3 * kPage, kPut, &found);
    EXPECT_EQ(pin, own);
    EXPECT_TRUE(found);
    cache.release(pin);
    EXPECT_EQ(cache.find_of_device(at(0x1000f), 8, 0), nullptr);
    EXPECT_EQ(cache.find_of_device(at(0x10011), 4 * kPage, 0), nullptr);
    EXPECT_EQ(cache.find_of_device(at(0x10010), 8, kRemoteAtomic), nullptr) << "no such right";
    // The same memory twice: one registration is as good as the other, while it lasts.
    HeldPins held(cache);
    const HeldPins::Use use = held.find(at(0x10010), 8, kLocalRead);
    ASSERT_TRUE(use);
    EXPECT_TRUE(use.pin == own || use.pin == other);
    cache.retire(own);
    Pin* rest = cache.find(at(0x10010), 8, kPut);
    EXPECT_EQ(rest, other);
    cache.release(rest);
    EXPECT_EQ(cache.find_of_device(at(0x10010 + kPage), 8, 0), nullptr);
    held.release(use);
    held.progress();
    EXPECT_EQ(device.regions.size(), 2u) << "the retired one is deregistered";
    rest = cache.find_of_device(at(0x10010), 8, 0);
    cache.retire(other);
    EXPECT_FALSE(cache.has_device_memory());
    EXPECT_EQ(device.regions.size(), 2u) << "in use";
    cache.release(rest);
    EXPECT_EQ(device.regions.size(), 1u);
    cache.release(room);
    EXPECT_EQ(cache.counters().pins, 1u);
}

}  // namespace pin_cache_test
}  // namespace tern
