// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

// The payloads of frames of kind kTag, by the id in the frame's word. All headers begin with the
// tag. All integers on the wire are little endian.
enum class TagFrameId : uint32_t {
    kEager = 0,            // an EagerHeader, then the message
    kEagerImmediate = 1,   // an ImmediateHeader, then the message
    kRequest = 2,          // a RequestHeader, then the user's header
    kSoftwareRequest = 3,  // an EagerHeader, then the user's header; the user moves the data
};

// A flag in the id: a WireMark precedes the header.
inline constexpr uint32_t kMarkedTagFrame = 8;

// The number of an ordinary message of a tuple; ordinary and direct messages share one sequence.
struct WireMark {
    uint16_t tuple = 0;
    uint16_t sequence = 0;
    uint32_t reserved = 0;
};

struct EagerHeader {
    uint64_t tag = 0;
};

struct ImmediateHeader {
    uint64_t tag = 0;
    uint64_t immediate = 0;  // not 0
};

// A request to send: the receiver fetches the message from the sender's memory.
struct RequestHeader {
    uint64_t tag = 0;
    uint64_t operation = 0;  // the sender's id of the operation, returned in TagFinish
    uint64_t address = 0;
    uint64_t length = 0;
    std::byte key[16] = {};  // of that memory, packed
};

// Control frames of tagged messages.
enum class TagControlId : uint32_t {
    kFinish = 16,  // receiver to sender: a TagFinish
    kPause = 17,   // receiver to sender: a TagPause
};

// The receiver has fetched the message of a request, or never will.
struct TagFinish {
    static constexpr uint32_t kTaken = 0;
    static constexpr uint32_t kFailed = 1;

    uint64_t operation = 0;
    uint32_t result = kTaken;
    uint32_t reserved = 0;
};

// The receiver holds many messages of the sender until it knows which receives are theirs.
struct TagPause {
    uint32_t pause = 0;  // 1: send no message until further notice; 0: go on
    uint32_t reserved = 0;

    bool valid() const { return pause <= 1 && reserved == 0; }
};

static_assert(sizeof(WireMark) == 8 && sizeof(EagerHeader) == 8 && sizeof(ImmediateHeader) == 16);
static_assert(sizeof(RequestHeader) == 48 && sizeof(TagFinish) == 16);
static_assert(sizeof(TagPause) == 8);

}  // namespace tern
