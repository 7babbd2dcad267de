// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rwapi/core/key.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// Ids of active messages. Every message begins with a Header, which is UCT's 8 bytes.
enum MessageId : uint8_t {
    kSmallMessage = 1,  // Header, rwapi_small
    kNoticeMessage,     // Header, Notice
    kCreditMessage,     // Header
    kKeyRequest,        // Header, name of a region (8 bytes)
    kKeyAnswer,         // Header, name, then the key, or nothing: there is no such region
    kWireMessage,       // Header, incarnation, endpoint address (on the wiring interface)
    kRefusal,           // Header, name of a region that a notice was for, and that has gone
    kMessageIds
};

struct Header {
    uint32_t node;    // the sender
    uint16_t credit;  // small messages that it has received
    uint8_t kind;     // of a notice; for kWireMessage: whether the sender's side is connected
    uint8_t zero;

    uint64_t pack() const {
        uint64_t word;
        std::memcpy(&word, this, sizeof word);
        return word;
    }
};
static_assert(sizeof(Header) == 8);

enum class NoticeKind : uint8_t { kNone, kSet, kAdd, kSlot, kCount };

// The notification of a write: all that the target needs.
struct Notice {
    uint32_t index;  // of the region
    uint32_t generation;
    uint64_t bytes;  // of the write
    uint64_t place;  // offset of the word, or number of the slot
    uint64_t value;
};
static_assert(sizeof(Notice) == 32);

// Takes a message apart: a Header and a body of this type, and nothing else. False: the length is
// not right.
template <class Body>
bool parse(std::span<const std::byte> message, Header& header, Body& body) {
    if (message.size() != sizeof header + sizeof body) return false;
    std::memcpy(&header, message.data(), sizeof header);
    std::memcpy(&body, message.data() + sizeof header, sizeof body);
    return true;
}

// The address that a process publishes: this, then four parts of the lengths given.
struct Greeting {
    static constexpr uint32_t kMagic = 0x31415752;  // "RWA1"

    uint32_t magic;
    uint32_t slots;
    uint64_t incarnation;
    uint16_t credit;
    uint8_t device_length;  // the device's address, then the interface's
    uint8_t interface_length;
    uint8_t wire_device_length;  // the same of the wiring interface
    uint8_t wire_interface_length;
    uint8_t zero[2];
    std::array<char, 16> transport;
};
static_assert(sizeof(Greeting) == 40);

}  // namespace rwapi
