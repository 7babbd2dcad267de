// SPDX-License-Identifier: BSD-3-Clause
// Copies of the device are never seen half done within an aligned word. A process copies from and
// to shared memory; the test stops it after each instruction, looks at the target, and changes the
// source.
#include "softhca/core/ordered_copy.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>

#include <cstring>
#include <random>

#include "fabric_process.h"

namespace softhca {
namespace ordered_copy_test {

struct Memory {
    alignas(64) char source[256];
    alignas(64) char target[256];
};

// Copies for ever.
int copy(Memory& memory, uint64_t to, uint64_t from, uint64_t length) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    for (;;) ordered_copy(memory.target + to, memory.source + from, length);
}

bool step(pid_t pid) {
    int status;
    return ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr) == 0 &&
           waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);
}

// The address of an aligned unit within [begin, end) whose bytes differ; -1 if there is none.
int torn(const char* memory, uint64_t begin, uint64_t end, uint64_t unit) {
    for (uint64_t at = (begin + unit - 1) / unit * unit; at + unit <= end; at += unit)
        if (std::memcmp(memory + at, memory + at + 1, unit - 1) != 0) return static_cast<int>(at);
    return -1;
}

struct Copy {
    uint64_t to;
    uint64_t from;
    uint64_t length;
};

void PrintTo(const Copy& copy, std::ostream* out) {
    *out << copy.length << " bytes from " << copy.from << " to " << copy.to;
}

class OrderedCopyTest : public testing::TestWithParam<Copy> {};

TEST_P(OrderedCopyTest, AlignedUnitsAreWhole) {
    // Instructions. Without optimization a copy has many: until both patterns have arrived.
    constexpr int kSteps = 4000, kMostSteps = 400'000;
    const Copy& param = GetParam();
    auto* memory = test::shared_value<Memory>();
    test::Child child([&] { return copy(*memory, param.to, param.from, param.length); });
    int status;
    ASSERT_EQ(waitpid(child.pid(), &status, __WALL), child.pid());
    // The units of the source that a unit of the target receives are whole only if both are
    // aligned alike.
    const uint64_t alike = ((param.to - param.from) % 8 + 8) % 8;
    const uint64_t largest = alike == 0 ? 8 : alike & -alike;
    int seen = 0;
    // At irregular steps: a copy of regular steps could read the same pattern each time.
    std::minstd_rand random(1);
    for (int i = 0; i < kSteps || (seen != 3 && i < kMostSteps); ++i) {
        if (random() % 8 == 0) std::memset(memory->source, random() % 2 == 0 ? 0x55 : 0xaa, 256);
        ASSERT_TRUE(step(child.pid()));
        for (uint64_t unit = 2; unit <= largest; unit *= 2)
            ASSERT_EQ(torn(memory->target, param.to, param.to + param.length, unit), -1)
                << "unit of " << unit << " bytes, step " << i;
        seen |= memory->target[param.to] == 0x55 ? 1 : 2;
    }
    EXPECT_EQ(seen, 3) << "both patterns arrive";
    munmap(memory, sizeof *memory);
}

INSTANTIATE_TEST_SUITE_P(Copies, OrderedCopyTest,
                         testing::Values(Copy{0, 0, 8}, Copy{0, 8, 64}, Copy{4, 4, 12},
                                         Copy{2, 10, 61}, Copy{1, 1, 40}, Copy{4, 0, 24},
                                         Copy{0, 2, 30}, Copy{5, 5, 150}, Copy{8, 12, 100}));

TEST(OrderedCopy, CopiesAllBytesAndNoOthers) {
    char from[200];
    for (int i = 0; i < 200; ++i) from[i] = static_cast<char>(i + 1);
    for (uint64_t to_offset = 0; to_offset < 9; ++to_offset) {
        for (uint64_t from_offset = 0; from_offset < 9; ++from_offset) {
            for (uint64_t length = 0; length < 150; ++length) {
                alignas(64) char to[200] = {};
                ordered_copy(to + to_offset, from + from_offset, length);
                ASSERT_EQ(std::memcmp(to + to_offset, from + from_offset, length), 0)
                    << length << " bytes from " << from_offset << " to " << to_offset;
                for (uint64_t i = 0; i < sizeof to; ++i)
                    ASSERT_TRUE((i >= to_offset && i < to_offset + length) || to[i] == 0) << i;
            }
        }
    }
}

}  // namespace ordered_copy_test
}  // namespace softhca
