// SPDX-License-Identifier: BSD-3-Clause
// Joining and leaving a fabric, and noticing that a process has gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <fstream>

#include "fabric_process.h"
#include "softhca/fabric/backing_file.h"
#include "softhca/fabric/member_file.h"

namespace softhca {
namespace {

using test::Child;
using test::open_segment;
using test::shared_value;
using test::start_adapter;
using test::unique_fabric;
using test::wait_for;

bool exists(const std::string& path) {
    return access(path.c_str(), F_OK) == 0;
}

class FabricTest : public testing::Test {
  protected:
    const std::string name_ = unique_fabric();
    const std::string path_ = Segment::member_file_path(name_);
    void TearDown() override {
        std::string error;
        EXPECT_TRUE(Segment::remove_if_unused(name_, &error)) << error;
        EXPECT_FALSE(exists(path_));
    }
};

TEST_F(FabricTest, IsPrivateSealedAndGoneAfterItsLastUser) {
    auto segment = open_segment(name_);
    ASSERT_NE(segment, nullptr);
    EXPECT_TRUE(segment->created());
    struct stat status;
    ASSERT_EQ(stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    MemberFile file(path_);
    std::string error;
    ASSERT_TRUE(file.lock(false, &error)) << error;
    std::vector<MemberFile::Member> members;
    ASSERT_TRUE(file.members(&members, &error)) << error;
    ASSERT_EQ(members.size(), 1u);
    int fd;
    ASSERT_EQ(open_member(file, members[0], &fd), MemberState::kPresent);
    EXPECT_NE(ftruncate(fd, 4096), 0) << "nobody can shrink it under the others";
    ASSERT_EQ(fstat(fd, &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    close(fd);
}

TEST_F(FabricTest, SecondProcessJoinsTheSame) {
    auto segment = open_segment(name_);
    ASSERT_NE(segment, nullptr);
    segment->header().next_domain = 4711;
    Child child([this] {
        auto joined = open_segment(name_);
        return joined != nullptr && !joined->created() && joined->header().next_domain == 4711 ? 0
                                                                                               : 1;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(FabricTest, FileOfSomebodyElseIsRefused) {
    std::ofstream(path_) << "";
    ASSERT_EQ(chmod(path_.c_str(), 0666), 0);
    EXPECT_EQ(open_segment(name_), nullptr) << "others may have written it";
    ASSERT_EQ(unlink(path_.c_str()), 0);
    ASSERT_EQ(symlink("/dev/null", path_.c_str()), 0);
    EXPECT_EQ(open_segment(name_), nullptr) << "a link leads elsewhere";
    ASSERT_EQ(unlink(path_.c_str()), 0);
}

// Another user could hold the lock of his file for ever.
TEST_F(FabricTest, FileOfSomebodyElseIsNotWaitedFor) {
    const int fd = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ASSERT_EQ(fchmod(fd, 0666), 0);
    ASSERT_EQ(flock(fd, LOCK_EX), 0);
    Child child([this] { return open_segment(name_) == nullptr ? 0 : 1; });
    EXPECT_EQ(child.join(), 0);
    close(fd);
    ASSERT_EQ(unlink(path_.c_str()), 0);
}

// A process that is stopped may hold the lock.
TEST_F(FabricTest, ExitDoesNotWaitForTheLockForEver) {
    auto* joined = shared_value<std::atomic<int>>();
    Child child([&] {
        Host& host = start_adapter(name_)->host();
        *joined = 1;
        if (!wait_for([&] { return *joined == 2; })) return 1;
        host.leave();
        return 0;
    });
    ASSERT_TRUE(wait_for([&] { return *joined == 1; }));
    const int fd = open(path_.c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_EQ(flock(fd, LOCK_EX), 0);
    *joined = 2;
    EXPECT_EQ(child.join(), 0);
    close(fd);
}

// The limit must not end the process: it is raised, or reported if it cannot be.
TEST_F(FabricTest, LimitOfFileSizesIsNoObstacle) {
    const auto create = [this](rlimit limit) {
        setrlimit(RLIMIT_FSIZE, &limit);
        std::string error;
        FabricConfig config{};
        const auto segment = Segment::open(name_, config, &error);
        rlimit after;
        getrlimit(RLIMIT_FSIZE, &after);
        if (after.rlim_cur != limit.rlim_cur) return 1;
        if (segment != nullptr) return 0;
        return error.find("ulimit -f") != std::string::npos ? 2 : 3;
    };
    Child soft([&] { return create({1 << 20, RLIM_INFINITY}); });
    EXPECT_EQ(soft.join(), 0);
    Child hard([&] { return create({1 << 20, 1 << 20}); });
    EXPECT_EQ(hard.join(), 2);
}

// A member that cannot be inspected is not taken for dead.
TEST_F(FabricTest, MemberOfAnotherPidNamespaceIsKept) {
    {
        MemberFile file(path_);
        std::string error;
        ASSERT_TRUE(file.lock(true, &error)) << error;
        ASSERT_TRUE(file.store({{1 << 22, 5, 4711, 1}}, &error)) << error;
    }
    std::string error;
    FabricConfig config{};
    EXPECT_EQ(Segment::open(name_, config, &error), nullptr);
    EXPECT_NE(error.find("namespace"), std::string::npos) << error;
    ASSERT_EQ(unlink(path_.c_str()), 0) << "it is kept";
}

// A member in a container that nobody can look into, and that ends.
TEST_F(FabricTest, MemberInAContainerIsKeptUntilItEnds) {
    if (Child([] { return unshare(CLONE_NEWPID); }).join() != 0)
        GTEST_SKIP() << "PID namespaces need a privilege";
    auto* step = shared_value<std::atomic<int>>();
    Child container([&] {
        if (unshare(CLONE_NEWPID) != 0) return 1;
        Child member([&] {
            start_adapter(name_);
            *step = 1;
            return wait_for([&] { return *step == 2; }) ? 0 : 1;
        });
        return member.join();
    });
    ASSERT_TRUE(wait_for([&] { return *step == 1; }));
    std::string error;
    FabricConfig config{};
    EXPECT_EQ(Segment::open(name_, config, &error), nullptr);
    EXPECT_NE(error.find("--pid=host"), std::string::npos) << error;
    EXPECT_FALSE(Segment::remove_if_unused(name_, &error));
    *step = 2;
    EXPECT_EQ(container.join(), 0);
    const auto segment = open_segment(name_);
    ASSERT_NE(segment, nullptr);
    EXPECT_TRUE(segment->created());
}

// The child has the descriptor whose lock shows that its parent lives.
TEST_F(FabricTest, ChildOfAForkDoesNotKeepItsParentAMember) {
    auto* orphan = shared_value<std::atomic<int>>();
    Child member([&] {
        const auto segment = open_segment(name_);
        const pid_t child = fork();
        if (child == 0) {
            segment->disown();
            *orphan = getpid();
            pause();
        }
        wait_for([&] { return *orphan != 0; });
        return raise(SIGKILL);
    });
    EXPECT_EQ(member.join(), -1);
    {
        MemberFile file(path_);
        std::string error;
        ASSERT_TRUE(file.lock(false, &error)) << error;
        std::vector<MemberFile::Member> members;
        ASSERT_TRUE(file.members(&members, &error)) << error;
        ASSERT_EQ(members.size(), 1u);
        EXPECT_NE(members[0].byte, 0u);
        EXPECT_FALSE(file.may_live(members[0]));
    }
    kill(*orphan, SIGKILL);
}

TEST_F(FabricTest, ProcessOfAnotherUserNamespaceLearnsWhyItCannotJoin) {
    const std::string map = std::to_string(geteuid()) + " " + std::to_string(geteuid()) + " 1";
    const auto enter = [&map] {
        if (unshare(CLONE_NEWUSER) != 0) return false;
        std::ofstream file("/proc/self/uid_map");
        return static_cast<bool>(file << map << std::flush);
    };
    if (Child([&] { return enter() ? 0 : 1; }).join() != 0)
        GTEST_SKIP() << "there are no user namespaces";
    const auto segment = open_segment(name_);
    ASSERT_NE(segment, nullptr);
    Child child([&] {
        if (!enter()) return 1;
        std::string error;
        FabricConfig config{};
        if (Segment::open(name_, config, &error) != nullptr) return 2;
        return error.find("user namespace") != std::string::npos ? 0 : 3;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(FabricTest, MemberThatIsNotDumpableIsKept) {
    if (geteuid() == 0) GTEST_SKIP() << "root may inspect every process";
    auto* step = shared_value<std::atomic<int>>();
    Child child([&] {
        start_adapter(name_);
        prctl(PR_SET_DUMPABLE, 0);
        *step = 1;
        return wait_for([&] { return *step == 2; }) ? 0 : 1;
    });
    ASSERT_TRUE(wait_for([&] { return *step == 1; }));
    std::string error;
    FabricConfig config{};
    EXPECT_EQ(Segment::open(name_, config, &error), nullptr);
    EXPECT_NE(error.find("dumpable"), std::string::npos) << error;
    EXPECT_TRUE(exists(path_));
    *step = 2;
    EXPECT_EQ(child.join(), 0);
}

TEST_F(FabricTest, MemberWhoseFirstThreadHasEndedIsPresent) {
    auto* step = shared_value<std::atomic<int>>();
    Child child([&] {
        start_adapter(name_);
        std::thread([&] {
            wait_for([] { return std::ifstream("/proc/self/statm").peek() == '0'; });
            *step = 1;
            wait_for([&] { return *step == 2; });
            _exit(0);
        }).detach();
        syscall(SYS_exit, 0);
        return 1;
    });
    ASSERT_TRUE(wait_for([&] { return *step == 1; }));
    const auto joined = open_segment(name_);
    EXPECT_TRUE(joined != nullptr && !joined->created());
    *step = 2;
    EXPECT_EQ(child.join(), 0);
}

// Another thread may be inside a registration when a process forks.
TEST_F(FabricTest, ChildOfAForkMayRegisterSharedMemory) {
    Child child([] {
        const int fd = memfd_create("memory", MFD_CLOEXEC);
        if (ftruncate(fd, 4096) != 0) return 1;
        void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        const auto find = [memory] {
            const BackingFile file = find_backing_file(reinterpret_cast<uint64_t>(memory), 4096);
            release_backing_file(file);
            return file.fd >= 0;
        };
        std::atomic<bool> stop{false};
        std::thread registrar([&] {
            while (!stop) find();
        });
        int status = 0;
        for (int i = 0; i < 50 && status == 0; ++i)
            status = Child([&] { return find() ? 0 : 1; }).join();
        stop = true;
        registrar.join();
        return status == 0 ? 0 : 2;
    });
    EXPECT_EQ(child.join(), 0);
}

TEST_F(FabricTest, OtherVersionIsRefused) {
    auto segment = open_segment(name_);
    ASSERT_NE(segment, nullptr);
    segment->header().version = kLayoutVersion + 1;
    EXPECT_EQ(open_segment(name_), nullptr);
}

TEST_F(FabricTest, KilledProcessIsNoticedAndItsSlotReused) {
    struct Shared {
        std::atomic<int> slot{-1};
    };
    auto* shared = shared_value<Shared>();
    Child watcher([&] {
        Adapter* adapter = start_adapter(name_);
        if (adapter == nullptr) return 1;
        Host& host = adapter->host();
        if (!wait_for([&] { return shared->slot >= 0; })) return 2;
        const auto slot = static_cast<uint32_t>(shared->slot.load());
        if (!host.alive(slot)) return 3;
        shared->slot = -2;
        return wait_for([&] { return !host.alive(slot); }) ? 0 : 4;
    });
    Child victim([&] {
        Adapter* adapter = start_adapter(name_);
        shared->slot = static_cast<int>(adapter->host().slot());
        pause();
        return 0;
    });
    ASSERT_TRUE(wait_for([&] { return shared->slot == -2; }));
    victim.kill();
    EXPECT_EQ(watcher.join(), 0);
}

TEST_F(FabricTest, SlotsOfTheKilledDoNotRunOut) {
    Child keeper([&] {
        start_adapter(name_);
        pause();
        return 0;
    });
    ASSERT_TRUE(wait_for([&] { return exists(path_); }));
    // More deaths than slots: the slots of dead processes must be reused.
    for (uint32_t i = 0; i < kMaxProcesses + 20; ++i) {
        Child child([&] {
            Adapter* adapter = start_adapter(name_);
            if (adapter == nullptr) return 1;
            raise(SIGKILL);
            return 2;
        });
        int status = 0;
        ASSERT_EQ(waitpid(child.pid(), &status, 0), child.pid());
        ASSERT_TRUE(WIFSIGNALED(status)) << "child " << i << " could not join";
    }
    keeper.kill();
}

TEST_F(FabricTest, DeadUserDoesNotHoldTheOwnerUp) {
    auto* slot = shared_value<std::atomic<int>>();
    auto* guarded = shared_value<std::atomic<int>>();
    *slot = -1;
    Child user([&] {
        Adapter* adapter = start_adapter(name_);
        wait_for([&] { return *slot >= 0; });
        const AccessGuard guard(adapter->host(), static_cast<uint32_t>(slot->load()));
        *guarded = 1;
        pause();
        return 0;
    });
    Child owner([&] {
        Adapter* adapter = start_adapter(name_);
        *slot = static_cast<int>(adapter->host().slot());
        wait_for([&] { return *guarded == 2; });
        adapter->host().wait_for_accesses();
        return 0;
    });
    ASSERT_TRUE(wait_for([&] { return *guarded == 1; }));
    *guarded = 2;
    user.kill();
    EXPECT_EQ(owner.join(), 0);
}

}  // namespace
}  // namespace softhca
