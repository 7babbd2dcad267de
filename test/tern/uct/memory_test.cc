// SPDX-License-Identifier: BSD-3-Clause
// The memory domain: registration, keys, allocation, and refused registrations.
#include <ucp/api/ucp_version.h>
#include <uct/api/v2/uct_v2.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <thread>

#include "../../softhca/device/fabric.h"
#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace {

namespace softhca = conformance::softhca;

class MemoryTest : public testing::Test {};

// All flags that a domain may have.
#if UCP_API_MAJOR > 1 || UCP_API_MINOR >= 15
constexpr uint64_t kFlags = 2 * uint64_t{UCT_MD_FLAG_INVALIDATE_AMO} - 1;
#else
constexpr uint64_t kFlags = 2 * uint64_t{UCT_MD_FLAG_INVALIDATE} - 1;
#endif

TEST_F(MemoryTest, DomainDescribesItself) {
    Host host;
    uct_md_attr_t attr;
    std::memset(&attr, 0xff, sizeof attr);  // UCX does not initialise it either
    check(uct_md_query(host.md(), &attr), "uct_md_query");
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_REG);
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_NEED_MEMH);
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_NEED_RKEY);
    EXPECT_EQ(attr.cap.flags & ~kFlags, 0u);
    EXPECT_EQ(attr.cap.reg_mem_types, UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_TRUE(attr.cap.access_mem_types & UCS_BIT(UCS_MEMORY_TYPE_HOST));
    EXPECT_EQ(attr.cap.detect_mem_types, 0u);
    EXPECT_GE(attr.cap.max_reg, std::size_t{1} << 30);
    EXPECT_GT(attr.rkey_packed_size, 0u);
    EXPECT_LE(attr.rkey_packed_size, 32u);
    EXPECT_GE(attr.reg_cost.c, 0);
    EXPECT_LT(attr.reg_cost.c, 1e-2);
    EXPECT_GE(attr.reg_cost.m, 0);
    EXPECT_LT(attr.reg_cost.m, 1e-6);
    EXPECT_LT(strnlen(attr.component_name, UCT_COMPONENT_NAME_MAX),
              std::size_t{UCT_COMPONENT_NAME_MAX});
    if (is_tern()) {
        EXPECT_STREQ(attr.component_name, "tern");
    }
}

TEST_F(MemoryTest, AnySizeAtAnyAddress) {
    Host host;
    std::vector<std::byte> memory(1 << 20);
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{7}, std::size_t{4096}, memory.size() - 3}) {
        uct_mem_h handle = nullptr;
        check(uct_md_mem_reg(host.md(), memory.data() + 3, size, UCT_MD_MEM_ACCESS_ALL, &handle),
              "uct_md_mem_reg");
        EXPECT_NE(handle, nullptr);
        EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(host.md(), handle));
    }
}

TEST_F(MemoryTest, OverlappingRegionsLiveOnTheirOwn) {
    Entity a, b;
    Memory* const whole = new Memory(a.host(), 8192);
    uct_mem_h again;
    check(uct_md_mem_reg(a.host().md(), whole->data() + 100, 4096, UCT_MD_MEM_ACCESS_ALL, &again),
          "uct_md_mem_reg");
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(a.host().md(), again));
    const std::unique_ptr<Memory> owner(whole);
    std::ranges::copy(pattern(1, 2000), whole->data());
    std::size_t received = 0;
    b.handle(1, [&](Bytes message) { received += same(message, pattern(1, 2000)); });
    const Endpoint ep = a.connect(b);
    Completion completion;
    ucs_status_t status = UCS_OK;
    const uct_iov_t iov = whole->iov(0, 2000);
    ASSERT_TRUE(accepted({&a, &b}, [&] {
        return status = am_zcopy(ep, 1, {}, {&iov, 1}, &completion);
    }));
    const int calls = status == UCS_INPROGRESS;
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1 && completion.calls == calls; }));
}

