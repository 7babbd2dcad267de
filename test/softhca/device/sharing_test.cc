// SPDX-License-Identifier: BSD-3-Clause
// Memory that is shared already is copied directly. Only the speed may differ.
#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>

#include "fabric.h"
#include "memory.h"

namespace conformance::softhca {
namespace {

constexpr std::size_t kSize = 1 << 17;

uint8_t pattern(std::size_t i, unsigned seed) {
    return static_cast<uint8_t>(i * 7 + i / 509 + seed);
}

bool holds(const uint8_t* bytes, std::size_t size, unsigned seed) {
    for (std::size_t i = 0; i < size; ++i)
        if (bytes[i] != pattern(i, seed)) return false;
    return true;
}

void fill(uint8_t* bytes, std::size_t size, unsigned seed) {
    for (std::size_t i = 0; i < size; ++i) bytes[i] = pattern(i, seed);
}

bool all_are(const uint8_t* bytes, std::size_t size, uint8_t value) {
    return std::all_of(bytes, bytes + size, [value](uint8_t byte) { return byte == value; });
}

class SharingTest : public FabricTest,
                    public testing::WithParamInterface<std::tuple<Memory::Kind, const char*>> {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("SHARED", std::get<1>(GetParam()));
    }
};

constexpr std::size_t kBegin = 4096 + 104;  // of the registered part; not page-aligned
constexpr std::size_t kLength = 100'000;
constexpr std::size_t kThird = 30'001;  // not a multiple of a word

// Offsets in the registered part.
constexpr std::size_t kWritten = 3;
constexpr std::size_t kRead = kWritten + kThird + 1;
constexpr std::size_t kReceived = kRead + kThird + 1;
constexpr std::size_t kCounter = 98'000;  // aligned for atomics

TEST_P(SharingTest, PartOfAMappingIsReachedByEveryOperation) {
    const Memory::Kind kind = std::get<0>(GetParam());
    Team team;
    const int target = team.spawn([kind](Link& link) {
        Side side(link, {}, 4096);
        const Memory memory(kind, kSize);
        const Mr mr = memory.enroll(side.pd.get(), kBegin, kLength);
        uint8_t* part = memory.data() + kBegin;
        fill(part + kRead, kThird, 2);
        ASSERT_EQ(
            RecvWr(1).sge({memory.addr(kBegin + kReceived), kThird, mr->lkey}).post(side.end.qp),
            0);
        link.send(Window{memory.addr(kBegin), mr->rkey, kLength});
        ASSERT_TRUE(next_are(side.end.recv_cq, {1}));
        link.receive();
        EXPECT_TRUE(holds(part + kWritten, kThird, 1));
        EXPECT_TRUE(holds(part + kRead, kThird, 2));
        EXPECT_TRUE(holds(part + kReceived, kThird, 3));
        EXPECT_EQ(look(*reinterpret_cast<uint64_t*>(part + kCounter)), 42u);
        // No other byte has changed.
        EXPECT_TRUE(all_are(memory.data(), kBegin + kWritten, 0));
        EXPECT_TRUE(all_are(part + kWritten + kThird, 1, 0));
        EXPECT_TRUE(all_are(part + kRead + kThird, 1, 0));
        EXPECT_TRUE(all_are(part + kReceived + kThird, kCounter - kReceived - kThird, 0));
        EXPECT_TRUE(all_are(part + kCounter + 8, kSize - kBegin - kCounter - 8, 0));
    });
    const int actor = team.spawn([kind](Link& link) {
        Side side(link, {}, 4096);
        const Memory memory(kind, kSize);
        const Mr mr = memory.enroll(side.pd.get(), kBegin, kLength);
        const Window window = link.receive<Window>();
        uint8_t* part = memory.data() + kBegin;
        auto at = [&](std::size_t offset, uint32_t length) {
            return ibv_sge{memory.addr(kBegin + offset), length, mr->lkey};
        };
        const Qp& qp = side.end.qp;
        fill(part + kWritten, kThird, 1);
        fill(part + kReceived, kThird, 3);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(at(kWritten, kThird))
                      .remote(window.addr + kWritten, window.rkey)
                      .post(qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                      .sge(at(kRead, kThird))
                      .remote(window.addr + kRead, window.rkey)
                      .post(qp),
                  0);
        for (uint64_t i = 3; i <= 4; ++i) {
            ASSERT_EQ(SendWr(IBV_WR_ATOMIC_FETCH_AND_ADD, i)
                          .sge(at(kCounter, 8))
                          .atomic(window.addr + kCounter, window.rkey, 21)
                          .post(qp),
                      0);
        }
        ASSERT_EQ(SendWr(IBV_WR_SEND, 5).sge(at(kReceived, kThird)).post(qp), 0);
        ASSERT_TRUE(next_are(side.end.send_cq, {1, 2, 3, 4, 5}));
        EXPECT_TRUE(holds(part + kRead, kThird, 2));
        EXPECT_EQ(look(*reinterpret_cast<uint64_t*>(part + kCounter)), 21u) << "before the second";
        link.send();
        link.receive();
    });
    introduce(team, target, actor);
    team[actor].send(team[target].receive<Window>());
    team[actor].receive();
    team[target].send();
    team[actor].send();
    team.finish();
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharingTest,
                         testing::Combine(testing::Values(Memory::kPrivate, Memory::kAnonymous,
                                                          Memory::kMemfd, Memory::kShmFile,
                                                          Memory::kSysV),
                                          testing::Values("auto", "off")),
                         [](const auto& test) {
                             return std::string(name(std::get<0>(test.param))) + "_" +
                                    std::get<1>(test.param);
                         });

class SharedFileTest : public FabricTest, public testing::WithParamInterface<const char*> {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("SHARED", GetParam());
    }
};

