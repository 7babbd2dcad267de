// SPDX-License-Identifier: BSD-3-Clause
// Long messages when resources are missing, or when one side ends in the middle.
#include <algorithm>
#include <deque>
#include <thread>

#include "../../softhca/device/fabric.h"
#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace transfer_fault_test {

namespace softhca = conformance::softhca;

constexpr std::size_t kSize = 2 << 20;
constexpr const char* kSchemes[] = {"superpipeline", "zcopy"};

Settings by(const char* scheme) {
    return {{"RNDV_SCHEME", scheme}};
}

class TransferFaultTest : public TernTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }
};

// Puts and gets all the memory `rounds` times. All operations must succeed, in spite of `faults`.
void expect_good(Entity& a, Entity& b, int rounds = 3, const std::string& faults = {}) {
    const Group all{&a, &b};
    Declared near(a.host(), kSize), far(b.host(), kSize);
    if (!faults.empty()) softhca::inject(faults);
    const RemoteKey key(a.host(), far.remote());
    const Endpoint ep = a.connect(b);
    const uct_iov_t iov = near.iov(0, kSize);
    for (int i = 0; i < rounds; ++i) {
        const auto seed = static_cast<uint64_t>(2 * i + 1);
        fill(near.part(0, kSize), seed);
        ASSERT_STATUS(UCS_OK, put_wait(all, ep, {&iov, 1}, far.remote().address, key));
        ASSERT_TRUE(filled(far.part(0, kSize), seed));
        fill(far.part(0, kSize), seed + 1);
        ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, far.remote().address, key));
        ASSERT_TRUE(filled(near.part(0, kSize), seed + 1));
    }
}

// The registration that fails is that of a ring, of staging memory or of a pin.
TEST_F(TransferFaultTest, RegistrationFailsOnce) {
    NEEDS_SOFTWARE_HCA();
    for (const char* scheme : kSchemes)
        for (int n = 1; n <= 6; ++n) {
            SCOPED_TRACE(scheme + std::to_string(n));
            Entity a(by(scheme)), b(by(scheme));
            expect_good(a, b, 3, "reg-fail=" + std::to_string(n));
            softhca::inject("none");
        }
}

// One side has no ring or no staging memory: the transfer fails, and the endpoints keep working.
TEST_F(TransferFaultTest, NoWindows) {
    NEEDS_SOFTWARE_HCA();
    for (const bool get : {false, true})
        for (const bool at_sender : {false, true}) {
            SCOPED_TRACE(std::string(get ? "get" : "put") + (at_sender ? ", sender" : ""));
            // One slot is the least: Tern tries nothing smaller.
            const Settings settings{{"RNDV_SCHEME", "superpipeline"}, {"RNDV_WINDOW", "4104"}};
            Entity a(settings), b(settings);
            const Group all{&a, &b};
            Declared near(a.host(), kSize), far(b.host(), kSize);
            const RemoteKey key(a.host(), far.remote());
            std::size_t received = 0;
            b.handle(1, [&](Bytes) { ++received; });
            const Endpoint ep = a.connect(b);
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(ep, 1, pattern(0, 8)); }));
            ASSERT_TRUE(eventually(all, [&] { return received == 1; }));
            fill((get ? near : far).part(0, kSize), 1);
            softhca::inject(at_sender ? "reg-fail=2" : "reg-fail=1");
            const uct_iov_t iov = near.iov(0, kSize);
            const ucs_status_t status =
                get ? get_wait(all, ep, {&iov, 1}, far.remote().address, key)
                    : put_wait(all, ep, {&iov, 1}, far.remote().address, key);
            EXPECT_STATUS(UCS_ERR_IO_ERROR, status);
            EXPECT_TRUE(filled((get ? near : far).part(0, kSize), 1));
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(ep, 1, pattern(0, 8)); }));
            ASSERT_TRUE(eventually(all, [&] { return received == 2; }));
            EXPECT_EQ(a.failures().size() + b.failures().size(), 0u);
        }
}

// Almost nothing may be pinned: chunks are staged.
TEST_F(TransferFaultTest, NothingMayBePinned) {
    ASSERT_EQ(setenv("UCX_TERN_PIN_MAX", "4k", 1), 0);
    for (const char* scheme : kSchemes) {
        Entity a(by(scheme)), b(by(scheme));
        expect_good(a, b);
        const Counters counters = b.close_and_count();
        EXPECT_LE(counters["pinned_bytes_most"], 4096u);
    }
    unsetenv("UCX_TERN_PIN_MAX");
}

