// SPDX-License-Identifier: BSD-3-Clause
// Processes that fork, and processes that come and go.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "fabric.h"

namespace conformance::softhca {
namespace {

class ForkTest : public ExecutorTest {};

// Sends a message over the pair in each direction, and checks the data.
void exercise(const Pair& pair, unsigned seed) {
    for (const bool forward : {true, false}) {
        const Region& from = forward ? pair.a_mem : pair.b_mem;
        const Region& to = forward ? pair.b_mem : pair.a_mem;
        const Endpoint& sender = forward ? pair.a : pair.b;
        const Endpoint& receiver = forward ? pair.b : pair.a;
        from.fill(++seed, 0, 10000);
        ASSERT_EQ(RecvWr(1).sge(to.sge(20000, 10000)).post(receiver.qp), 0);
        ASSERT_EQ(SendWr(IBV_WR_SEND, 2).sge(from.sge(0, 10000)).post(sender.qp), 0);
        ASSERT_TRUE(next_are(sender.send_cq, {2}));
        ASSERT_TRUE(next_are(receiver.recv_cq, {1}));
        EXPECT_TRUE(to.holds(seed, 20000, 10000));
    }
}

// Forks a process that runs `body` and exits normally, running its exit handlers.
template <typename Body>
pid_t fork_child(Body&& body) {
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0) fail_errno("fork");
    if (pid > 0) return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends the child with a test that fails
    try {
        body();
    } catch (const std::exception& error) {
        std::printf("child: %s\n", error.what());
        std::exit(1);
    }
    std::exit(testing::Test::HasFailure() ? 1 : 0);
}

void ends_well(pid_t child) {
    int status = -1;
    ASSERT_TRUE(comes([&] { return waitpid(child, &status, WNOHANG) == child; }));
    EXPECT_EQ(status, 0);
}

TEST_P(ForkTest, ParentWorksWhileAndAfterItsChildExits) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        for (unsigned i = 0; i < 5; ++i) {
            const pid_t child = fork_child([] { usleep(10000); });
            exercise(pair, i);
            ends_well(child);
            exercise(pair, i + 100);
        }
        EXPECT_EQ(sum(status(), "queue_pairs"), 2u);
    });
}

TEST_P(ForkTest, ChildMayReleaseWhatItInherited) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        auto pair = std::make_unique<Pair>(hca, pd.get());
        const pid_t child = fork_child([&] {
            EXPECT_NE(SendWr(IBV_WR_RDMA_WRITE, 1).post(pair->a.qp), 0) << "it is the parent's";
            pair.reset();
        });
        ends_well(child);
        exercise(*pair, 1);
    });
}

TEST_P(ForkTest, ChildThatOpensTheDeviceAnewIsAProcessLikeAnyOther) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        Endpoint to_child(hca, pd.get());
        int down[2];
        int up[2];
        ASSERT_EQ(pipe(down), 0);
        ASSERT_EQ(pipe(up), 0);
        const pid_t child = fork_child([&] {
            Hca own;
            Pd own_pd = own.make_pd();
            Pair own_pair(own, own_pd.get());
            Region memory(own_pd.get(), 4096);
            Endpoint end(own, own_pd.get());
            const Peer me = as_peer(own, end.qp.get(), {});
            Peer parent;
            ASSERT_EQ(::write(up[1], &me, sizeof me), static_cast<ssize_t>(sizeof me));
            ASSERT_EQ(::read(down[0], &parent, sizeof parent), static_cast<ssize_t>(sizeof parent));
            bring_up(own, end.qp.get(), {}, parent);
            exercise(own_pair, 1);
            memory.fill(77);
            ASSERT_EQ(SendWr(IBV_WR_SEND, 1).sge(memory.sge()).post(end.qp), 0);
            ASSERT_TRUE(next_are(end.send_cq, {1}));
        });
        Peer peer;
        ASSERT_EQ(::read(up[0], &peer, sizeof peer), static_cast<ssize_t>(sizeof peer));
        EXPECT_NE(peer.qpn, to_child.qp->qp_num);
        bring_up(hca, to_child.qp.get(), {}, peer);
        ASSERT_EQ(RecvWr(5).sge(pair.a_mem.sge(40000, 4096)).post(to_child.qp), 0);
        const Peer me = as_peer(hca, to_child.qp.get(), {});
        ASSERT_EQ(::write(down[1], &me, sizeof me), static_cast<ssize_t>(sizeof me));
        ASSERT_TRUE(next_are(to_child.recv_cq, {5}));
        EXPECT_TRUE(pair.a_mem.holds(77, 40000, 4096));
        ends_well(child);
        exercise(pair, 3);
        for (int fd : {down[0], down[1], up[0], up[1]}) close(fd);
    });
}

SOFTHCA_BOTH_EXECUTORS(ForkTest);

class LifeTest : public ExecutorTest {};

std::size_t files_of_this_fabric() {
    const std::string name = std::getenv("SOFTHCA_FABRIC");
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
        count += entry.path().filename().string().find(name) != std::string::npos;
    return count;
}

