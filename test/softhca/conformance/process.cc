// SPDX-License-Identifier: BSD-3-Clause
#include "process.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "device.h"
#include "work.h"

namespace conformance {
namespace {

constexpr char kRole[] = "CONFORMANCE_ROLE";
constexpr int kLinkFd = 3;

int own_role() {
    const char* text = std::getenv(kRole);
    return text ? std::atoi(text) : -1;
}

// Runs the role and ends the process.
[[noreturn]] void play(const std::function<void(Link&)>& role) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) _exit(1);
    int status = 0;
    try {
        Link link(kLinkFd);
        role(link);
    } catch (const std::exception& error) {
        std::printf("process %d: %s\n", own_role(), error.what());
        status = 1;
    }
    if (testing::Test::HasFailure()) status = 1;
    std::fflush(nullptr);
    _exit(status);
}

pid_t execute_self(int role, int fd) {
    const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter =
        std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    std::string variable(kRole);
    variable.append("=").append(std::to_string(role));
    const char* argv[] = {"verbs_conformance", filter.c_str(), "--gtest_brief=1", nullptr};
    std::vector<const char*> environment{variable.c_str()};
    for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
    environment.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fd, kLinkFd);
    pid_t pid = -1;
    errno = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, const_cast<char**>(argv),
                        const_cast<char**>(environment.data()));
    posix_spawn_file_actions_destroy(&actions);
    if (errno) fail_errno("posix_spawn");
    return pid;
}

// Waits until `end` for a process to exit; false if it still runs then.
bool reap(pid_t pid, Clock::time_point end, int& status) {
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (Clock::now() > end) return false;
        std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
}

}  // namespace

bool is_team_process() {
    return own_role() >= 0;
}

Link::~Link() {
    if (fd_ >= 0) close(fd_);
}

void Link::send_bytes(const void* bytes, std::size_t size) {
    if (::send(fd_, bytes, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size))
        fail_errno("link: send");
}

void Link::await() {
    char note;
    if (recv(fd_, &note, sizeof note, 0) <= 0) fail("link: the other end is gone");
}

void Link::receive_bytes(void* bytes, std::size_t size) {
    if (!readable(fd_, deadline()))
        fail("link: no message within " + std::to_string(deadline().count()) + " ms");
    const ssize_t got = recv(fd_, bytes, size, 0);
    if (got == 0) fail("link: the other end is gone");
    if (got != static_cast<ssize_t>(size)) {
        fail("link: message of " + std::to_string(got) + " bytes instead of " +
             std::to_string(size));
    }
}

void Link::send_file(int fd) {
    char byte = 'f';
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    if (sendmsg(fd_, &message, MSG_NOSIGNAL) != 1) fail_errno("link: sendmsg");
}

int Link::receive_file() {
    if (!readable(fd_, deadline())) fail("link: no file before the deadline");
    char byte;
    iovec data{&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd_, &message, MSG_CMSG_CLOEXEC);
    const cmsghdr* header = got == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (!header || header->cmsg_type != SCM_RIGHTS) fail("link: no file in the message");
    int fd;
    std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
    return fd;
}

int Team::spawn(const std::function<void(Link&)>& role) {
    const int index = spawned_++;
    if (own_role() == index) play(role);
    if (is_team_process()) return index;
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) fail_errno("socketpair");
    Link mine(ends[0]);
    Link theirs(ends[1]);
    processes_.push_back({execute_self(index, ends[1]), std::move(mine)});
    return index;
}

Link& Team::operator[](int index) {
    if (is_team_process()) fail("a team must be spawned before it is talked to");
    return processes_.at(index).link;
}

void Team::kill(int index) {
    Process& process = processes_.at(index);
    ::kill(process.pid, SIGKILL);
    int status;
    waitpid(process.pid, &status, 0);
    process.pid = -1;
}

void Team::finish() {
    const auto end = Clock::now() + deadline();
    for (std::size_t i = 0; i < processes_.size(); ++i) {
        Process& process = processes_[i];
        if (process.pid < 0) continue;
        int status = 0;
        if (!reap(process.pid, end, status)) {
            ADD_FAILURE() << "process " << i << " is still running after " << deadline().count()
                          << " ms";
            continue;
        }
        process.pid = -1;
        if (WIFSIGNALED(status))
            ADD_FAILURE() << "process " << i << " died of " << strsignal(WTERMSIG(status));
        else if (WEXITSTATUS(status) != 0)
            ADD_FAILURE() << "process " << i << " failed";
    }
}

// All at once: the end of one would fail others, which would report that too.
Team::~Team() {
    for (const Process& process : processes_)
        if (process.pid >= 0) ::kill(process.pid, SIGKILL);
    for (std::size_t i = 0; i < processes_.size(); ++i)
        if (processes_[i].pid >= 0) kill(static_cast<int>(i));
}

}  // namespace conformance