// Writes `value` to the whole window; returns the completion status.
ibv_wc_status overwrite(const Side& side, const Window& window, uint8_t value) {
    std::fill_n(side.mem.data(), window.size, value);
    if (SendWr(IBV_WR_RDMA_WRITE, value)
            .sge(side.mem.sge(0, window.size))
            .remote(window.addr, window.rkey)
            .post(side.end.qp))
        fail("ibv_post_send");
    return poll_one(side.end.send_cq).status;
}

// Writes to each window that arrives and answers with the status, until an empty window. The value
// to write is in the unused top byte of the address.
void serve_writes(Link& link) {
    Side side(link, {}, kSize);
    std::size_t files = 0;
    for (;;) {
        Window window = link.receive<Window>();
        if (window.size == 0) break;
        const auto value = static_cast<uint8_t>(window.addr >> 56);
        window.addr = window.addr << 8 >> 8;
        link.send(overwrite(side, window, value));
        if (files == 0) files = open_files();
    }
    EXPECT_EQ(files == 0 ? 0 : open_files(), files);
}

// Runs `role(side, write)` in a process, together with a second process that writes to the memory
// of the first: `write(addr, rkey, size, value)` returns the completion status.
template <typename Role>
void with_writer(Role&& role) {
    Team team;
    const int target = team.spawn([&](Link& link) {
        Side side(link, {}, 4096);
        role(side, [&](uint64_t addr, uint32_t rkey, uint32_t size, uint8_t value) {
            link.send(Window{addr | uint64_t{value} << 56, rkey, size});
            return link.receive<ibv_wc_status>();
        });
        link.send(Window{0, 0, 0});
    });
    const int writer = team.spawn(serve_writes);
    introduce(team, target, writer);
    for (;;) {
        const Window window = team[target].template receive<Window>();
        team[writer].send(window);
        if (window.size == 0) break;
        team[target].send(team[writer].template receive<ibv_wc_status>());
    }
    team.finish();
}

TEST_P(SharedFileTest, IsMappedByThePeerOnlyWhereThatIsWanted) {
    const bool maps = std::string(GetParam()) == "auto";
    Team team;
    const int target = team.spawn([](Link& link) {
        Side side(link, {}, 4096);
        const Memory memory(Memory::kMemfd, kSize);
        const Mr mr = memory.enroll(side.pd.get());
        link.send(Window{memory.addr(), mr->rkey, kSize});
        link.receive();
    });
    const int writer = team.spawn([maps](Link& link) {
        Side side(link, {}, kSize);
        const Window window = link.receive<Window>();
        EXPECT_EQ(overwrite(side, window, 1), IBV_WC_SUCCESS);
        EXPECT_EQ(mappings_of("softhca-test"), maps ? 1u : 0u);
        link.send();
    });
    introduce(team, target, writer);
    team[writer].send(team[target].receive<Window>());
    team[writer].receive();
    team[target].send();
    team.finish();
}

