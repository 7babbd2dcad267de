// SPDX-License-Identifier: BSD-3-Clause
// The end of a process, and the accesses and locks of one that is ending.
#include "softhca/fabric/host.h"

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <barrier>
#include <cstring>
#include <fstream>
#include <vector>

#include "fabric_process.h"

namespace softhca {
namespace host_test {

using test::Child;
using test::start_adapter;
using test::wait_for;

struct Shared {
    std::atomic<int> slot{-1};
    std::atomic<uint32_t> tag{0};
    std::atomic<int> step{0};
    std::atomic<pid_t> owner{0};
    ProcessSlot copy;
};

// Steps of an access that an owner waits for.
enum AccessStep : int { kNotYet, kAccessBegun, kOwnerWaits, kAccessEnds, kOwnerGoesOn };

// Whether the first thread of the process sleeps.
bool sleeps(pid_t process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string id, name, state;
    stat >> id >> name >> state;
    return state == "S";
}

class HostTest : public test::ProcessesTest<Shared> {
  protected:
    void introduce(Host& host) {
        shared_->tag = host.tag();
        ProcessesTest::introduce(host);
    }
    // An owner that waits for the accesses of a user, which is in user_accesses(). 0: not too
    // short.
    int wait_for_user() {
        Host& host = start_adapter(name_)->host();
        shared_->owner = getpid();
        introduce(host);
        if (!wait_for([&] { return shared_->step == kAccessBegun; })) return 1;
        shared_->step = kOwnerWaits;
        host.wait_for_accesses();
        return shared_->step.exchange(kOwnerGoesOn) == kAccessEnds ? 0 : 2;
    }
    // The rest of an access. It ends when the owner sleeps, or does not wait.
    bool user_accesses() {
        shared_->step = kAccessBegun;
        const bool seen = wait_for([&] {
            return shared_->step == kOwnerGoesOn ||
                   (shared_->step == kOwnerWaits && sleeps(shared_->owner));
        });
        int waits = kOwnerWaits;
        return seen && shared_->step.compare_exchange_strong(waits, kAccessEnds);
    }
};

TEST_F(HostTest, SaysOnceThatTheMemoryForQueuesIsFull) {
    Child owner([this] {
        Host& host = start_adapter(name_)->host();
        const auto said = [&] {
            testing::internal::CaptureStderr();
            const uint64_t offset = host.allocate_queue(kArenaBytes);
            return std::pair(offset, testing::internal::GetCapturedStderr());
        };
        const std::string sentence =
            "softhca: the 512 MiB that a process has for receives and completions are full\n";
        if (host.allocate_queue(64) == 0) return 1;
        if (said() != std::pair(uint64_t{0}, sentence)) return 2;
        return said() == std::pair(uint64_t{0}, std::string()) ? 0 : 3;
    });
    EXPECT_EQ(owner.join(), 0);
}

TEST_F(HostTest, MemoryIsNotFreedUnderAnAccess) {
    Child owner([&] { return wait_for_user(); });
    Child user([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        const AccessGuard guard(host, slot());
        return user_accesses() ? 0 : 2;
    });
    EXPECT_EQ(user.join(), 0);
    EXPECT_EQ(owner.join(), 0);
}

// The owner's deregistration must not return while a thread of a process that exits still copies.
TEST_F(HostTest, ProcessThatLeavesEndsItsAccessesFirst) {
    Child owner([&] { return wait_for_user(); });
    Child leaver([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        const AccessGuard guard(host, slot());
        host.leave();
        return user_accesses() ? 0 : 2;
    });
    EXPECT_EQ(leaver.join(), 0);
    EXPECT_EQ(owner.join(), 0);
}

// Nobody may take over a lock before the last thread of its owner has gone, even if the engine's
// thread has: a kill ends one thread after the other.
TEST_F(HostTest, LocksAreHeldUntilTheLastThreadHasGone) {
    Child watcher([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        if (!wait_for([&] { return !host.alive(slot()); })) return 2;
        if (host.owner_dead(shared_->tag)) return 3;
        shared_->step = 1;
        return wait_for([&] { return host.owner_dead(shared_->tag); }) ? 0 : 4;
    });
    Child owner([&] {
        introduce(join([](void*) {}));
        return wait_for([&] { return shared_->step == 1; }) ? 0 : 1;
    });
    EXPECT_EQ(owner.join(), 0);
    EXPECT_EQ(watcher.join(), 0);
}

TEST_F(HostTest, FirstThreadMayEndBeforeTheOthers) {
    Child watcher([&] {
        Host& host = start_adapter(name_)->host();
        shared_->step = 1;
        if (!wait_for([&] { return shared_->step == 2; })) return 1;
        if (!wait_for([&] { return !host.alive(slot()); })) return 2;
        if (host.owner_dead(shared_->tag)) return 3;
        shared_->step = 3;
        return wait_for([&] { return host.owner_dead(shared_->tag); }) ? 0 : 4;
    });
    Child owner([&] {
        introduce(join([](void*) {}));
        if (!wait_for([&] { return shared_->step == 1; })) return 1;
        std::thread([&] {
            // The first thread is a zombie, and its memory cannot be found.
            wait_for([] { return std::ifstream("/proc/self/statm").peek() == '0'; });
            shared_->step = 2;
            wait_for([&] { return shared_->step == 3; });
            _exit(0);
        }).detach();
        syscall(SYS_exit, 0);
        return 1;
    });
    EXPECT_EQ(watcher.join(), 0);
    EXPECT_EQ(owner.join(), 0);
}

TEST_F(HostTest, ProcessThatExecutesAnotherProgramHasEnded) {
    Child watcher([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        return wait_for([&] { return host.owner_dead(shared_->tag); }) ? 0 : 2;
    });
    Child owner([&] {
        introduce(start_adapter(name_)->host());
        execl("/bin/sleep", "sleep", "1000", nullptr);
        return 1;
    });
    EXPECT_EQ(watcher.join(), 0);
    owner.kill();
}

TEST_F(HostTest, ProcessThatIsNotReapedHasEnded) {
    Child watcher([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        shared_->step = 1;
        return wait_for([&] { return host.owner_dead(shared_->tag); }) ? 0 : 2;
    });
    Child owner([&] {
        introduce(start_adapter(name_)->host());
        pause();
        return 1;
    });
    ASSERT_TRUE(wait_for([&] { return shared_->step == 1; }));
    kill(owner.pid(), SIGKILL);
    EXPECT_EQ(watcher.join(), 0);
}

TEST_F(HostTest, EarlierProcessOfASlotHasEnded) {
    Child child([&] {
        Host& host = start_adapter(name_)->host();
        const uint32_t incarnation = host.process(host.slot()).get_life().incarnation;
        if (incarnation == 0 || host.ended(host.slot(), incarnation)) return 1;
        return host.ended(host.slot(), incarnation - 1) ? 0 : 2;
    });
    EXPECT_EQ(child.join(), 0);
}

// A thread that waits for a stopped process sleeps.
TEST_F(HostTest, WaitForAStoppedProcessTakesNoProcessor) {
    Child owner([&] {
        Adapter* adapter = start_adapter(name_);
        introduce(adapter->host());
        if (!wait_for([&] { return shared_->step == 1; })) return 1;
        adapter->host().wait_for_accesses();
        return 0;
    });
    Child user([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        const AccessGuard guard(host, slot());
        shared_->step = 1;
        raise(SIGSTOP);
        return 0;
    });
    int status = 0;
    ASSERT_EQ(waitpid(user.pid(), &status, WUNTRACED), user.pid());
    EXPECT_TRUE(wait_for([&] { return sleeps(owner.pid()); }));
    kill(user.pid(), SIGCONT);
    EXPECT_EQ(user.join(), 0);
    EXPECT_EQ(owner.join(), 0);
}

TEST_F(HostTest, NobodyWaitsForAStoppedProcessToJoin) {
    Child owner([&] {
        introduce(start_adapter(name_)->host());
        pause();
        return 0;
    });
    Child user([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        const AccessGuard guard(host, slot());
        raise(SIGSTOP);
        return host.process(slot()).state() == SlotState::kDead ? 0 : 2;
    });
    int status = 0;
    ASSERT_EQ(waitpid(user.pid(), &status, WUNTRACED), user.pid());
    owner.kill();
    Child joiner([&] { return start_adapter(name_) == nullptr ? 1 : 0; });
    EXPECT_EQ(joiner.join(), 0);
    kill(user.pid(), SIGCONT);
    EXPECT_EQ(user.join(), 0) << "the slot is not freed under an access";
}

// Each of as many threads as there are lanes has an access, and begins another one within it.
TEST_F(HostTest, ThreadsDoNotWaitForEachOthersGuards) {
    Child child([&] {
        Host& host = start_adapter(name_)->host();
        std::barrier all_in(GuardLanes::kMost);
        std::vector<std::thread> threads;
        for (uint32_t i = 0; i < GuardLanes::kMost; ++i) {
            threads.emplace_back([&, i] {
                const AccessGuard outer(host, i);
                all_in.arrive_and_wait();
                const AccessGuard inner(host, i + 1);
            });
        }
        for (std::thread& thread : threads) thread.join();
        host.wait_for_accesses();
        return 0;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(HostTest, AccessWithinAnotherOneIsWaitedFor) {
    Child owner([&] { return wait_for_user(); });
    Child user([&] {
        Host& host = start_adapter(name_)->host();
        if (!wait_for([&] { return shared_->slot >= 0; })) return 1;
        const AccessGuard outer(host, host.slot());
        const AccessGuard inner(host, slot());
        return user_accesses() ? 0 : 2;
    });
    EXPECT_EQ(user.join(), 0);
    EXPECT_EQ(owner.join(), 0);
}

// The slot of a dead process is free only when all of it is clear, and keeps its incarnation:
// wherever the process that clears it is killed.
TEST_F(HostTest, FreedSlotIsWholeAfterEachInstruction) {
    // The first ones tell. Some C libraries take 50000 to clear the slot, some fewer than these.
    constexpr int kSteps = 3000;
    constexpr int kAtItsExit = SIGTRAP | PTRACE_EVENT_EXIT << 8;
    auto& slot = shared_->copy;
    slot.life = Life{SlotState::kDead, 7}.word();
    slot.guards.used = 3;
    slot.doorbell.dirty_cqs[7] = 9;
    slot.links[kMaxLinks - 1].ingress.reserve(0, 0, 11);
    Child child([&] {
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        free_slot(slot);
        return 0;
    });
    int status = 0;
    ASSERT_EQ(waitpid(child.pid(), &status, __WALL), child.pid());
    ASSERT_EQ(ptrace(PTRACE_SETOPTIONS, child.pid(), nullptr, PTRACE_O_TRACEEXIT), 0);
    for (int steps = 0; steps < kSteps && status >> 8 != kAtItsExit; ++steps) {
        ASSERT_TRUE(WIFSTOPPED(status)) << "after " << steps;
        ASSERT_EQ(slot.get_life().incarnation, 7u) << "after " << steps << " instructions";
        const bool clear = slot.guards.used == 0 && slot.doorbell.dirty_cqs[7] == 0 &&
                           slot.links[kMaxLinks - 1].ingress.busy_until() == 0;
        ASSERT_TRUE(clear || slot.state() == SlotState::kDead) << "after " << steps;
        ASSERT_EQ(ptrace(PTRACE_SINGLESTEP, child.pid(), nullptr, nullptr), 0);
        ASSERT_EQ(waitpid(child.pid(), &status, __WALL), child.pid());
    }
    ptrace(PTRACE_DETACH, child.pid(), nullptr, nullptr);
    EXPECT_EQ(child.join(), 0);
    EXPECT_EQ(slot.state(), SlotState::kFree);
}

}  // namespace host_test
}  // namespace softhca
