// SPDX-License-Identifier: BSD-3-Clause
#include "fabric.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace conformance::softhca {
namespace {

constexpr std::array kSettings{"FABRIC",  "DEVICES", "PORTS",  "LINK_LAYER", "EXECUTOR",
                               "PROFILE", "MODEL",   "FAULTS", "SHARED"};

std::string variable(const char* name) {
    return std::string("SOFTHCA_") + name;
}

}  // namespace

void set(const char* name, const std::string& value) {
    setenv(variable(name).c_str(), value.c_str(), 1);
}

void FabricTest::SetUp() {
    if (is_team_process()) return;  // its environment is that of the test
    static int tests = 0;
    for (const char* name : kSettings) unsetenv(variable(name).c_str());
    set("FABRIC", "device-" + std::to_string(getpid()) + "-" + std::to_string(++tests));
}

void FabricTest::TearDown() {
    if (is_team_process()) return;
    command("clean");
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
    // The command itself needs no device.
    const std::string line = std::string("unset LD_PRELOAD; exec '") + program + "' " + arguments;
    FILE* pipe = popen((line + " 2>&1").c_str(), "re");
    if (!pipe) fail_errno("popen");
    std::string output;
    std::array<char, 4096> some;
    while (const std::size_t n = std::fread(some.data(), 1, some.size(), pipe)) {
        output.append(some.data(), n);
    }
    const int status = pclose(pipe);
    if (status != 0) fail("softhca " + arguments + ": " + output);
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