TEST_F(MemoryTest, KeysArePackedAndUnpackedManyTimes) {
    Host host;
    Memory memory(host, 4096);
    const Remote first = describe(host, memory);
    std::vector<std::unique_ptr<RemoteKey>> keys;
    for (int i = 0; i < 100; ++i) {
        const Remote again = describe(host, memory);
        EXPECT_EQ(again.key, first.key);
        keys.push_back(std::make_unique<RemoteKey>(host, again));
    }
    uct_md_attr_t attr;
    check(uct_md_query(host.md(), &attr), "uct_md_query");
    EXPECT_TRUE(std::all_of(first.key.begin() + static_cast<std::ptrdiff_t>(attr.rkey_packed_size),
                            first.key.end(), [](std::byte byte) { return byte == std::byte{}; }));
}

TEST_F(MemoryTest, AllocatedMemoryIsRegistered) {
    Entity a, b;
    uct_allocated_memory_t memory;
    check(uct_iface_mem_alloc(a.iface(), 10000, UCT_MD_MEM_ACCESS_ALL, "test", &memory),
          "uct_iface_mem_alloc");
    ASSERT_GE(memory.length, 10000u);
    ASSERT_NE(memory.memh, nullptr);
    const std::size_t length = std::min<std::size_t>(10000, a.attr().cap.am.max_zcopy);
    std::ranges::copy(pattern(4, length), static_cast<std::byte*>(memory.address));
    std::size_t received = 0;
    b.handle(1, [&](Bytes message) { received += same(message, pattern(4, length)); });
    Endpoint ep = a.connect(b);
    Completion completion;
    const uct_iov_t iov{memory.address, length, memory.memh, 0, 1};
    ucs_status_t status = UCS_OK;
    ASSERT_TRUE(accepted({&a, &b}, [&] {
        return status = am_zcopy(ep, 1, {}, {&iov, 1}, &completion);
    }));
    const int calls = status == UCS_INPROGRESS;
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 1 && completion.calls == calls; }));
    uct_iface_mem_free(&memory);
}

// Memory is registered when its key is packed. If that fails, packing the next key tries again.
// From UCX 1.15 on, memory that programs map is declared without a right to atomic operations, so
// rights do not matter; before, only memory with that right is registered.
TEST_F(MemoryTest, RegisteredWithItsKey) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others register at once";
    Host host;
    std::vector<std::byte> memory(4096);
    const uint64_t before = objects("memory_regions");
    for (const unsigned rights : {unsigned{UCT_MD_MEM_ACCESS_ALL}, kRma}) {
        const bool opens = rights != kRma || UCP_API_VERSION >= UCP_VERSION(1, 15);
        uct_mem_h handle;
        check(uct_md_mem_reg(host.md(), memory.data(), memory.size(), rights, &handle),
              "uct_md_mem_reg");
        EXPECT_EQ(objects("memory_regions"), before);
        std::array<std::byte, 64> closed{}, open{};
        softhca::inject("reg-fail=1");
        EXPECT_STATUS(UCS_OK, uct_md_mkey_pack(host.md(), handle, closed.data()));
        EXPECT_EQ(objects("memory_regions"), before);
        EXPECT_STATUS(UCS_OK, uct_md_mkey_pack(host.md(), handle, open.data()));
        EXPECT_EQ(objects("memory_regions"), before + (opens ? 1 : 0));
        EXPECT_EQ(closed != open, opens);
        EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(host.md(), handle));
        EXPECT_EQ(objects("memory_regions"), before);
        softhca::inject("none");
    }
}

// Whatever the rights, and wherever the key is packed.
TEST_F(MemoryTest, RegisteredWithAnyKeyIfTheUserSaysSo) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others register at once";
    setenv("UCX_TERN_OPEN_ALL_KEYS", "y", 1);
    Host host;
    unsetenv("UCX_TERN_OPEN_ALL_KEYS");
    std::vector<std::byte> memory(4096);
    const uint64_t before = objects("memory_regions");
    uct_mem_h handle;
    check(uct_md_mem_reg(host.md(), memory.data(), memory.size(), kRma, &handle), "uct_md_mem_reg");
    EXPECT_EQ(objects("memory_regions"), before);
    std::array<std::byte, 64> key{};
    EXPECT_STATUS(UCS_OK, uct_md_mkey_pack(host.md(), handle, key.data()));
    EXPECT_EQ(objects("memory_regions"), before + 1);
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(host.md(), handle));
    EXPECT_EQ(objects("memory_regions"), before);
}

