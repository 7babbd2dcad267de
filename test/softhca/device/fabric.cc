// SPDX-License-Identifier: BSD-3-Clause
#include "fabric.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

namespace conformance::softhca {
namespace {

constexpr std::array kSettings{"FABRIC",     "DEVICES",   "PORTS",   "PERSONALITY", "RULES",
                               "LINK_LAYER", "ADDRESSES", "SUBNETS", "EXECUTOR",    "PROFILE",
                               "MODEL",      "FAULTS",    "SHARED",  "CLOCK"};

std::string variable(const char* name) {
    return std::string("SOFTHCA_") + name;
}

}  // namespace

void set(const char* name, const std::string& value) {
    setenv(variable(name).c_str(), value.c_str(), 1);
}

void FabricTest::SetUp() {
    if (is_team_process()) return;  // inherits the environment of the test
    static int tests = 0;
    for (const char* name : kSettings) unsetenv(variable(name).c_str());
    set("FABRIC", "device-" + std::to_string(getpid()) + "-" + std::to_string(++tests));
}

void FabricTest::TearDown() {
    if (is_team_process()) return;
    command("clean --fabric \"$SOFTHCA_FABRIC\"");
    EXPECT_NE(access(member_file().c_str(), F_OK), 0) << member_file() << " is left";
}

void FabricTest::alone(const std::function<void()>& body) {
    Team team;
    team.spawn([&](Link&) { body(); });
    team.finish();
}

std::string command(const std::string& arguments) {
    const char* program = std::getenv("SOFTHCA");
    if (!program) fail("SOFTHCA does not name the softhca command");
    return shell(std::string("'") + program + "' " + arguments);
}

std::string shell(std::string line) {
    // Neither the shell nor the command needs a device, and a shell crashes with a preloaded
    // sanitizer run-time library.
    const std::array<char*, 4> argv{const_cast<char*>("sh"), const_cast<char*>("-c"), line.data(),
                                    nullptr};
    std::vector<char*> environment;
    for (char** variable = environ; *variable != nullptr; ++variable)
        if (!std::string_view(*variable).starts_with("LD_PRELOAD="))
            environment.push_back(*variable);
    environment.push_back(nullptr);

    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) fail_errno("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    pid_t pid = 0;
    const int error =
        posix_spawn(&pid, "/bin/sh", &actions, nullptr, argv.data(), environment.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) fail("/bin/sh: " + std::string(std::strerror(error)));
    std::string output;
    std::array<char, 4096> some;
    for (ssize_t n; (n = read(ends[0], some.data(), some.size())) > 0;)
        output.append(some.data(), static_cast<std::size_t>(n));
    close(ends[0]);
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || status != 0) fail(line + ": " + output);
    return output;
}

std::string faults() {
    const std::string json = status();
    const std::string key = "\"faults\": \"";
    const std::size_t begin = json.find(key) + key.size();
    return json.substr(begin, json.find('"', begin) - begin);
}

uint64_t sum(const std::string& json, const std::string& key) {
    const std::string quoted = "\"" + key + "\": ";
    uint64_t total = 0;
    std::size_t found = 0;
    for (std::size_t at = 0; (at = json.find(quoted, at)) != std::string::npos; ++found) {
        at += quoted.size();
        total += std::strtoull(json.c_str() + at, nullptr, 10);
    }
    if (found == 0) fail("the status has no " + key);
    return total;
}

std::string member_file() {
    return "/dev/shm/softhca-" + std::to_string(geteuid()) + "-" + std::getenv("SOFTHCA_FABRIC");
}

Hca open(unsigned device, unsigned port, unsigned gid_index) {
    setenv("CONFORMANCE_DEVICE", ("softhca" + std::to_string(device)).c_str(), 1);
    setenv("CONFORMANCE_PORT", std::to_string(port).c_str(), 1);
    setenv("CONFORMANCE_GID_INDEX", std::to_string(gid_index).c_str(), 1);
    return Hca();
}

}  // namespace conformance::softhca
