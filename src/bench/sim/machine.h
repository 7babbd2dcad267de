// SPDX-License-Identifier: BSD-3-Clause
// The simulated machine: the clock that everything in this process reads, and the software HCA in
// virtual time.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/sim/costs.h"
#include "softhca/core/virtual_time.h"
#include "softhca/inspect/inspect.h"

namespace bench::sim {

// Variables of the environment with the bandwidth of copies, the time of a block of a request in
// ns, and the instructions of a ns; without one: the default.
constexpr const char* kCopyVariable = "TERN_SIM_COPY";
constexpr const char* kBlockVariable = "TERN_SIM_BLOCK";
constexpr const char* kInstructionsVariable = "TERN_SIM_INSTRUCTIONS";

// One for the process. While it exists, virtual time is what all of the process reads: the software
// HCA has it from this class; programs and libraries that call clock_gettime() get it, because this
// program defines that function; and an instruction that reads the processor's time-stamp counter
// traps. So the transports are simulated as they are, and need no clock of their own.
class Machine {
  public:
    // Throws Failure if the device's time is real, or the processor's counter cannot be virtual.
    explicit Machine(const VerbsCosts& costs);
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    // The clock of the rank that runs.
    uint64_t now() const { return clock_->now; }
    void set(uint64_t time) { clock_->now = time; }
    // Time that the processor's time-stamp counter leaves out from now on: that of polls which are
    // not simulated. A transport that measures the time between two polls must not notice.
    void leave_out(uint64_t ns);
    // Whether that counter is virtual for UCX too, not for Tern only.
    bool counter_traps() const { return counter_traps_; }
    void spend(uint64_t ns) { clock_->now += ns; }
    // Spends what the processor needs to copy so much.
    void copy(uint64_t bytes) { spend(copy_time(bytes)); }
    // In ns.
    uint64_t copy_time(uint64_t bytes) const { return copy_ns(bytes, copy_bandwidth_); }
    // Polls of completion queues so far.
    uint64_t polls() const { return clock_->polls; }
    // Calls that post so far, and the work requests that they have posted.
    uint64_t posts() const { return clock_->posts; }
    uint64_t requests() const { return clock_->requests; }

    // Devices that are opened from now on belong to the rank.
    void become(uint32_t rank);
    // The owner of timers computes for so long. They expire meanwhile, on another processor.
    void compute(const void* owner, uint64_t ns);
    // What happens next. False: nothing, before a rank does something.
    bool peek(softhca_virtual_event* event) const { return peek_(event) != 0; }
    // The device does that.
    void step() { step_(); }
    // Whether the member of the fabric can poll a completion now.
    bool has_completion(uint32_t member) const { return waits_(member) != 0; }

  private:
    softhca_virtual_time* clock_;
    softhca_virtual_member_function* member_;
    softhca_virtual_peek_function* peek_;
    softhca_virtual_step_function* step_;
    softhca_virtual_waits_function* waits_;
    uint32_t copy_bandwidth_;
    bool counter_traps_ = false;
};

// Whether a send has gone with others: it has posted nothing, and looked at nothing.
class SendAppended {
  public:
    explicit SendAppended(const Machine& machine)
        : machine_(machine), posts_(machine.posts()), polls_(machine.polls()) {}
    explicit operator bool() const {
        return machine_.posts() == posts_ && machine_.polls() == polls_;
    }

  private:
    const Machine& machine_;
    uint64_t posts_;
    uint64_t polls_;
};

// timers.cc: timers that are made from now on belong to `owner`, of which there may be several.
void own_timers(const void* owner);
// Lets the timers of the owner expire that are due until then.
void run_timers(Machine& machine, const void* owner, uint64_t until);

// What the device counts for each of the first members of its fabric. Throws Failure.
std::vector<softhca_inspect_usage> usages(uint32_t members);

// The parts of the machine, each of which replaces functions for this program and all libraries in
// it.

// copies.cc: from now on, copies take the time of this machine; null: none.
void charge_copies(Machine* to);
// alone.cc, which also has random numbers that are the same in each run, and the machine's clock
// rate: the device's threads may be started, and no others, which would run by the machine's time.
// Threads start before the first call.
void let_threads_start(bool let);
// counter.cc: from now on, who reads the processor's time-stamp counter in this thread gets what
// `ticks` returns; null: the counter again. False: only Tern gets that, and UCX reads the counter.
// Throws Failure where neither is possible.
bool replace_counter(uint64_t (*ticks)());

}  // namespace bench::sim
