// SPDX-License-Identifier: BSD-3-Clause
// Memory of every kind can be registered and accessed from another process.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>

#include "side.h"

namespace conformance {
namespace {

constexpr std::size_t kSize = 1 << 18;
constexpr std::size_t kOffset = 3 * 4096;  // of the mapping in its file

enum class Kind { kAnonymous, kShared, kFile, kPrivateFile, kHeap, kStatic, kStack };

constexpr const char* kNames[] = {"Anonymous", "Shared", "File", "PrivateFile",
                                  "Heap",      "Static", "Stack"};

void PrintTo(Kind kind, std::ostream* out) {
    *out << kNames[static_cast<int>(kind)];
}

alignas(64) uint8_t static_memory[kSize];

void* map(int flags, int fd, off_t offset) {
    void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, flags, fd, offset);
    if (memory == MAP_FAILED) fail_errno("mmap");
    return memory;
}

void* map_file(int flags) {
    const int fd = memfd_create("memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, kOffset + kSize)) fail_errno("memfd");
    void* memory = map(flags, fd, kOffset);
    close(fd);
    return memory;
}

// Memory of a kind; freed only when the process ends.
uint8_t* allocate(Kind kind, uint8_t* stack) {
    switch (kind) {
        case Kind::kAnonymous:
            return static_cast<uint8_t*>(map(MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        case Kind::kShared:
            return static_cast<uint8_t*>(map(MAP_SHARED | MAP_ANONYMOUS, -1, 0));
        case Kind::kFile:
            return static_cast<uint8_t*>(map_file(MAP_SHARED));
        case Kind::kPrivateFile:
            return static_cast<uint8_t*>(map_file(MAP_PRIVATE));
        case Kind::kHeap:
            return static_cast<uint8_t*>(std::calloc(kSize, 1));
        case Kind::kStatic:
            return static_memory;
        default:
            return stack;
    }
}

void fill(uint8_t* start, std::size_t size, unsigned seed) {
    for (std::size_t i = 0; i < size; ++i) start[i] = static_cast<uint8_t>(i * 7 + seed + i / 509);
}

bool holds(const uint8_t* start, std::size_t size, unsigned seed) {
    for (std::size_t i = 0; i < size; ++i)
        if (start[i] != static_cast<uint8_t>(i * 7 + seed + i / 509)) return false;
    return true;
}

// A Side with memory of a kind, which replaces the memory and the window of Side.
struct Place {
    Place(Link& link, Kind kind, uint8_t* stack)
        : side(link, {}, 4096), memory(allocate(kind, stack)) {
        mr.reset(ibv_reg_mr(side.pd.get(), memory, kSize, kAllAccess));
        if (!mr) fail_errno("ibv_reg_mr");
        link.send(Window{reinterpret_cast<uintptr_t>(memory), mr->rkey, kSize});
        window = link.receive<Window>();
    }
    ibv_sge sge(std::size_t offset, std::size_t size) const {
        return {reinterpret_cast<uintptr_t>(memory) + offset, static_cast<uint32_t>(size),
                mr->lkey};
    }
    Side side;
    uint8_t* memory;
    Mr mr;
    Window window;
};

constexpr std::size_t kQuarter = kSize / 4;

class MemoryKindTest : public testing::TestWithParam<Kind> {};

TEST_P(MemoryKindTest, IsWrittenReadAndReceivedInto) {
    const Kind kind = GetParam();
    Team team;
    const int target = team.spawn([kind](Link& link) {
        uint8_t stack[kSize] = {};
        Place place(link, kind, stack);
        fill(place.memory + kQuarter, kQuarter, 2);  // the other process reads it
        ASSERT_EQ(RecvWr(1).sge(place.sge(2 * kQuarter, kQuarter)).post(place.side.end.qp), 0);
        link.send();
        ASSERT_TRUE(next_are(place.side.end.recv_cq, {1}));
        EXPECT_TRUE(holds(place.memory, kQuarter, 1)) << "written";
        EXPECT_TRUE(holds(place.memory + 2 * kQuarter, kQuarter, 3)) << "received";
        link.send();
        link.receive();
    });
    const int actor = team.spawn([kind](Link& link) {
        uint8_t stack[kSize] = {};
        Place place(link, kind, stack);
        link.receive();
        fill(place.memory, kQuarter, 1);
        fill(place.memory + 2 * kQuarter, kQuarter, 3);
        const Qp& qp = place.side.end.qp;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(place.sge(0, kQuarter))
                      .remote(place.window.addr, place.window.rkey)
                      .post(qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 2)
                      .sge(place.sge(kQuarter, kQuarter))
                      .remote(place.window.addr + kQuarter, place.window.rkey)
                      .post(qp),
                  0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 3).sge(place.sge(2 * kQuarter, kQuarter)).post(qp), 0);
        ASSERT_TRUE(next_are(place.side.end.send_cq, {1, 2, 3}));
        EXPECT_TRUE(holds(place.memory + kQuarter, kQuarter, 2)) << "read";
        link.send();
        link.receive();
    });
    introduce(team, target, actor);
    exchange<Window>(team[target], team[actor]);
    team[target].receive();
    team[actor].send();
    exchange<char>(team[target], team[actor]);
    team.finish();
}

INSTANTIATE_TEST_SUITE_P(Kinds, MemoryKindTest,
                         testing::Values(Kind::kAnonymous, Kind::kShared, Kind::kFile,
                                         Kind::kPrivateFile, Kind::kHeap, Kind::kStatic,
                                         Kind::kStack),
                         [](const auto& test) {
                             return std::string(kNames[static_cast<int>(test.param)]);
                         });

TEST(MemoryTest, FreshMemoryIsReachedBeforeItsOwnerTouchesIt) {
    // Large memory that its owner has not touched: the device itself must get the pages.
    const std::size_t size = std::min<std::size_t>(32 << 20, Hca().port_attr().max_msg_sz);
    Team team;
    const int target = team.spawn([size](Link& link) {
        Side side(link, {}, size);
        link.receive();
        EXPECT_TRUE(side.mem.holds(5, 0, side.mem.size()));
    });
    const int actor = team.spawn([size](Link& link) {
        Side side(link, {}, size);
        side.mem.fill(5);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, 1)
                      .sge(side.mem.sge())
                      .remote(side.window.addr, side.window.rkey)
                      .post(side.end.qp),
                  0);
        ASSERT_TRUE(next_are(side.end.send_cq, {1}));
        link.send();
    });
    introduce(team, target, actor);
    team[actor].receive();
    team[target].send();
    team.finish();
}

