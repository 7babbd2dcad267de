// SPDX-License-Identifier: BSD-3-Clause
#include "bench/sim/machine.h"
#include "bench/measure/clock.h"

#include <dlfcn.h>
#include <time.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace bench::sim {
namespace {

constexpr uint64_t kStart = 1'000'000'000;  // ns: programs take 0 for no time

// Of the process; null: time is real.
softhca_virtual_time* virtual_clock = nullptr;

uint64_t left_out_ns = 0;

uint64_t read_clock() {
    return virtual_clock->now += kReadClock;
}

template <typename Function>
Function* device_function(const char* name) {
    void* found = ::dlsym(RTLD_DEFAULT, name);
    if (found == nullptr)
        throw Failure("a simulation needs the software HCA with SOFTHCA_CLOCK=virtual");
    return reinterpret_cast<Function*>(found);
}

// A number that a variable of the environment has.
uint32_t number_in(const char* variable, uint64_t otherwise) {
    const char* value = std::getenv(variable);
    return static_cast<uint32_t>(value == nullptr ? otherwise : std::strtoul(value, nullptr, 10));
}
uint32_t positive_in(const char* variable, uint32_t otherwise) {
    const uint32_t number = number_in(variable, otherwise);
    if (number == 0) throw Failure(std::string(variable) + " is no rate");
    return number;
}

uint64_t ticks() {
    const uint64_t counted = virtual_clock->now - left_out_ns;
    return static_cast<uint64_t>(static_cast<double>(counted) * kGigahertz);
}

}  // namespace

Machine::Machine(const VerbsCosts& costs)
    : clock_(device_function<softhca_virtual_clock_function>("softhca_virtual_clock")()),
      member_(device_function<softhca_virtual_member_function>("softhca_virtual_member")),
      peek_(device_function<softhca_virtual_peek_function>("softhca_virtual_peek")),
      step_(device_function<softhca_virtual_step_function>("softhca_virtual_step")),
      waits_(device_function<softhca_virtual_waits_function>("softhca_virtual_waits")),
      copy_bandwidth_(positive_in(kCopyVariable, kCopyBandwidth)) {
    if (clock_ == nullptr) throw Failure("the software HCA's time is real: SOFTHCA_CLOCK=virtual");
    *clock_ = {.now = kStart,
               .post = costs.post,
               .request = costs.request,
               .block = number_in(kBlockVariable, costs.block),
               .receive = costs.receive,
               .poll = costs.poll,
               .completion = costs.completion,
               .polls = 0,
               .posts = 0,
               .requests = 0};
    instruction_rate = positive_in(kInstructionsVariable, kInstructionRate);
    virtual_clock = clock_;
    counter_traps_ = replace_counter(ticks);
    charge_copies(this);
}

Machine::~Machine() {
    charge_copies(nullptr);
    try {
        (void)replace_counter(nullptr);
    } catch (const Failure&) {
        // Then it was never virtual.
    }
    virtual_clock = nullptr;
}

void Machine::leave_out(uint64_t ns) {
    left_out_ns = ns;
}

void Machine::become(uint32_t rank) {
    let_threads_start(true);
    const int status = member_(rank);
    let_threads_start(false);
    if (status != 0) throw Failure("no device for rank " + std::to_string(rank));
}

void Machine::compute(const void* owner, uint64_t ns) {
    const uint64_t end = now() + ns;
    run_timers(*this, owner, end);
    set(end);
}

std::vector<softhca_inspect_usage> usages(uint32_t members) {
    char error[256] = {};
    const std::unique_ptr<softhca_inspect_fabric, void (*)(softhca_inspect_fabric*)> fabric(
        softhca_inspect_open(nullptr, error, sizeof error), softhca_inspect_close);
    if (fabric == nullptr) throw Failure(error);
    std::vector<softhca_inspect_usage> counted(members);
    for (uint32_t member = 0; member < members; ++member)
        if (softhca_inspect_member(fabric.get(), member, &counted[member], error, sizeof error) !=
            0)
            throw Failure(error);
    return counted;
}

}  // namespace bench::sim

// Replaces the C library's for this program and all libraries in it.
extern "C" __attribute__((visibility("default"))) int clock_gettime(clockid_t clock,
                                                                    timespec* time) noexcept {
    using Function = int (*)(clockid_t, timespec*);
    if (bench::sim::virtual_clock == nullptr || clock == CLOCK_REALTIME) {
        static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "clock_gettime"));
        return real(clock, time);
    }
    const uint64_t now = bench::sim::read_clock();
    time->tv_sec = static_cast<time_t>(now / 1'000'000'000);
    time->tv_nsec = static_cast<long>(now % 1'000'000'000);
    return 0;
}