// The first of two connections is cut in the middle of its puts or gets.
TEST_F(TransferFaultTest, ConnectionIsCut) {
    NEEDS_SOFTWARE_HCA();
    for (const char* scheme : kSchemes)
        for (const bool get : {false, true}) {
            SCOPED_TRACE(std::string(scheme) + (get ? " get" : " put"));
            const Settings settings =
                impatient({{"RNDV_SCHEME", scheme}, {"RNDV_WINDOW", "16k"}, {"rndv_windows", "2"}});
            Entity a(settings), b(settings);
            const Group all{&a, &b};
            Declared near(a.host(), kSize), far(b.host(), kSize);
            const RemoteKey key(a.host(), far.remote());
            fill(far.part(0, kSize), 7);
            Endpoint ep = a.connect(b);
            b.handle(1, [](Bytes) {});
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(ep, 1, pattern(0, 8)); }));
            ASSERT_TRUE(flush_wait(all, ep));
            std::deque<Completion> completions;
            constexpr std::size_t kCount = 6, kEach = kSize / kCount;
            for (std::size_t i = 0; i < kCount; ++i) {
                const uct_iov_t iov = near.iov(i * kEach, kEach);
                Completion& completion = completions.emplace_back();
                ASSERT_TRUE(accepted(all, [&] {
                    const uint64_t there = far.remote().address + i * kEach;
                    return get ? get_zcopy(ep, {&iov, 1}, there, key, &completion)
                               : put_zcopy(ep, {&iov, 1}, there, key, &completion);
                }));
            }
            Completion flush;
            const ucs_status_t flushing = uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush);
            softhca::inject("drop-qp=any");
            ASSERT_TRUE(eventually(all, [&] {
                return std::ranges::all_of(completions,
                                           [](const Completion& it) { return it.calls == 1; });
            }));
            // A get succeeds once its bytes have arrived, even if the answer to the sender is lost.
            if (get && completions.back().status == UCS_OK) {
                EXPECT_TRUE(
                    filled(near.part((kCount - 1) * kEach, kEach), 7, (kCount - 1) * kEach));
            } else {
                EXPECT_NE(completions.back().status, UCS_OK);
            }
            ASSERT_TRUE(eventually(all, [&] { return a.failures(ep) == 1; }));
            if (flushing == UCS_INPROGRESS) {
                EXPECT_EQ(flush.calls, 1);
                EXPECT_NE(flush.status, UCS_OK);
            }
            softhca::inject("none");
            ep.reset();
            // All rings and staging memory must be free again.
            expect_good(a, b, 1);
        }
}

struct Peer {
    Address address;
    Remote memory;
};

class TransferPeerTest : public TransferFaultTest,
                         public testing::WithParamInterface<const char*> {};

// The owner of the memory is killed while it serves transfers.
TEST_P(TransferPeerTest, OwnerIsKilled) {
    const char* const scheme = GetParam();
    Team team;
    const int victim = team.spawn([&](Link& link) {
        Entity self(impatient(by(scheme)));
        Declared memory(self.host(), kSize);
        link.send(Peer{self.address(), memory.remote()});
        for (;;) self.progress();
    });
    Entity self(impatient(by(scheme)));
    const Peer peer = team[victim].receive<Peer>();
    const RemoteKey key(self.host(), peer.memory);
    Declared near(self.host(), kSize);
    Endpoint ep = self.connect(peer.address);
    std::deque<Completion> completions;
    std::size_t done = 0;
    const uct_iov_t iov = near.iov(0, kSize);
    const auto act = [&] {
        while (completions.size() < done + 8) {
            Completion& completion = completions.emplace_back();
            completion.then = [&] { ++done; };
            const ucs_status_t status =
                completions.size() % 2
                    ? get_zcopy(ep, {&iov, 1}, peer.memory.address, key, &completion)
                    : put_zcopy(ep, {&iov, 1}, peer.memory.address, key, &completion);
            if (status == UCS_INPROGRESS) continue;
            completions.pop_back();
            break;
        }
    };
    ASSERT_TRUE(eventually({&self}, [&] {
        act();
        return done > 20;
    }));
    team.kill(victim);
    // A program that computes, or yields its processor to others, polls seldom.
    ASSERT_TRUE(eventually({&self}, [&] {
        act();
        std::this_thread::sleep_for(milliseconds(2));
        return self.failures(ep) == 1;
    }));
    ASSERT_TRUE(eventually({&self}, [&] { return done == completions.size(); }));
    for (const Completion& it : completions) EXPECT_EQ(it.calls, 1);
    EXPECT_NE(completions.back().status, UCS_OK);
    ep.reset();
    Entity other(by(scheme));
    expect_good(self, other, 1);
}

