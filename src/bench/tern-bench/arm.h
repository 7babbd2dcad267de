// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bench {

enum class Layer : uint8_t { kRaw, kUct, kUcp, kLarge, kProbe };

// One of the configurations that take turns: what a pair of worker processes runs, and in which
// environment.
struct Arm {
    std::string name;
    Layer layer = Layer::kRaw;
    // UCT: a transport. UCP: the value of UCX_TLS. Raw and probe: kind of memory, "private" or
    // "shared". Large: the protocol, and the kind of memory that the device writes to.
    std::string transport;
    bool preloads_tern = false;
    std::vector<std::pair<std::string, std::string>> environment = {};
    // The device's own thread takes no time from the process that is measured, as hardware does
    // not.
    bool device_apart = false;

    bool operator==(const Arm&) const = default;
};

// Where the messages of a ping-pong lie in memory.
enum class Buffers : uint8_t {
    kOne,     // always in the same buffer, with all that an order has sent before
    kReused,  // in one that was never used before, and then in that one again
    kFresh,   // each in one that was never used before
};

// What the workers are told to do.
struct Order {
    enum class Kind : uint8_t {
        kWrites,
        kSends,
        kMessages,
        kStream,
        kGoes,  // UCP: round trips of words that have nothing to do with messages
        // Nonblocking messages with work behind each; see overlapped.h:
        kAvailability,
        kOverhead,
        kArrivals,
        // Of the worker that measures alone:
        kCopies,
        kRegistrations,
        kPosts,
        kSpacings,
        kQuit
    };

    Kind kind = Kind::kMessages;
    uint32_t size = 8;
    uint64_t count = 0;
    uint64_t per_sample = 1;  // trips, or messages of a burst, behind one sample
    Buffers buffers = Buffers::kOne;
    bool sender = false;  // overlapped: who works is who sends
};

}  // namespace bench
