// SPDX-License-Identifier: BSD-3-Clause
// Early copies of messages that are announced by messages of UCP: which messages are copied, and
// what a peer that fetches them gets, whatever else happens to the memory.
#include <dlfcn.h>
#include <ucp/api/ucp.h>
#include <uct/api/v2/uct_v2.h>

#include <thread>

#include "../../softhca/device/fabric.h"
#include "transfer.h"

namespace uct_test {
namespace ucp_request_test {

namespace softhca = conformance::softhca;

constexpr uint8_t kRequest = 9;  // the id of UCP's requests to send
constexpr std::size_t kLength = 100'000;
// Whether keys tell what they are for, and the program's are recognised by where they are packed.
constexpr bool kRanges = UCP_API_VERSION >= UCP_VERSION(1, 16);
constexpr bool kByPlace = UCP_API_VERSION >= UCP_VERSION(1, 15);
// Rights that programs' memory has and memory of a rendezvous has not.
constexpr unsigned kProgram = kByPlace ? kRma : unsigned{UCT_MD_MEM_ACCESS_ALL};

Settings staged() {
    return {{"RNDV_SCHEME", "superpipeline"}};
}

// From 1.16 on, keys of short messages are recognised by their place on the stack.
void pack(Host& host, const uct_iov_t& range, void* key) {
    const uct_md_mkey_pack_params_t params{};
#if UCP_API_VERSION >= UCP_VERSION(1, 16)
    check(uct_md_mkey_pack_v2(host.md(), range.memh, range.buffer, range.length, &params, key),
          "uct_md_mkey_pack_v2");
#else
    check(uct_md_mkey_pack_v2(host.md(), range.memh, &params, key), "uct_md_mkey_pack_v2");
#endif
}

// As UCP packs a key for the program.
void pack_for_program(Host& host, const uct_iov_t& range, Remote& remote) {
    const auto heap = std::make_unique<std::array<std::byte, 64>>();
    pack(host, range, heap->data());
    remote.key = *heap;
}

// The tests play UCP at `a`, which announces messages to `b`.
class UcpRequestTest : public TernTest {
  protected:
    const UnpublishedKeys unpublished_;  // first: entities follow
    void SetUp() override {
        TernTest::SetUp();
        if (IsSkipped()) return;
        void* const library = dlopen("libucp.so.0", RTLD_NOW);
        void* const of_ucp = library != nullptr ? dlsym(library, "ucp_get_version") : nullptr;
        if (of_ucp == nullptr) GTEST_SKIP() << "no library of UCP";
        set_handler(reinterpret_cast<uct_am_callback_t>(of_ucp));
        b.handle(kRequest, [](Bytes) {});
        // The sender registers staging memory for two transfers.
        Declared from(a.host(), 16 * kLength), to(b.host(), 2 * from.size());
        const RemoteKey key(b.host(), from.remote());
        Completion both(2);
        for (const std::size_t at : {std::size_t{0}, from.size()}) {
            const uct_iov_t iov = to.iov(at, from.size());
            EXPECT_TRUE(accepted(all, [&] {
                return uct_ep_get_zcopy(back.get(), &iov, 1, from.remote().address, key.get(),
                                        &both);
            }));
        }
        EXPECT_TRUE(eventually(all, [&] { return both.calls != 0; }));
        linger(all, milliseconds(2));
    }
    void TearDown() override {
        if (!IsSkipped() && on_software_hca()) end_faults();
    }
    // Never called: nobody sends requests to `a`.
    void set_handler(uct_am_callback_t handler) {
        check(uct_iface_set_am_handler(a.iface(), kRequest, handler, nullptr, 0),
              "uct_iface_set_am_handler");
    }
    // Sends a message that packs the keys of `ranges`. Returns the last key.
    Remote send(uint8_t id, const Endpoint& to, const std::vector<uct_iov_t>& ranges) {
        Remote remote;
        const std::function<void()> packs = [&] {
            for (const uct_iov_t& range : ranges) {
                pack(a.host(), range, remote.key.data());
                remote.address = reinterpret_cast<uintptr_t>(range.buffer);
            }
        };
        EXPECT_TRUE(accepted(all, [&] {
            const ssize_t length = uct_ep_am_bcopy(
                to.get(), id,
                [](void* at, void* function) -> std::size_t {
                    (*static_cast<const std::function<void()>*>(function))();
                    std::memset(at, 0, 80);
                    return 80;
                },
                const_cast<void*>(static_cast<const void*>(&packs)), 0);
            return length < 0 ? static_cast<ucs_status_t>(length) : UCS_OK;
        }));
        return remote;
    }
    // The whole of `memory` is announced, with this content.
    Remote announce(const Declared& memory, uint64_t seed) {
        fill(memory.part(0, memory.size()), seed);
        return send(kRequest, ep, {memory.iov(0, memory.size())});
    }
    // The memory is fetched. The beginning of what comes has the content of `early` if it has been
    // copied early.
    void expect(const uct_iov_t& range, const Remote& remote, uint64_t early) {
        Declared to(b.host(), range.length);
        const RemoteKey key(b.host(), remote);
        const uct_iov_t iov = to.iov(0, range.length);
        ASSERT_STATUS(UCS_OK, get_wait(all, back, {&iov, 1}, remote.address, key));
        EXPECT_TRUE(filled(to.part(0, 4096), early));
        linger(all, milliseconds(2));  // until staging memory is free again
    }
    void expect(const Declared& memory, const Remote& remote, uint64_t early) {
        expect(memory.iov(0, memory.size()), remote, early);
    }
    void expect_counts(uint64_t made, uint64_t used) {
        ep.reset();
        linger(all, milliseconds(5));
        const Counters counters = a.close_and_count();
        EXPECT_EQ(counters["rndv_early_copies_made"], made) << counters.json();
        EXPECT_EQ(counters["rndv_early_copies_used"], used) << counters.json();
    }

