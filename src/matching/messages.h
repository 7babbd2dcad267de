// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

namespace tern {

// What frames of kind kTag carry, by the id in their word. All begin with the tag; little endian as
// everything on the wire.
enum class TagFrameId : uint32_t {
    kEager = 0,            // an EagerHeader, then the message
    kEagerImmediate = 1,   // an ImmediateHeader, then the message
    kRequest = 2,          // a RequestHeader, then a header of the user's
    kSoftwareRequest = 3,  // an EagerHeader, then a header of the user's: who moves it is the user
};

// In the id, beside one of those: a WireMark comes before the header.
inline constexpr uint32_t kMarkedTagFrame = 8;

// Messages of a tuple are numbered, those that go direct and those that do not.
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

// A request to send: a message that is to be fetched from the sender's memory.
struct RequestHeader {
    uint64_t tag = 0;
    uint64_t operation = 0;  // the sender's name of it, for TagFinish
    uint64_t address = 0;
    uint64_t length = 0;
    std::byte key[16] = {};  // to that memory, as keys are packed
};

// Control frames of tagged messages.
enum class TagControlId : uint32_t {
    kFinish = 16,  // receiver to sender: a TagFinish
};

// The message of a request has been taken, or will never be.
struct TagFinish {
    static constexpr uint32_t kTaken = 0;
    static constexpr uint32_t kFailed = 1;

    uint64_t operation = 0;
    uint32_t result = kTaken;
    uint32_t reserved = 0;
};

static_assert(sizeof(WireMark) == 8 && sizeof(EagerHeader) == 8 && sizeof(ImmediateHeader) == 16);
static_assert(sizeof(RequestHeader) == 48 && sizeof(TagFinish) == 16);

}  // namespace tern
