// SPDX-License-Identifier: BSD-3-Clause
// The XRC domain that processes share through a file, and queues in the domain.
#include "tern/verbs/xrc.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "xrc_way.h"

namespace tern::test {
namespace {

using verbs::XrcDomain;
using verbs::XrcFile;

// The test has a folder of its own.
class XrcFiles : public testing::Test {
  protected:
    void SetUp() override {
        folder = testing::TempDir() + "tern-xrc-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
    }
    void TearDown() override { std::filesystem::remove_all(folder); }

    std::optional<XrcFile> open() { return XrcFile::open("hca", why, folder); }
    std::string path() const { return folder + "/tern-xrc-" + std::to_string(geteuid()) + "-hca"; }
    bool exists() const { return std::filesystem::exists(path()); }

    // Runs `work` in a new process, which ends without cleaning up.
    static pid_t spawn(const std::function<void()>& work) {
        const pid_t pid = fork();
        if (pid == 0) {
            work();
            _exit(0);
        }
        return pid;
    }
    static void wait_for(pid_t pid) {
        int status = 0;
        ASSERT_EQ(waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    }

    std::string folder;
    std::string why;
};

TEST_F(XrcFiles, IsOneForAllAndRemovedByTheLast) {
    auto first = open();
    ASSERT_TRUE(first) << why;
    EXPECT_NE(first->id(), 0u);
    auto second = open();
    ASSERT_TRUE(second) << why;
    EXPECT_EQ(first->id(), second->id());
    struct stat status {};
    ASSERT_EQ(stat(path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777, 0600u);
    first.reset();
    EXPECT_TRUE(exists());
    const uint64_t id = second->id();
    second.reset();
    EXPECT_FALSE(exists());
    auto third = open();
    ASSERT_TRUE(third) << why;
    EXPECT_NE(third->id(), id) << "another domain";
}

TEST_F(XrcFiles, WhatAKilledProcessLeavesIsRemovedByTheNext) {
    wait_for(spawn([this] {
        auto file = open();
        if (!file) _exit(1);
        _exit(0);  // as if killed: nothing is destroyed
    }));
    ASSERT_TRUE(exists());
    ASSERT_TRUE(open()) << why;
    EXPECT_FALSE(exists());
}

TEST_F(XrcFiles, AChildOfForkLeavesItAlone) {
    auto file = open();
    ASSERT_TRUE(file) << why;
    wait_for(spawn([&] { file.reset(); }));
    EXPECT_TRUE(exists());
    auto other = open();
    ASSERT_TRUE(other);
    EXPECT_EQ(other->id(), file->id());
}

TEST_F(XrcFiles, WhatIsNotOursAloneIsRefused) {
    const std::string elsewhere = folder + "/elsewhere";
    ASSERT_EQ(symlink(elsewhere.c_str(), path().c_str()), 0);
    EXPECT_FALSE(open());
    EXPECT_NE(why, "");
    EXPECT_FALSE(std::filesystem::exists(elsewhere));
    unlink(path().c_str());

    std::ofstream(path()).put('x');
    ASSERT_EQ(chmod(path().c_str(), 0666), 0);
    EXPECT_FALSE(open());
    ASSERT_EQ(chmod(path().c_str(), 0600), 0);
    EXPECT_TRUE(open()) << why;  // its contents are no id
    EXPECT_FALSE(exists());

    ASSERT_EQ(mkdir(path().c_str(), 0600), 0);
    EXPECT_FALSE(open());
    rmdir(path().c_str());
    ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
    EXPECT_FALSE(open());
    unlink(path().c_str());

    std::ofstream(path()).put('x');
    ASSERT_EQ(chmod(path().c_str(), 0600), 0);
    ASSERT_EQ(link(path().c_str(), (folder + "/also").c_str()), 0);
    EXPECT_FALSE(open()) << "it has another name";
    unlink((folder + "/also").c_str());
    if (geteuid() == 0 && chown(path().c_str(), 1, 1) == 0) {
        EXPECT_FALSE(open());
    }
}

// Processes come and go at the same time. A process holds the file that the path leads to, so
// processes that overlap have the same file.
TEST_F(XrcFiles, ComingsAndGoingsNeverSplitTheDomain) {
    std::vector<pid_t> pids;
    for (int i = 0; i < 4; ++i)
        pids.push_back(spawn([this] {
            for (int round = 0; round < 200; ++round) {
                auto mine = open();
                auto again = open();
                if (!mine || !again || mine->id() != again->id()) _exit(1);
                struct stat named {};
                struct stat held {};
                if (stat(path().c_str(), &named) != 0 || fstat(mine->fd(), &held) != 0 ||
                    named.st_ino != held.st_ino)
                    _exit(2);
            }
        }));
    for (const pid_t pid : pids) wait_for(pid);
    EXPECT_FALSE(exists());
}

// A sender and receive queues in one process.
class Xrc : public XrcFiles {
  protected:
    void SetUp() override {
        XrcFiles::SetUp();
        if (!has_xrc()) GTEST_SKIP() << "no XRC";
        domain = XrcDomain::open(device(), why, folder);
        ASSERT_TRUE(domain) << why;
        cq.reset(ibv_create_cq(port().context, 64, nullptr, nullptr, 0));
        memory = verbs::RegisteredMemory(pd(), 4096, IBV_ACCESS_LOCAL_WRITE);
        way = std::make_unique<XrcWay>(*domain, cq.get());
    }
    void TearDown() override {
        way.reset();
        domain.reset();
        XrcFiles::TearDown();
    }
    static ibv_pd* pd() { return device().pd.get(); }

    verbs::SharedReceiveQueue make_queue(const XrcDomain& where) {
        return verbs::create_xrc_receives(pd(), where, cq.get(), 8);
    }
    void receive(ibv_srq* srq, uint64_t id, uint32_t at, uint32_t length) {
        ibv_sge piece{.addr = reinterpret_cast<uint64_t>(memory.data()) + at,
                      .length = length,
                      .lkey = memory.lkey()};
        ibv_recv_wr request{.wr_id = id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
        ibv_recv_wr* refused = nullptr;
        ASSERT_EQ(ibv_post_srq_recv(srq, &request, &refused), 0);
    }
    ibv_wc next() {
        ibv_wc completion{};
        EXPECT_TRUE(until([] {}, [&] { return ibv_poll_cq(cq.get(), 1, &completion) == 1; }));
        return completion;
    }

    std::unique_ptr<XrcDomain> domain;
    verbs::CompletionQueue cq;
    verbs::RegisteredMemory memory;
    std::unique_ptr<XrcWay> way;
};

TEST_F(Xrc, MessagesGoToTheQueueTheyName) {
    // A domain of the same file, as another process would open it.
    auto other = XrcDomain::open(device(), why, folder);
    ASSERT_TRUE(other) << why;
    EXPECT_EQ(other->id(), domain->id());
    const auto first = make_queue(*domain);
    const auto second = make_queue(*other);
    ASSERT_TRUE(first && second);
    receive(first.get(), 1, 0, 64);
    receive(second.get(), 2, 64, 64);
    way->send(10, verbs::xrc_number(second.get()), "second");
    way->send(11, verbs::xrc_number(first.get()), "");
    uint32_t lengths[3] = {99, 99, 99};
    for (int i = 0; i < 4; ++i) {
        const ibv_wc completion = next();
        EXPECT_EQ(completion.status, IBV_WC_SUCCESS) << ibv_wc_status_str(completion.status);
        if (completion.wr_id < 3) lengths[completion.wr_id] = completion.byte_len;
    }
    EXPECT_EQ(lengths[1], 0u);
    EXPECT_EQ(lengths[2], 6u);
    EXPECT_EQ(memcmp(memory.data() + 64, "second", 6), 0);
}

TEST_F(Xrc, MessageWithoutReceiveFailsAtOnce) {
    const auto queue = make_queue(*domain);
    way->send(1, verbs::xrc_number(queue.get()), "too early");
    EXPECT_EQ(next().status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST_F(Xrc, DestroyedQueueGivesItsReceivesBack) {
    auto queue = make_queue(*domain);
    const uint32_t number = verbs::xrc_number(queue.get());
    receive(queue.get(), 1, 0, 64);
    queue.reset();
    way->send(2, number, "too late");
    const ibv_wc completion = next();
    EXPECT_EQ(completion.wr_id, 2u);
    EXPECT_NE(completion.status, IBV_WC_SUCCESS);
    EXPECT_EQ(memory.data()[0], std::byte{0});
}

}  // namespace
}  // namespace tern::test