TEST(MemoryTest, ConstantDataIsSentWithoutLocalWrite) {
    static constexpr char kText[] = "constant text in a read-only page";
    Hca hca;
    Pd pd = hca.make_pd();
    Pair pair(hca, pd.get());
    Mr mr(
        ibv_reg_mr(pd.get(), const_cast<char*>(kText), sizeof kText, int{IBV_ACCESS_REMOTE_READ}));
    if (!mr) GTEST_SKIP() << "the device does not register read-only pages";
    ASSERT_EQ(RecvWr(1).sge(pair.b_mem.sge(0, 100)).post(pair.b.qp), 0);
    ASSERT_EQ(SendWr(IBV_WR_SEND, 2)
                  .sge({reinterpret_cast<uintptr_t>(kText), sizeof kText, mr->lkey})
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.b.recv_cq, {1}));
    EXPECT_STREQ(reinterpret_cast<char*>(pair.b_mem.data()), kText);
    ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 3)
                  .sge(pair.a_mem.sge(0, sizeof kText))
                  .remote(reinterpret_cast<uintptr_t>(kText), mr->rkey)
                  .post(pair.a.qp),
              0);
    ASSERT_TRUE(next_are(pair.a.send_cq, {2, 3}));
    EXPECT_STREQ(reinterpret_cast<char*>(pair.a_mem.data()), kText);
}

}  // namespace
}  // namespace conformance
