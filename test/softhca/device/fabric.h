// SPDX-License-Identifier: BSD-3-Clause
// Tests of features that only the software HCA has. Each test has its own fabric and its own
// settings. The test itself uses no verbs; its processes do, and they inherit the settings in their
// environment.
#pragma once

#include <sched.h>

#include <cstdint>
#include <functional>
#include <string>

#include "../conformance/side.h"

namespace conformance::softhca {

// A test with its own fabric and settings.
class FabricTest : public testing::Test {
  protected:
    void SetUp() override;
    // Removes the fabric, which no process may be in any more.
    void TearDown() override;

    // Runs `body` in a process on the fabric.
    static void alone(const std::function<void()>& body);
};

// Gives a setting of the device a value; `name` is without its prefix SOFTHCA_. Most settings of
// the first process of a fabric hold for all its processes.
void set(const char* name, const std::string& value);

// Runs the softhca command with these arguments on this fabric and returns its output; throws if
// the command fails.
std::string command(const std::string& arguments);
// Runs a line of shell without this process's LD_PRELOAD and returns its output; throws if it
// fails.
std::string shell(std::string line);
inline void inject(const std::string& faults) {
    command("inject " + faults);
}

// The status of the fabric, as JSON.
inline std::string status() {
    return command("status --json");
}

// The faults in force, as text.
std::string faults();

// The sum of all numbers with the key `key` in `json`.
uint64_t sum(const std::string& json, const std::string& key);

// The file in /dev/shm that lists the members of this fabric.
std::string member_file();

// Waits until a condition holds; fails at the deadline.
template <typename Condition>
testing::AssertionResult comes(Condition&& condition) {
    const auto end = Clock::now() + deadline();
    while (!condition()) {
        if (Clock::now() > end)
            return testing::AssertionFailure() << "not so within " << deadline().count() << " ms";
        sched_yield();
    }
    return testing::AssertionSuccess();
}

// Loads, with acquire order, a word that another process, a thread or the device writes.
inline uint64_t look(const uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// Measures time since its construction, rounded down.
class Stopwatch {
  public:
    milliseconds elapsed() const {
        return std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
    }

  private:
    Clock::time_point start_ = Clock::now();
};

// Opens a given device and port, which become the default of this process.
Hca open(unsigned device, unsigned port, unsigned gid_index = 0);

// A completion queue with a channel, armed for the next event.
struct EventQueue {
    explicit EventQueue(const Hca& hca)
        : channel(hca.make_channel()), cq(hca.make_cq(256, channel.get())) {
        if (ibv_req_notify_cq(cq.get(), 0)) fail("ibv_req_notify_cq");
    }
    Channel channel;
    Cq cq;
};

// A test that runs with both executors.
class ExecutorTest : public FabricTest, public testing::WithParamInterface<const char*> {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("EXECUTOR", GetParam());
    }
};

inline std::string word_case(const testing::TestParamInfo<const char*>& test) {
    return test.param;
}

#define SOFTHCA_BOTH_EXECUTORS(suite) \
    INSTANTIATE_TEST_SUITE_P(Executors, suite, testing::Values("inline", "thread"), word_case)

}  // namespace conformance::softhca