// Exchanges messages until the test stops it. Each message has the next number; a message that is
// late or wrong fails the test.
void play(Link& link, bool first) {
    constexpr std::size_t kWords = 1000;
    constexpr uint64_t kEnd = ~uint64_t{0};
    {
        Side side(link, {}, 2 * 8 * kWords);
        std::atomic<bool> stop{false};
        std::thread stopper([&] {
            if (first) link.receive();
            stop = true;
        });
        const uint64_t* words = &side.mem.word(kWords);
        auto say = [&](uint64_t number) {
            std::fill_n(&side.mem.word(0), kWords, number);
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, number)
                          .sge(side.mem.sge(0, 8 * kWords))
                          .remote(side.window.addr + 8 * kWords, side.window.rkey)
                          .post(side.end.qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {number}));
        };
        auto hear = [&](uint64_t number) {
            ASSERT_TRUE(comes([&] {
                const uint64_t last = look(words[kWords - 1]);
                return last == number || last == kEnd;
            }));
            const uint64_t last = look(words[kWords - 1]);
            for (std::size_t i = 0; i < kWords; ++i) ASSERT_EQ(look(words[i]), last) << i;
        };
        for (uint64_t number = 1; !testing::Test::HasFailure(); ++number) {
            if (first && stop) {
                say(kEnd);
                break;
            }
            if (first) say(number);
            hear(number);
            if (look(words[kWords - 1]) == kEnd) break;
            if (!first) say(number);
        }
        stopper.join();
        EXPECT_EQ(state_of(side.end.qp), IBV_QPS_RTS);
        link.send();
    }
    std::exit(testing::Test::HasFailure() ? 1 : 0);
}

// Uses the device briefly. One visitor in three exits normally, one by _exit, one by SIGKILL.
void visit(int number) {
    {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        exercise(pair, static_cast<unsigned>(number));
        if (testing::Test::HasFailure() || number % 3 == 1)
            return;  // the caller exits by _exit, without exit handlers
        if (number % 3 == 2) raise(SIGKILL);
    }
    std::exit(0);
}

TEST_P(LifeTest, StormOfProcessesDoesNotDisturbOthers) {
    constexpr int kVisitors = 60;
    Team team;
    const int one = team.spawn([](Link& link) { play(link, true); });
    const int two = team.spawn([](Link& link) { play(link, false); });
    for (int i = 0; i < kVisitors; ++i) {
        team.spawn([i](Link& link) {
            link.receive();
            link.send();
            visit(i);
        });
    }
    introduce(team, one, two);
    for (int i = 2; i < 2 + kVisitors; ++i) {
        team[i].send();
        team[i].receive();
    }
    // A visitor's link closes when its process ends. kill() comes too late for a visitor that
    // killed itself, and only waits for it.
    for (int i = 2; i < 2 + kVisitors; ++i) {
        EXPECT_THROW(team[i].receive(), std::runtime_error) << "the link's end is the process's";
        if ((i - 2) % 3 == 2) team.kill(i);
    }
    team[one].send();
    team[one].receive();
    team[two].receive();
    team.finish();
    // A visitor that died without leaving the fabric may still have been exiting when the last
    // process left.
    command("clean --fabric \"$SOFTHCA_FABRIC\"");
    EXPECT_EQ(files_of_this_fabric(), 0u);
}

// Programs close devices and leave objects. The objects' events and destruction need the context.
TEST_P(LifeTest, ObjectsOutliveTheirDevice) {
    alone([] {
        ibv_device** devices = ibv_get_device_list(nullptr);
        ASSERT_NE(devices, nullptr);
        ibv_context* context = ibv_open_device(devices[0]);
        ASSERT_NE(context, nullptr);
        ibv_pd* pd = ibv_alloc_pd(context);
        ibv_comp_channel* channel = ibv_create_comp_channel(context);
        ibv_cq* cq = ibv_create_cq(context, 16, nullptr, channel, 0);
        const int fd = context->cmd_fd;
        EXPECT_EQ(ibv_close_device(context), 0);
        ibv_free_device_list(devices);
        ASSERT_EQ(ibv_dealloc_pd(pd), 0);
        ASSERT_EQ(ibv_destroy_cq(cq), 0);
        EXPECT_NE(fcntl(fd, F_GETFD), -1) << "the channel still needs it";
        ASSERT_EQ(ibv_destroy_comp_channel(channel), 0);
        EXPECT_EQ(fcntl(fd, F_GETFD), -1) << "the context is gone with its last object";
    });
}

// So the programs that start others, and look for devices only, leave room in the fabric.
TEST_P(LifeTest, LookingForDevicesTakesNoPlaceInTheFabric) {
    alone([] {
        const auto threads = [] {
            using Folder = std::filesystem::directory_iterator;
            return std::distance(Folder("/proc/self/task"), Folder());
        };
        const auto before = threads();
        int count = 0;
        ibv_device** devices = ibv_get_device_list(&count);
        ASSERT_EQ(count, 1);
        EXPECT_EQ(threads(), before);
        EXPECT_EQ(status().find("\"pid\""), std::string::npos);
        ibv_context* context = ibv_open_device(devices[0]);
        ASSERT_NE(context, nullptr);
        EXPECT_EQ(threads(), before + 1);
        EXPECT_EQ(sum(status(), "pid"), static_cast<uint64_t>(getpid()));
        ibv_free_device_list(devices);
        EXPECT_EQ(ibv_close_device(context), 0);
    });
}

SOFTHCA_BOTH_EXECUTORS(LifeTest);

}  // namespace
}  // namespace conformance::softhca