TEST_P(SharedFileTest, UnmappedByItsOwnerHarmsNobody) {
    with_writer([](const Side& side, const auto& write) {
        for (const bool reached_before : {true, false}) {
            Memory memory(Memory::kMemfd, kSize);
            const Mr mr = memory.enroll(side.pd.get());
            const uint64_t addr = memory.addr();
            if (reached_before) {
                ASSERT_EQ(write(addr, mr->rkey, kSize, 1), IBV_WC_SUCCESS);
            }
            memory.unmap();
            // Hardware would still reach the pinned pages. Without sharing, the pages are gone.
            const ibv_wc_status status = write(addr, mr->rkey, kSize, 2);
            if (std::string(GetParam()) == "auto") {
                ASSERT_EQ(status, IBV_WC_SUCCESS);
                EXPECT_EQ(memory.in_file(0), 2);
                EXPECT_EQ(memory.in_file(kSize - 1), 2);
            } else {
                ASSERT_EQ(status, IBV_WC_REM_ACCESS_ERR);
                return;  // the error ended the connection
            }
        }
    });
}

TEST_P(SharedFileTest, NewRegistrationAtTheSameAddressIsTheOnlyOneReached) {
    with_writer([](const Side& side, const auto& write) {
        const Memory place(Memory::kPrivate, kSize);  // keeps other mappings away from this address
        auto memory = std::make_unique<Memory>(Memory::kMemfd, kSize, place.data());
        Mr mr = memory->enroll(side.pd.get());
        uint8_t before = 255;
        ASSERT_EQ(write(memory->addr(), mr->rkey, 4096, before), IBV_WC_SUCCESS);
        for (int round = 0; round < 300; ++round) {
            mr.reset();
            memory->forget();
            const auto next =
                new Memory(round % 3 ? Memory::kMemfd : Memory::kShmFile, kSize, place.data());
            const std::unique_ptr<Memory> old =
                std::exchange(memory, std::unique_ptr<Memory>(next));
            mr = next->enroll(side.pd.get());
            const auto value = static_cast<uint8_t>(1 + round % 250);
            ASSERT_EQ(write(next->addr(), mr->rkey, 4096, value), IBV_WC_SUCCESS);
            ASSERT_EQ(old->in_file(0), before) << round;
            ASSERT_EQ(next->in_file(4095), value) << round;
            ASSERT_TRUE(all_are(next->data(), 4096, value)) << round;
            before = value;
        }
    });
}

TEST_P(SharedFileTest, RegistrationsAndPeersLeakNoDescriptors) {
    with_writer([](const Side& side, const auto& write) {
        const Memory memory(Memory::kMemfd, kSize);
        const Memory other(Memory::kShmFile, kSize);
        const std::size_t before = open_files();
        for (int i = 0; i < 100; ++i) {
            Mr one = memory.enroll(side.pd.get());
            Mr two = memory.enroll(side.pd.get(), 4096, 4096);
            ASSERT_EQ(write(memory.addr(), one->rkey, 100, 1), IBV_WC_SUCCESS);
            ASSERT_EQ(ibv_rereg_mr(two.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
                                   other.data(), kSize, 0),
                      0);
            ASSERT_EQ(write(other.addr(), two->rkey, 100, 1), IBV_WC_SUCCESS);
        }
        EXPECT_EQ(open_files(), before);
    });
}

INSTANTIATE_TEST_SUITE_P(Settings, SharedFileTest, testing::Values("auto", "off"), word_case);

class ReplacedTest : public FabricTest {};

TEST_F(ReplacedTest, SharedMemoryReplacedByItsOwnerIsNotWrittenAfterwards) {
    with_writer([](const Side& side, const auto& write) {
        Memory memory(Memory::kMemfd, kSize);
        const Mr mr = memory.enroll(side.pd.get());
        ASSERT_EQ(write(memory.addr(), mr->rkey, kSize, 1), IBV_WC_SUCCESS);
        const Memory replacement(Memory::kPrivate, kSize, memory.data());
        const uint64_t addr = memory.addr();
        memory.forget();
        std::fill_n(replacement.data(), kSize, 7);
        ASSERT_EQ(write(addr, mr->rkey, kSize, 2), IBV_WC_SUCCESS);
        EXPECT_TRUE(all_are(replacement.data(), kSize, 7));
        EXPECT_EQ(memory.in_file(0), 2);
        EXPECT_EQ(memory.in_file(kSize - 1), 2);
    });
}

}  // namespace
}  // namespace conformance::softhca