    Entity a{staged()}, b{staged()};
    const Group all{&a, &b};
    Endpoint ep = a.connect(b), back = b.connect(a);
};

TEST_F(UcpRequestTest, TheMessageIsCopiedEarly) {
    Declared from(a.host(), kLength);
    const Remote key = announce(from, 1);
    fill(from.part(0, kLength), 2);  // no user may do this; it shows when the copy was made
    expect(from, key, 1);
    expect(from, key, 2);
    expect_counts(1, 1);
}

TEST_F(UcpRequestTest, OtherMessagesAreNot) {
    Declared from(a.host(), kLength);
    for (const uint8_t id : {8, 10, 11, 12}) {
        b.handle(id, [](Bytes) {});
        (void)send(id, ep, {from.iov(0, kLength)});
    }
    expect_counts(0, 0);
}

TEST_F(UcpRequestTest, OnlyUcpsRequestsCount) {
    Declared from(a.host(), kLength);
    set_handler([](void*, void*, std::size_t, unsigned) { return UCS_OK; });
    const Remote key = announce(from, 1);
    fill(from.part(0, kLength), 2);
    expect(from, key, 2);
    expect_counts(0, 0);
}

TEST_F(UcpRequestTest, ARequestHasOneKey) {
    Declared from(a.host(), kLength), other(a.host(), kLength);
    const uct_iov_t one = from.iov(0, kLength);
    (void)send(kRequest, ep, {one, other.iov(0, kLength)});
    (void)send(kRequest, ep, {});
    b.handle(8, [](Bytes) {});
    (void)send(8, ep, {one});
    (void)send(kRequest, ep, {});
    expect_counts(0, 0);
}

// The memory domain of another interface's device, or another domain of the same device.
TEST_F(UcpRequestTest, AKeyOfAnotherDomainDoesNotCount) {
    Host other;
    Declared from(other, kLength);
    const std::function<void()> packs = [&] {
        std::array<std::byte, 64> key;
        pack(other, from.iov(0, kLength), key.data());
    };
    EXPECT_GE(uct_ep_am_bcopy(
                  ep.get(), kRequest,
                  [](void*, void* function) -> std::size_t {
                      (*static_cast<const std::function<void()>*>(function))();
                      return 0;
                  },
                  const_cast<void*>(static_cast<const void*>(&packs)), 0),
              0);
    expect_counts(0, 0);
}

TEST_F(UcpRequestTest, WhatUcxSaysOfTheMemoryMayMakeNoSense) {
    if (!kRanges) GTEST_SKIP() << "UCX says nothing";
    Declared from(a.host(), kLength);
    uct_iov_t range = from.iov(0, kLength);
    range.length = kLength + 1;
    (void)send(kRequest, ep, {range});
    range = {nullptr, SIZE_MAX, range.memh, 0, 1};
    (void)send(kRequest, ep, {range});
    range = from.iov(0, kLength);
    range.buffer = from.data() - 1;
    (void)send(kRequest, ep, {range});
    range = from.iov(kLength, 0);
    (void)send(kRequest, ep, {range});
    expect_counts(0, 0);
}

// Below: other messages in the same memory.

TEST_F(UcpRequestTest, TheNextRequestWithTheMemoryEndsTheCopy) {
    Declared from(a.host(), kLength);
    (void)announce(from, 1);
    Remote key = announce(from, 2);
    fill(from.part(0, kLength), 3);
    expect(from, key, 2);
    // Until the next is sent, the first is not over.
    (void)announce(from, 4);
    key = announce(from, 5);
    fill(from.part(0, kLength), 6);
    expect(from, key, 5);
    expect(from, key, 6);
    expect_counts(4, 2);
}

TEST_F(UcpRequestTest, AnyOtherPackingEndsTheCopy) {
    Declared from(a.host(), kLength);
    const uct_iov_t range = from.iov(0, kLength);
    b.handle(8, [](Bytes) {});
    const Remote key = announce(from, 1);
    fill(from.part(0, kLength), 2);
    (void)send(8, ep, {range});
    expect(from, key, 2);
    // A message of another interface, and a packing by another thread.
    Entity other(staged());
    for (uint64_t seed = 3; seed < 7; seed += 2) {
        (void)announce(from, seed);
        fill(from.part(0, kLength), seed + 1);
        if (seed == 3) {
            Endpoint elsewhere = other.connect(b);
            EXPECT_TRUE(accepted({&other, &b}, [&] {
                (void)send(kRequest, elsewhere, {range});
                return UCS_OK;
            }));
            EXPECT_TRUE(flush_wait({&other, &b}, elsewhere));
        } else {
            std::thread([&] {
                Remote program;
                pack_for_program(a.host(), range, program);
            }).join();
        }
        expect(from, key, seed + 1);
    }
    expect_counts(3, 0);
}

// Messages in parts of one region, or to several peers, do not end each other's copies.
TEST_F(UcpRequestTest, OtherMessagesInTheRegionKeepTheirs) {
    Declared from(a.host(), 2 * kLength);
    Entity c(staged());
    c.handle(kRequest, [](Bytes) {});
    const Group three{&a, &b, &c};
    Endpoint to_c = a.connect(c), back_from_c = c.connect(a);
    const auto fetch_by_c = [&](const Remote& remote, std::size_t length, uint64_t early) {
        Declared to(c.host(), length);
        const RemoteKey key(c.host(), remote);
        const uct_iov_t iov = to.iov(0, length);
        ASSERT_STATUS(UCS_OK, get_wait(three, back_from_c, {&iov, 1}, remote.address, key));
        EXPECT_TRUE(filled(to.part(0, 4096), early));
        linger(three, milliseconds(2));
    };
    const uct_iov_t all_of_it = from.iov(0, from.size());
    Remote key = announce(from, 1);
    (void)send(kRequest, to_c, {all_of_it});
    EXPECT_TRUE(flush_wait(three, to_c));
    fill(from.part(0, from.size()), 2);
    fetch_by_c(key, from.size(), 1);
    expect(from, key, 1);
    if (kRanges) {
        fill(from.part(0, kLength), 3);
        fill(from.part(kLength, kLength), 4);
        std::vector<Remote> keys;
        for (const std::size_t at : {std::size_t{0}, kLength})
            keys.push_back(send(kRequest, ep, {from.iov(at, kLength)}));
        fill(from.part(0, from.size()), 5);
        expect(from.iov(kLength, kLength), keys[1], 4);
        expect(from.iov(0, kLength), keys[0], 3);
    }
    back_from_c.reset();
    to_c.reset();
    linger(three, milliseconds(5));
    expect_counts(kRanges ? 4 : 2, kRanges ? 4 : 2);
}

// A peer may get the program's memory at any time, whether or not the device can register it.
TEST_F(UcpRequestTest, TheProgramsMemoryIsNotCopied) {
    NEEDS_SOFTWARE_HCA();
    for (const char* fault : {"none", "reg-fail=1000"}) {
        if (!kByPlace) softhca::inject(fault);  // the key is packed at once
        Declared from(a.host(), kLength, kProgram);
        const uct_iov_t range = from.iov(0, kLength);
        Remote key;
        key.address = from.remote().address;
        if (kByPlace) (void)announce(from, 1);
        softhca::inject(fault);
        pack_for_program(a.host(), range, key);
        softhca::inject("none");
        fill(from.part(0, kLength), 2);
        expect(from, key, 2);
        (void)announce(from, 3);
        fill(from.part(0, kLength), 4);
        expect(from, key, 4);
    }
    expect_counts(kByPlace ? 2 : 0, 0);
}

// The memory of a message is declared and undeclared with it, in the same place of the table.
TEST_F(UcpRequestTest, CopiesOfMemoryThatIsGoneGiveWay) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
        Declared from(a.host(), kLength);
        const Remote key = announce(from, seed);
        fill(from.part(0, kLength), seed + 100);
        if (seed % 10 == 9) expect(from, key, seed);
    }
    expect_counts(40, 4);
}

// UCP sends requests that fit as short messages, which it packs on the stack before.
TEST_F(UcpRequestTest, ShortRequests) {
    if (kByPlace && !kRanges) GTEST_SKIP() << "UCX packs keys for them as for programs";
    Declared from(a.host(), kLength);
    Remote key;
    key.address = from.remote().address;
    for (const bool has_key : {true, false}) {
        fill(from.part(0, kLength), 1);
        pack(a.host(), from.iov(0, kLength), key.key.data());
        std::array<std::byte, 64> message{};
        if (has_key) std::memcpy(message.data() + 37, key.key.data(), 16);
        EXPECT_TRUE(accepted(all, [&] { return am_short(ep, kRequest, message); }));
        fill(from.part(0, kLength), 2);
        expect(from, key, has_key ? 1 : 2);
    }
    expect_counts(1, 1);
}

}  // namespace ucp_request_test
}  // namespace uct_test