// Two threads pack keys of one region: the keys are the same.
TEST_F(MemoryTest, ThreadsGetOneKey) {
    if (!is_tern()) GTEST_SKIP() << "others register at once";
    Host host;
    std::vector<std::byte> memory(64 << 10);
    for (int round = 0; round < 500; ++round) {
        uct_mem_h handle;
        check(
            uct_md_mem_reg(host.md(), memory.data(), memory.size(), UCT_MD_MEM_ACCESS_ALL, &handle),
            "uct_md_mem_reg");
        std::array<std::array<std::byte, 64>, 2> keys{};
        std::barrier start(2);
        const auto pack = [&](std::size_t which) {
            start.arrive_and_wait();
            EXPECT_STATUS(UCS_OK, uct_md_mkey_pack(host.md(), handle, keys[which].data()));
        };
        std::thread other(pack, 1);
        pack(0);
        other.join();
        EXPECT_EQ(keys[0], keys[1]) << "in round " << round;
        EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(host.md(), handle));
    }
}

TEST_F(MemoryTest, NothingIsRegisteredForRendezvousAlone) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others register at once";
    Host host;
    const uint64_t before = objects("memory_regions");
    const Declared memory(host, 4096);
    EXPECT_EQ(objects("memory_regions"), before);
}

// Advised memory is registered once, if there is room for it.
TEST_F(MemoryTest, WhatWillBeNeededIsRegistered) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others register at once";
    ASSERT_EQ(setenv("UCX_TERN_PIN_MAX", "64k", 1), 0);
    Host host;
    unsetenv("UCX_TERN_PIN_MAX");
    const Declared memory(host, 128 << 10);
    const auto advise = [&](std::size_t offset, std::size_t length) {
        return uct_md_mem_advise(host.md(), memory.iov(0, 1).memh, memory.data() + offset, length,
                                 UCT_MADV_WILLNEED);
    };
    const uint64_t before = objects("memory_regions");
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, advise(1, 128 << 10)) << "more than was declared";
    EXPECT_STATUS(UCS_ERR_NO_MEMORY, advise(0, 128 << 10)) << "more than may be pinned";
    EXPECT_EQ(objects("memory_regions"), before);
    EXPECT_STATUS(UCS_OK, advise(7, 32 << 10));
    EXPECT_STATUS(UCS_OK, advise(8, 16 << 10));
    EXPECT_EQ(objects("memory_regions"), before + 1);
}

#if UCP_API_MAJOR > 1 || UCP_API_MINOR >= 16
TEST_F(MemoryTest, KeysCompare) {
    Host host;
    Memory one(host, 4096), other(host, 4096);
    const Remote remote = describe(host, one);
    const RemoteKey key(host, remote), again(host, remote), third(host, describe(host, other));
    uct_rkey_compare_params_t params{};
    int same = -2, less = -2, more = -2;
    const auto compare = [&](const RemoteKey& a, const RemoteKey& b, int& result) {
        return uct_rkey_compare(host.component(), a.get(), b.get(), &params, &result);
    };
    EXPECT_STATUS(UCS_OK, compare(key, again, same));
    EXPECT_EQ(same, 0);
    EXPECT_STATUS(UCS_OK, compare(key, third, less));
    EXPECT_STATUS(UCS_OK, compare(third, key, more));
    EXPECT_NE(less, 0);
    EXPECT_EQ(less, -more);
    params.field_mask = ~uint64_t{0};
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, compare(key, again, same));
}
#endif

