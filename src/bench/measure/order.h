// SPDX-License-Identifier: BSD-3-Clause
// The orders of workers, and the addresses of the messages that they exchange.
#pragma once

#include <cstdint>

namespace bench {

// One task for the two workers of a pair. Plain data.
struct Order {
    enum class Kind : uint8_t {
        kWrites,    // round trips of RDMA writes
        kMessages,  // round trips of messages
        kStream,    // bursts
        // Verbs: streams of writes, registrations and deregistrations, and posts.
        kSpacings,
        kPinnings,
        kPosts,
        kQuit
    };
    // kSignal: a write, and a word behind it that the target waits for.
    // Of rwapi alone: kPut, a write without notification, whose data the target waits for.
    enum class Request : uint8_t { kWrite, kSignal, kPut };

    Kind kind = Kind::kMessages;
    uint32_t size = 8;
    uint64_t count = 0;
    uint64_t per_sample = 1;            // round trips, or messages of a burst, for each sample
    bool one_sided = false;             // needs no processor time of the answering worker
    bool reaps = false;                 // kWrites, kStream: takes completions meanwhile
    Request request = Request::kWrite;  // of rwapi

    // The number of round trips, which make up whole samples.
    uint64_t trips() const { return count / per_sample * per_sample; }
    // How many places messages have (place_of()), for whatever is compared, so that all touch as
    // much memory: one may be on its way while the one before is looked at, of a burst many are.
    uint32_t places() const { return kind == Kind::kStream ? 64 : 2; }
};

// The size of the longest message that is measured, and of the memory for one direction's buffers.
constexpr uint64_t kLongest = uint64_t{16} << 20;

}  // namespace bench