// The peer that began the transfers is killed: the owner's rings and pins must become free.
TEST_P(TransferPeerTest, AskerIsKilled) {
    const char* const scheme = GetParam();
    Team team;
    const int victim = team.spawn([&](Link& link) {
        Entity self(impatient(by(scheme)));
        const Peer peer = link.receive<Peer>();
        const RemoteKey key(self.host(), peer.memory);
        Declared near(self.host(), kSize);
        const Endpoint ep = self.connect(peer.address);
        const uct_iov_t iov = near.iov(0, kSize);
        for (int i = 0;; ++i) {
            (void)(i % 2 ? get_zcopy(ep, {&iov, 1}, peer.memory.address, key, nullptr)
                         : put_zcopy(ep, {&iov, 1}, peer.memory.address, key, nullptr));
            if (i == 40) link.send();
            self.progress();
        }
    });
    Entity self(impatient({{"RNDV_SCHEME", scheme}, {"rndv_windows", "2"}}));
    Entity other(impatient(by(scheme)));
    Declared far(self.host(), kSize);
    team[victim].send(Peer{self.address(), far.remote()});
    linger({&self}, milliseconds(200));
    team[victim].receive();
    linger({&self}, milliseconds(20));
    team.kill(victim);
    expect_good(other, self, 2);
}

// Either side closes its interface with transfers under way.
TEST_F(TransferFaultTest, ClosedInTheMiddle) {
    for (const char* scheme : kSchemes)
        for (const bool asker : {false, true}) {
            SCOPED_TRACE(std::string(scheme) + (asker ? " asker" : " owner"));
            auto a = std::make_unique<Entity>(impatient(by(scheme)));
            auto b = std::make_unique<Entity>(impatient(by(scheme)));
            {
                Declared near(a->host(), kSize), far(b->host(), kSize);
                const RemoteKey key(a->host(), far.remote());
                Endpoint ep = a->connect(*b);
                std::deque<Completion> completions;
                const uct_iov_t iov = near.iov(0, kSize);
                for (int i = 0; i < 6; ++i) {
                    Completion& completion = completions.emplace_back();
                    ASSERT_TRUE(accepted({a.get(), b.get()}, [&] {
                        return i % 2 ? get_zcopy(ep, {&iov, 1}, far.remote().address, key,
                                                 &completion)
                                     : put_zcopy(ep, {&iov, 1}, far.remote().address, key,
                                                 &completion);
                    }));
                }
                for (int i = 0; i < 50; ++i) progress({a.get(), b.get()});
                if (asker) {
                    ep.reset();
                    a->close();
                    linger({b.get()}, milliseconds(20));
                } else {
                    b->close();
                    EXPECT_TRUE(eventually({a.get()}, [&] {
                        return std::ranges::all_of(
                            completions, [](const Completion& it) { return it.calls == 1; });
                    }));
                    ep.reset();
                }
            }
            Entity other(impatient(by(scheme)));
            expect_good(other, asker ? *b : *a, 1);
        }
}

// The endpoint is destroyed first: its operations must still end.
TEST_F(TransferFaultTest, EndpointGoesFirst) {
    Entity a, b;
    Declared near(a.host(), kSize), far(b.host(), kSize);
    const RemoteKey key(a.host(), far.remote());
    fill(near.part(0, kSize), 5);
    Endpoint ep = a.connect(b);
    Completion completion;
    const uct_iov_t iov = near.iov(0, kSize);
    ASSERT_TRUE(accepted({&a, &b}, [&] {
        return put_zcopy(ep, {&iov, 1}, far.remote().address, key, &completion);
    }));
    ep.reset();
    ASSERT_TRUE(eventually({&a, &b}, [&] { return completion.calls == 1; }));
    if (completion.status == UCS_OK) {
        EXPECT_TRUE(filled(far.part(0, kSize), 5));
    }
    expect_good(a, b, 1);
}

INSTANTIATE_TEST_SUITE_P(Schemes, TransferPeerTest, testing::ValuesIn(kSchemes),
                         [](const auto& test) { return std::string(test.param); });
}  // namespace transfer_fault_test
}  // namespace uct_test
