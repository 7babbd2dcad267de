// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::bench {

enum class Layer : uint8_t { kRaw, kUct, kUcp };

// One of the configurations that take turns: what a pair of worker processes runs, and in which
// environment.
struct Arm {
    std::string name;
    Layer layer = Layer::kRaw;
    // UCT: a transport. UCP: the value of UCX_TLS. Raw: kind of memory, "private" or "shared".
    std::string transport;
    bool preloads_tern = false;
    std::vector<std::pair<std::string, std::string>> environment = {};

    bool operator==(const Arm&) const = default;
};

// What the workers are told to do.
struct Order {
    enum class Kind : uint8_t { kWrites, kSends, kMessages, kStream, kQuit };

    Kind kind = Kind::kMessages;
    uint32_t size = 8;
    uint64_t count = 0;
    uint64_t per_sample = 1;  // trips, or messages of a burst, behind one sample
};

}  // namespace tern::bench
