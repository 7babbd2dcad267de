// SPDX-License-Identifier: BSD-3-Clause
// The commands of tern-bench, their options, and the configurations that they compare: transports,
// protocols and the bare device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/series/series.h"

namespace bench {

// The command sets what the command line does not: see Command.
struct Options {
    std::string command;
    std::string device;              // as UCX names it; empty: the first
    std::string transport = "tern";  // is compared with rc_verbs
    int rounds = 0;
    int gid_index = 0;
    bool quick = false;
    std::string profile;  // of the benchmark's own software HCA; empty: the environment decides
    double step = 4;      // for `rwapi`: factor from one size to the next
    uint32_t low = 1;     // the same
    uint32_t high = 4 << 20;
    std::string json;
    std::vector<uint32_t> peers = {1, 4, 16, 32, 63};  // for `memory`
    int hot = -1;                                      // for `memory`; -1: all
};

struct Result {
    std::vector<Figure> figures;
    std::string table;
    std::string notes;  // explanations for the reader
};
inline Result table_of(const std::vector<Figure>& figures, const std::string& notes) {
    return {figures, as_table(figures), notes};
}

// Throws Failure if Tern is to be measured and its library is not found.
Setup make_setup(const Options& options);
// Runs this command line again on the benchmark's own software HCA, with a profile if one is
// named. Call if there is no HCA. Returns the exit status. Throws Failure.
int run_on_own_device(const std::string& device, const std::string& profile, char** argv);
// Throws Failure if there is a device, and it does not have the profile.
void check_profile(const std::string& profile);
// The measured software and the machine, as facts for the output.
Facts facts_of(const Options& options, const Setup& setup);

// What several commands share.
constexpr uint32_t kShort = 8 << 10;        // up to here, reading the clock each time would show
constexpr uint64_t kOrderBytes = 16 << 20;  // of an order, in each direction

// A series of the command's rounds, in a few starts.
Series make_series(const Options& options, const Setup& setup, int quick_rounds, int starts);

// The kinds of registered memory to measure, "private" and "shared", and what a test's title says
// about one.
std::vector<std::string> kinds_of_memory(const Setup& setup);
std::string memory_text(const Setup& setup, const std::string& memory);

// Whether the device is a software HCA that copies shared and private memory in different ways. If
// so, a transport with shared buffers cannot be compared directly with one whose buffers are
// private.
bool shared_memory_differs(const Setup& setup);
constexpr const char* kSharedMemoryNote =
    "The software HCA copies into shared memory directly and into private memory by a system call. "
    "Tern's buffers are\n"
    "shared memory, rc_verbs's are private, and so are perftest's. \"private\" rows of Tern are "
    "measured with\n"
    "SOFTHCA_SHARED=off, which makes all memory private memory to the device: compare like with "
    "like.\n";

// Of the software HCA.
std::string device_profile();

Arm raw_arm(const std::string& memory);
Arm uct_arm(const std::string& transport);
// Tagged messages of UCP over one transport.
Arm ucp_arm(const std::string& transport);
// Notified writes of rwapi in the kind of memory.
Arm rwapi_arm(const std::string& transport, const std::string& memory);
// The name of what is compared with rc_v over UCP: rc_v is rc_verbs with the transports that UCP
// needs to connect it.
std::string ucp_name(const Options& options);
// The arm on a device that treats all memory as private.
Arm in_private_memory(Arm arm);
// These functions throw Failure.
Result run_latency(const Options& options, const Setup& setup);
Result run_rwapi(const Options& options, const Setup& setup);
Result run_tune(const Options& options, const Setup& setup);
Result run_memory(const Options& options, const Setup& setup);

struct Command {
    std::string name;
    const char* help;
    Result (*run)(const Options& options, const Setup& setup);
    int rounds = 15;  // if the command line says nothing
};

// Commands with options of their own. They get the command line from tern-bench on, and return the
// exit status.
int run_sim(int argc, char** argv);
int run_replay(int argc, char** argv);
int run_gate(int argc, char** argv);
int run_scale(int argc, char** argv);
int run_program(int argc, char** argv);
int run_order(int argc, char** argv);

// What the workers of arms open, each over one programming interface.
struct PortKind {
    const char* name;  // Arm::port
    OpenPort open;
};
extern const PortKind kUctPort, kUcpPort, kRwapiPort;

}  // namespace bench
