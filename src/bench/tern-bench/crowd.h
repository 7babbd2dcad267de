// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/tern-bench/member.h"
#include "bench/tern-bench/pair.h"
#include "bench/tern-bench/process.h"

namespace bench {

// One process in the middle and a number of peers that it has endpoints to.
class Crowd {
  public:
    // Starts them and makes the endpoints, both ways. `environment` is for the one in the middle.
    Crowd(const Arm& arm, const Setup& setup, uint32_t peers, const Environment& environment);
    ~Crowd();
    Crowd(const Crowd&) = delete;
    Crowd& operator=(const Crowd&) = delete;

    // The middle and the first `peers` peers send each other messages, in turn, `rounds` times
    // `count`.
    void talk(uint32_t peers, uint32_t size, uint64_t rounds, uint64_t count);
    pid_t middle() const { return members_.front().process.pid(); }
    // Ends all; throws Failure if one fails.
    void finish();

  private:
    struct MemberProcess {
        Descriptor control;
        Process process;
        IfaceAddress address = {};
    };
    MemberProcess start(const Arm& arm, const Setup& setup, const Environment& environment);
    void send(MemberProcess& member, const MemberOrder& order);
    MemberReply receive(MemberProcess& member);
    void connect(uint32_t peer);

    const std::string name_;
    std::vector<MemberProcess> members_;  // the first one is in the middle
};

}  // namespace bench
