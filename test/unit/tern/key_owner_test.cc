// SPDX-License-Identifier: BSD-3-Clause
#include "uct/key_owner.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>

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

TEST(KeyOwner, KeysPackedOnTheStackAreUcps) {
    const auto owner = [](uintptr_t key) {
        return owner_by_place(Packer::kNone, at(key), at(kFrame), kMemory);
    };
    EXPECT_EQ(owner(kFrame), KeyOwner::kUcp);
    EXPECT_EQ(owner(kFrame + kStackBytes - 1), KeyOwner::kUcp);
    EXPECT_EQ(owner(kFrame + kStackBytes), KeyOwner::kProgram);
    EXPECT_EQ(owner(kFrame - 1), KeyOwner::kProgram);
    EXPECT_EQ(owner(0x2000), KeyOwner::kProgram);
}

// UCT's older function names no memory, and UCP does not use it.
TEST(KeyOwner, KeysWithoutMemoryAreTheProgramsWhereverTheyAre) {
    EXPECT_EQ(owner_by_place(Packer::kNone, at(kFrame), at(kFrame), nullptr), KeyOwner::kProgram);
}

}  // namespace
}  // namespace tern
