// SPDX-License-Identifier: BSD-3-Clause
// Tests of what only the software HCA has. Each test has a fabric of its own, with settings of its
// own. The test itself uses no verbs: its processes do, and find the settings in their environment.
#pragma once

#include <sched.h>

#include <cstdint>
#include <functional>
#include <string>

#include "../conformance/side.h"

namespace conformance::softhca {

// The settings of a test last until its end.
class FabricTest : public testing::Test {
  protected:
    void SetUp() override;
    // Removes the fabric; nobody may be in it any more.
    void TearDown() override;

    // Runs `body` in a process of its own on the fabric.
    static void alone(const std::function<void()>& body);
};

// Gives a setting of the device a value: `name` without its prefix SOFTHCA_. Of the first process
// of the fabric most settings hold for all.
void set(const char* name, const std::string& value);

// Runs the softhca command with these arguments on this fabric; throws unless it succeeds. Returns
// what it prints.
std::string command(const std::string& arguments);
// What a line for the shell prints, run without this process's LD_PRELOAD; throws unless it
// succeeds.
std::string shell(std::string line);
inline void inject(const std::string& faults) {
    command("inject " + faults);
}

// The status of the fabric, as JSON.
inline std::string status() {
    return command("status --json");
}

// The faults in force.
std::string faults();

// The sum of all numbers that `json` has under a key.
uint64_t sum(const std::string& json, const std::string& key);

// The file in /dev/shm that lists the members of this fabric.
std::string member_file();

// Waits until a condition holds.
template <typename Condition>
testing::AssertionResult comes(Condition&& condition) {
    const auto end = Clock::now() + deadline();
    while (!condition()) {
        if (Clock::now() > end) {
            return testing::AssertionFailure() << "not so within " << deadline().count() << " ms";
        }
        sched_yield();
    }
    return testing::AssertionSuccess();
}

// A word of memory that others write.
inline uint64_t look(const uint64_t& word) {
    return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

// Measures how long something takes at least.
class Stopwatch {
  public:
    milliseconds elapsed() const {
        return std::chrono::duration_cast<milliseconds>(Clock::now() - start_);
    }

  private:
    Clock::time_point start_ = Clock::now();
};

// A port of a device that is not the one under test by default.
Hca open(unsigned device, unsigned port, unsigned gid_index = 0);

// A completion queue with a channel, armed.
struct EventQueue {
    explicit EventQueue(const Hca& hca)
        : channel(hca.make_channel()), cq(hca.make_cq(256, channel.get())) {
        if (ibv_req_notify_cq(cq.get(), 0)) fail("ibv_req_notify_cq");
    }
    Channel channel;
    Cq cq;
};

// Both executors, for TEST_P.
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
