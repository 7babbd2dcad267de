// SPDX-License-Identifier: BSD-3-Clause
#include "tern/uct/key_owner.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <array>
#include <cstddef>
#include <thread>
#include <vector>

namespace tern {
namespace {

const void* at(uintptr_t address) {
    return reinterpret_cast<const void*>(address);
}

constexpr uintptr_t kFrame = 0x7fff'0000'0000;
const void* const kMemory = at(0x1000);

TEST(KeyOwner, TheRightToAtomicsMarksMemoryThatAProgramMaps) {
    EXPECT_EQ(owner_by_rights(kRemoteGet | kRemotePut), KeyOwner::kUcp);
    EXPECT_EQ(owner_by_rights(kRemoteGet | kRemotePut | kRemoteAtomic), KeyOwner::kProgram);
}

TEST(KeyOwner, KeysPackedInAMessageAreUcps) {
    for (const Packer marked : {Packer::kRequestToSend, Packer::kOtherMessage})
        for (const void* memory : {kMemory, static_cast<const void*>(nullptr)})
            EXPECT_EQ(owner_by_place(marked, at(0x2000), at(kFrame), memory), KeyOwner::kUcp);
}

void keys_on_this_stack_are_ucps() {
    std::array<char, 2 * kStackBytes> stack;
    const char* const frame = stack.data() + 64;
    const auto owner = [&](const void* key) {
        return owner_by_place(Packer::kNone, key, frame, kMemory);
    };
    EXPECT_EQ(owner(frame), KeyOwner::kUcp);
    EXPECT_EQ(owner(frame + kStackBytes - 1), KeyOwner::kUcp);
    EXPECT_EQ(owner(frame + kStackBytes), KeyOwner::kProgram);
    EXPECT_EQ(owner(frame - 1), KeyOwner::kProgram);
    EXPECT_EQ(owner(at(0x2000)), KeyOwner::kProgram);
}

TEST(KeyOwner, KeysPackedOnTheStackAreUcps) {
    keys_on_this_stack_are_ucps();
    std::thread(keys_on_this_stack_are_ucps).join();
}

// A stack, and the memory that lies above it: as of a thread whose stack the program has
// allocated, or of a user-level thread.
class StackAndHeap {
  public:
    StackAndHeap()
        : memory_(::mmap(nullptr, kStack + kHeap, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (memory_ == MAP_FAILED) ADD_FAILURE() << "mmap";
    }
    ~StackAndHeap() { ::munmap(memory_, kStack + kHeap); }
    void* stack() const { return memory_; }
    char* heap() const { return static_cast<char*>(memory_) + kStack; }
    // A frame near the end of the stack, and a key in the heap above it.
    KeyOwner owner_above() const {
        return owner_by_place(Packer::kNone, heap() + 2048, heap() - 2048, kMemory);
    }

    static constexpr size_t kStack = 256 << 10;
    static constexpr size_t kHeap = 64 << 10;

  private:
    void* memory_;
};

TEST(KeyOwner, KeysInTheHeapAboveAThreadsStackAreThePrograms) {
    const StackAndHeap memory;
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstack(&attributes, memory.stack(), StackAndHeap::kStack), 0);
    pthread_t thread;
    const auto run = [](void* argument) -> void* {
        const auto& at_stack = *static_cast<const StackAndHeap*>(argument);
        EXPECT_EQ(at_stack.owner_above(), KeyOwner::kProgram);
        EXPECT_EQ(
            owner_by_place(Packer::kNone, at_stack.heap() - 64, at_stack.heap() - 2048, kMemory),
            KeyOwner::kUcp);
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, const_cast<StackAndHeap*>(&memory)), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ASSERT_EQ(pthread_attr_destroy(&attributes), 0);
}

// Threads of user level have stacks of the heap, and so may have the program's buffers above them.
const StackAndHeap* of_user_level;
ucontext_t outside;
ucontext_t inside;

void run_user_level() {
    EXPECT_EQ(of_user_level->owner_above(), KeyOwner::kProgram);
    const char* const frame = static_cast<const char*>(__builtin_frame_address(0));
    EXPECT_EQ(owner_by_place(Packer::kNone, frame + 4096, frame, kMemory), KeyOwner::kProgram);
}

TEST(KeyOwner, KeysAboveAUserLevelThreadsFrameAreThePrograms) {
    const StackAndHeap memory;
    of_user_level = &memory;
    ASSERT_EQ(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = memory.stack();
    inside.uc_stack.ss_size = StackAndHeap::kStack;
    inside.uc_link = &outside;
    makecontext(&inside, run_user_level, 0);
    ASSERT_EQ(swapcontext(&outside, &inside), 0);
    // The thread's own stack is known as before.
    keys_on_this_stack_are_ucps();
}

// UCT's older function names no memory, and UCP does not use it.
TEST(KeyOwner, KeysWithoutMemoryAreTheProgramsWhereverTheyAre) {
    EXPECT_EQ(owner_by_place(Packer::kNone, at(kFrame), at(kFrame), nullptr), KeyOwner::kProgram);
}

}  // namespace
}  // namespace tern
