// SPDX-License-Identifier: BSD-3-Clause
// A process with many peers.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/series/worker.h"
#include "bench/tern-bench/uct_iface.h"

namespace bench {

// One process in the middle, with endpoints to a number of peers.
class Crowd {
  public:
    // Starts the processes and makes the endpoints in both directions.
    Crowd(const Arm& arm, const Setup& setup, uint32_t peers);
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    // The middle exchanges `count` messages with each of the first `peers` peers in turn, `rounds`
    // times.
    void talk(uint32_t peers, uint32_t size, uint64_t rounds, uint64_t count);
    pid_t middle() const { return members_.front().process.pid(); }
    // Ends all processes. Throws Failure if one fails.
    void finish();

  private:
    struct Member {
        Channel control;
        Process process;
        IfaceAddress address = {};
    };
    Member start(const Arm& arm, const Setup& setup);
    void connect(Member& other, uint32_t endpoint);

    std::vector<Member> members_;  // the first one is in the middle
};

// The command line of a member has this word and the descriptor for its orders.
constexpr const char* kMemberCommand = "member";

// Runs a process with one interface. It makes endpoints and exchanges messages as ordered, and
// sleeps between orders. Returns the exit status.
int member_main(const char* descriptor);

}  // namespace bench
