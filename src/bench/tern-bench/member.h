// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "bench/tern-bench/uct_iface.h"

namespace bench {

// First word of a member's command line: "member TRANSPORT DEVICE DESCRIPTOR".
constexpr const char* kMemberCommand = "member";

// What a member of a crowd is told to do, and how it answers. Plain data.
struct MemberOrder {
    enum class Kind : uint8_t { kCreate, kConnect, kAsk, kAnswer, kQuit };

    Kind kind = Kind::kQuit;
    uint32_t endpoint = 0;
    uint64_t count = 0;            // kAsk, kAnswer: round trips
    uint32_t size = 0;             // kAsk, kAnswer: of messages, cut to what the transport takes
    IfaceAddress iface = {};       // kCreate, kConnect
    EndpointAddress address = {};  // kConnect
};
struct MemberReply {
    bool ok = false;
    char text[256] = {};  // what went wrong
    bool needs_connecting = false;
    IfaceAddress iface = {};       // before the first order
    EndpointAddress address = {};  // to kCreate
};

// A process with one interface, that makes endpoints and talks over them as it is told. It sleeps
// between orders. Returns the exit status.
int member_main(int argc, char** argv);

}  // namespace bench
