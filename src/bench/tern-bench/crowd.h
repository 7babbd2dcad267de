// SPDX-License-Identifier: BSD-3-Clause
// A process with many peers.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/series/worker.h"
#include "bench/tern-bench/uct_iface.h"

namespace bench {

// One process in the middle and a number of peers that it has endpoints to.
class Crowd {
  public:
    // Starts them and makes the endpoints, both ways.
    Crowd(const Arm& arm, const Setup& setup, uint32_t peers);
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    // The middle and the first `peers` peers send each other messages, in turn, `rounds` times
    // `count`.
    void talk(uint32_t peers, uint32_t size, uint64_t rounds, uint64_t count);
    pid_t middle() const { return members_.front().process.pid(); }
    // Ends all; throws Failure if one fails.
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

// The command line of a member: this word, and the descriptor through which its orders come.
constexpr const char* kMemberCommand = "member";

// A process with one interface, that makes endpoints and talks over them as it is told. It sleeps
// between orders. Returns the exit status.
int member_main(const char* descriptor);

}  // namespace bench