// Messages from memory that cannot be registered are copied, and peers can still put to it.
TEST_F(MemoryTest, MemoryThatIsNotRegisteredIsCopied) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others refuse";
    Entity a, b;
    const std::size_t length = a.attr().cap.am.max_zcopy - 40;
    std::vector<std::byte> memory(length);
    std::ranges::copy(pattern(7, length), memory.begin());
    std::size_t received = 0;
    b.handle(1, [&](Bytes message) {
        received += same(message.first(40), pattern(3, 40)) &&
                    same(message.subspan(40), pattern(7, length));
    });
    const Endpoint ep = a.connect(b);
    softhca::inject("reg-fail=1");
    uct_mem_h handle = nullptr;
    check(uct_md_mem_reg(a.host().md(), memory.data(), length, UCT_MD_MEM_ACCESS_ALL, &handle),
          "uct_md_mem_reg");
    Remote remote;
    remote.address = reinterpret_cast<uintptr_t>(memory.data());
    check(uct_md_mkey_pack(a.host().md(), handle, remote.key.data()), "uct_md_mkey_pack");
    const uct_iov_t iov{memory.data(), length, handle, 0, 1};
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(accepted({&a, &b}, [&] {
            return am_zcopy(ep, 1, pattern(3, 40), {&iov, 1}, nullptr);
        }));
    }
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 100; })) << received;
    const RemoteKey key(b.host(), remote);
    const Endpoint back = b.connect(a);
    for (std::size_t i = 0; i < 50; ++i) {
        const Bytes bytes = pattern(i, 8 + i * 20);
        ASSERT_TRUE(accepted({&a, &b}, [&] {
            return bytes.size() <= b.attr().cap.put.max_short
                       ? put_short(back, bytes, remote.address + i, key)
                       : put_bcopy(back, bytes, remote.address + i, key);
        }));
        Completion completion;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted({&a, &b}, [&] {
            return status = uct_ep_flush(back.get(), UCT_FLUSH_FLAG_LOCAL, &completion);
        }));
        ASSERT_TRUE(
            eventually({&a, &b}, [&] { return status == UCS_OK || completion.calls == 1; }));
        EXPECT_TRUE(same({memory.data() + i, bytes.size()}, bytes)) << i;
    }
    EXPECT_STATUS(UCS_OK, uct_md_mem_dereg(a.host().md(), handle));
}

// An interface opens with half the receive queue if memory is short.
TEST_F(MemoryTest, InterfaceWithLessMemory) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "only Tern makes do with less";
    const uint64_t usual = Entity().close_and_count()["receive_queue_bytes"];
    auto host = std::make_shared<Host>();
    Entity other;
    // After the send pool, and the sends and receives of datagrams.
    softhca::inject("reg-fail=4");
    Entity entity({}, host);
    Stream stream;
    stream.count = 2000;
    {
        Flow there(entity, other, stream), back(other, entity, stream);
        EXPECT_TRUE(run({&there, &back}));
    }
    EXPECT_EQ(entity.close_and_count()["receive_queue_bytes"], usual / 2);
}

// An interface that cannot register its memory is not opened, and leaves no objects behind.
TEST_F(MemoryTest, InterfaceWithoutMemoryIsRefused) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "others keep memory in the domain";
    auto host = std::make_shared<Host>();
    const uint64_t regions = objects("memory_regions");
    int refused = 0;
    for (bool open = false; !open; refused += !open) {
        ASSERT_LT(refused, 20);
        softhca::inject("reg-fail=" + std::to_string(refused + 1));
        try {
            Entity entity({}, host);
            open = true;
        } catch (const std::runtime_error&) {
        }
        softhca::inject("none");
        EXPECT_EQ(objects("memory_regions"), regions) << refused;
        EXPECT_EQ(objects("queue_pairs"), 0u) << refused;
    }
    EXPECT_GT(refused, 0);
}

// An open interface can send even if it cannot register any more memory.
TEST_F(MemoryTest, TrafficGoesOnWithoutMoreMemory) {
    NEEDS_SOFTWARE_HCA();
    if (!is_tern()) GTEST_SKIP() << "only Tern registers later";
    for (int fails = 1; fails <= 4; ++fails) {
        Entity a, b;
        std::size_t received = 0;
        b.handle(1, [&](Bytes message) { received += same(message, pattern(received, 300)); });
        const Endpoint ep = a.connect(b);
        softhca::inject("reg-fail=" + std::to_string(fails));
        for (std::size_t i = 0; i < 3000; ++i) {
            ASSERT_TRUE(accepted({&a, &b}, [&] { return am_bcopy(ep, 1, pattern(i, 300)); })) << i;
        }
        EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 3000; })) << received;
        softhca::inject("none");
    }
}

}  // namespace
}  // namespace uct_test
