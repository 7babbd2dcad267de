// SPDX-License-Identifier: BSD-3-Clause
// Start-up against launchers that do not do as they should, and by a table of functions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

#include "rwapi/bootstrap/bootstrap.h"
#include "rwapi/bootstrap/pmi1.h"

namespace rwapi {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    return {bytes, bytes + text.size()};
}

constexpr const char* kNoAnswer = "none";

// A launcher that answers each command as it is told, or closes the connection if it is told
// nothing.
class ScriptedLauncher {
  public:
    ScriptedLauncher() {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
        fd_ = ends[0];
        process = std::make_unique<Pmi1Launcher>(ends[1], 1, 3);
    }
    ~ScriptedLauncher() {
        process.reset();
        if (thread_.joinable()) thread_.join();
        ::close(fd_);
    }

    void serve() {
        thread_ = std::thread([this] {
            LineBuffer lines;
            char some[512];
            for (ssize_t n; (n = ::read(fd_, some, sizeof some)) > 0;) {
                lines.append({some, static_cast<size_t>(n)});
                while (const auto line = lines.next()) {
                    const std::string command = line->substr(0, line->find(' '));
                    const std::string answer = answers[command];
                    in_barrier_ = in_barrier_ || command == "cmd=barrier_in";
                    if (answer == kNoAnswer) continue;
                    if (answer.empty()) {
                        ::shutdown(fd_, SHUT_RDWR);
                        return;
                    }
                    const std::string bytes = answer + "\n";
                    if (::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return;
                }
            }
        });
    }

    void wait_for_barrier() const {
        while (!in_barrier_) std::this_thread::yield();
    }

    std::map<std::string, std::string> answers = {
        {"cmd=init", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"},
        {"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"},
        {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1"},
        {"cmd=put", "cmd=put_result rc=0 msg=success"},
        {"cmd=get", "cmd=get_result rc=0 msg=success value=abcd"},
        {"cmd=barrier_in", "cmd=barrier_out"},
        {"cmd=finalize", "cmd=finalize_ack"}};
    std::unique_ptr<Pmi1Launcher> process;

  private:
    int fd_ = -1;
    std::atomic<bool> in_barrier_{false};
    std::thread thread_;
};

TEST(Pmi1Launcher, TalksToALauncher) {
    ScriptedLauncher launcher;
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    EXPECT_EQ(launcher.process->put(0, bytes_of(std::string(500, 'x'))), 0);
    EXPECT_EQ(launcher.process->barrier(), 0);
    std::vector<std::byte> address;
    EXPECT_EQ(launcher.process->get(0, 2, address), 0);
    EXPECT_EQ(address, bytes_of("\xab\xcd"));
    launcher.process->finish();
}

TEST(Pmi1Launcher, DoesNotStartAfterAWrongAnswer) {
    const std::pair<const char*, const char*> wrong[] = {
        {"cmd=init", ""},
        {"cmd=init", "cmd=response_to_init rc=-1"},
        {"cmd=init", "cmd=maxes"},
        {"cmd=init", "hello"},
        {"cmd=get_maxes", "cmd=maxes"},
        {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=0"},
        {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=-1"},
        {"cmd=get_maxes", "cmd=maxes keylen_max=64 vallen_max=99999999999999999999"},
        {"cmd=get_maxes", "cmd=maxes keylen_max=4 vallen_max=1024"},
        {"cmd=get_my_kvsname", "cmd=my_kvsname"},
        {"cmd=get_my_kvsname", "cmd=my_kvsname kvsname="}};
    for (const auto& [command, answer] : wrong) {
        SCOPED_TRACE(std::string(command) + ": " + answer);
        ScriptedLauncher launcher;
        launcher.answers[command] = answer;
        launcher.serve();
        EXPECT_EQ(launcher.process->start(), RWAPI_ERR_START);
        EXPECT_EQ(launcher.process->barrier(), RWAPI_ERR_START);
        launcher.process->finish();
    }
}

TEST(Pmi1Launcher, RefusesAnAddressThatDoesNotFit) {
    ScriptedLauncher launcher;
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    EXPECT_EQ(launcher.process->put(0, bytes_of(std::string(512, 'x'))), RWAPI_ERR_START);
    // The launcher serves others, and contexts with shorter addresses.
    EXPECT_EQ(launcher.process->barrier(), 0);
    EXPECT_EQ(launcher.process->put(1, bytes_of(std::string(511, 'x'))), 0);
    launcher.process->finish();
}

TEST(Pmi1Launcher, RefusesAWrongAddress) {
    for (const char* answer :
         {"", "cmd=get_result rc=-1 msg=no value=unknown", "cmd=get_result rc=0 value=unknown",
          "cmd=get_result rc=0", "cmd=get_result rc=0 value=abc", "cmd=barrier_out"}) {
        SCOPED_TRACE(answer);
        ScriptedLauncher launcher;
        launcher.answers["cmd=get"] = answer;
        launcher.serve();
        ASSERT_EQ(launcher.process->start(), 0);
        std::vector<std::byte> address = bytes_of("before");
        EXPECT_EQ(launcher.process->get(0, 2, address), RWAPI_ERR_START);
        EXPECT_EQ(address, bytes_of("before"));
    }
}

// A call of the user's waits for it.
TEST(Pmi1Launcher, GivesUpALauncherThatDoesNotAnswer) {
    ScriptedLauncher launcher;
    launcher.answers["cmd=get"] = kNoAnswer;
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    launcher.process->limit_answers(50);
    std::vector<std::byte> address;
    EXPECT_EQ(launcher.process->get(0, 2, address), RWAPI_ERR_START);
    EXPECT_EQ(launcher.process->barrier(), RWAPI_ERR_START);
}

TEST(Pmi1Launcher, LearnsThatABarrierHasFailed) {
    ScriptedLauncher launcher;
    launcher.answers["cmd=barrier_in"] = "cmd=barrier_out rc=-1 msg=process_2_has_ended";
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    EXPECT_EQ(launcher.process->barrier(), RWAPI_ERR_PEER);
}

// A refusal is no reason to give up the launcher.
TEST(Pmi1Launcher, GoesOnAfterARefusal) {
    ScriptedLauncher launcher;
    launcher.answers["cmd=barrier_in"] = "cmd=barrier_out rc=-1 msg=process_2_has_ended";
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    EXPECT_EQ(launcher.process->barrier(), RWAPI_ERR_PEER);
    std::vector<std::byte> address;
    EXPECT_EQ(launcher.process->get(0, 2, address), 0);
    EXPECT_EQ(address, bytes_of("\xab\xcd"));
}

// The end of the barrier comes only after an address has been asked for, and before it.
TEST(Pmi1Launcher, GivesAddressesDuringABarrier) {
    ScriptedLauncher launcher;
    launcher.answers["cmd=barrier_in"] = kNoAnswer;
    launcher.answers["cmd=get"] = "cmd=barrier_out\ncmd=get_result rc=0 msg=success value=abcd";
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    int result = -1;
    std::thread barrier([&] { result = launcher.process->barrier(); });
    launcher.wait_for_barrier();
    std::vector<std::byte> address;
    EXPECT_EQ(launcher.process->get(0, 2, address), 0);
    EXPECT_EQ(address, bytes_of("\xab\xcd"));
    barrier.join();
    EXPECT_EQ(result, 0);
}

TEST(Pmi1Launcher, GivesUpAtALineWithoutEnd) {
    ScriptedLauncher launcher;
    launcher.answers["cmd=get"] = std::string(100000, 'x');
    launcher.serve();
    ASSERT_EQ(launcher.process->start(), 0);
    std::vector<std::byte> address;
    EXPECT_EQ(launcher.process->get(0, 2, address), RWAPI_ERR_START);
}

// Variables that are put back.
class Variables {
  public:
    explicit Variables(const std::map<std::string, std::string>& values) {
        for (const char* name : kNames) ::unsetenv(name);
        for (const auto& [name, value] : values) ::setenv(name.c_str(), value.c_str(), 1);
    }
    ~Variables() {
        for (const char* name : kNames) ::unsetenv(name);
    }

  private:
    static constexpr const char* kNames[] = {"PMI_FD", "PMI_RANK",  "PMI_SIZE",      "PMI_PORT",
                                             "PMI_ID", "PMIX_RANK", "PMIX_NAMESPACE"};
};

TEST(MakeBootstrap, AProcessWithoutLauncherIsAJobOfOne) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    // The descriptor is closed, is none, or is no socket.
    const std::string pipe_end = std::to_string(pipe_ends[0]);
    for (const char* fd : {"987", "-1", "x", "", pipe_end.c_str()}) {
        const Variables variables({{"PMI_FD", fd}, {"PMI_RANK", "1"}, {"PMI_SIZE", "3"}});
        int error = 1;
        const auto bootstrap = make_bootstrap(nullptr, error);
        ASSERT_NE(bootstrap, nullptr) << fd;
        EXPECT_EQ(error, 0);
        EXPECT_EQ(bootstrap->rank(), 0);
        EXPECT_EQ(bootstrap->size(), 1);
        EXPECT_EQ(bootstrap->publish(bytes_of("abc")), 0);
        EXPECT_EQ(bootstrap->begin_barrier(), 0);
        EXPECT_EQ(bootstrap->test_barrier(), 1);
        std::vector<std::byte> address;
        EXPECT_EQ(bootstrap->lookup(0, address), 0);
        EXPECT_EQ(address, bytes_of("abc"));
        EXPECT_EQ(bootstrap->lookup(1, address), RWAPI_ERR_NODE);
    }
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
}

TEST(MakeBootstrap, RefusesWrongVariables) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    for (const auto& [rank, size] : {std::pair{"3", "3"},
                                     {"-1", "3"},
                                     {"0", "0"},
                                     {"0", ""},
                                     {"", "3"},
                                     {"0", "99999999999"},
                                     {"0x1", "3"}}) {
        const Variables variables(
            {{"PMI_FD", std::to_string(ends[1])}, {"PMI_RANK", rank}, {"PMI_SIZE", size}});
        int error = 0;
        EXPECT_EQ(make_bootstrap(nullptr, error), nullptr) << rank << "/" << size;
        EXPECT_EQ(error, RWAPI_ERR_START);
    }
    ::close(ends[0]);
    ::close(ends[1]);
}

// The functions of a user whose job has three processes, of which this one plays the second.
struct User {
    std::string data;    // what exchange returns
    size_t lengths = 0;  // the length that it reports for the first process
    int result = 0;
    int exchanges = 0;
    int barriers = 0;
    int tests = 0;

    rwapi_bootstrap table() {
        return {this,
                1,
                3,
                [](void* context, const void* mine, size_t bytes, void* all) {
                    auto* user = static_cast<User*>(context);
                    auto* to = static_cast<char*>(all);
                    for (int i = 0; i < 3; ++i) std::memcpy(to + bytes * i, mine, bytes);
                    if (user->exchanges++ == 0) {
                        const auto length = static_cast<uint32_t>(user->lengths);
                        std::memcpy(to, &length, sizeof length);
                    } else if (!user->data.empty()) {
                        std::memcpy(to, user->data.data(), user->data.size());
                    }
                    return user->result;
                },
                [](void* context) {
                    auto* user = static_cast<User*>(context);
                    ++user->barriers;
                    return user->result;
                },
                [](void* context) {
                    auto* user = static_cast<User*>(context);
                    return user->result != 0 ? user->result : ++user->tests / 3;
                }};
    }
};

TEST(TableBootstrap, ExchangesAddressesOfDifferentLengths) {
    User user;
    user.data = "first";
    user.lengths = 5;
    const rwapi_bootstrap table = user.table();
    int error = 0;
    const auto bootstrap = make_bootstrap(&table, error);
    ASSERT_NE(bootstrap, nullptr);
    EXPECT_EQ(bootstrap->rank(), 1);
    EXPECT_EQ(bootstrap->size(), 3);
    EXPECT_EQ(bootstrap->publish(bytes_of("me")), 0);
    std::vector<std::byte> address;
    EXPECT_EQ(bootstrap->lookup(0, address), 0);
    EXPECT_EQ(address, bytes_of("first"));
    EXPECT_EQ(bootstrap->lookup(1, address), 0);
    EXPECT_EQ(address, bytes_of("me"));
    EXPECT_EQ(bootstrap->lookup(3, address), RWAPI_ERR_NODE);
    EXPECT_EQ(bootstrap->begin_barrier(), 0);
    for (const int result : {0, 0, 1}) EXPECT_EQ(bootstrap->test_barrier(), result);
    EXPECT_EQ(user.barriers, 1);
}

TEST(TableBootstrap, RefusesAddressesThatItIsNotToHave) {
    int error = 0;
    std::vector<std::byte> address;
    User long_one;
    long_one.lengths = 1 << 30;
    rwapi_bootstrap table = long_one.table();
    EXPECT_EQ(make_bootstrap(&table, error)->publish(bytes_of("me")), RWAPI_ERR_START);

    User wrong_order;
    wrong_order.lengths = 2;
    wrong_order.data = "itwego";
    table = wrong_order.table();
    EXPECT_EQ(make_bootstrap(&table, error)->publish(bytes_of("me")), RWAPI_ERR_START);

    User failing;
    failing.result = 5;
    table = failing.table();
    const auto bootstrap = make_bootstrap(&table, error);
    EXPECT_EQ(bootstrap->lookup(0, address), RWAPI_ERR_NODE);  // before publish
    EXPECT_EQ(bootstrap->publish(bytes_of("me")), RWAPI_ERR_START);
    EXPECT_EQ(bootstrap->begin_barrier(), RWAPI_ERR_START);
    EXPECT_EQ(bootstrap->test_barrier(), RWAPI_ERR_START);
}

TEST(TableBootstrap, RefusesATableThatIsNotComplete) {
    User user;
    for (int what = 0; what < 5; ++what) {
        rwapi_bootstrap table = user.table();
        if (what == 0) table.exchange = nullptr;
        if (what == 1) table.barrier_begin = nullptr;
        if (what == 2) table.rank = 3;
        if (what == 3) table.size = 0;
        if (what == 4) table.barrier_test = nullptr;
        int error = 0;
        EXPECT_EQ(make_bootstrap(&table, error), nullptr);
        EXPECT_EQ(error, RWAPI_ERR_INVALID);
    }
}

}  // namespace
}  // namespace rwapi
