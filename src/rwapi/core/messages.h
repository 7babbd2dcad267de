// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "common/repeated_message.h"
#include "rwapi/core/key.h"
#include "rwapi/include/rwapi.h"

namespace rwapi {

// Ids of active messages. Every message begins with a Header, the 8 bytes that UCT calls header.
enum MessageId : uint8_t {
    kSmallMessage = 1,     // Header, rwapi_small
    kNotificationMessage,  // Header, Notification
    kCreditMessage,        // Header
    kKeyRequest,           // Header, name of a region (8 bytes)
    kKeyAnswer,            // Header, name, and the key if there is such a region
    kWireupMessage,        // Header, incarnation, endpoint address; on the wireup interface
    kStaleRegion,          // Header, name of a removed region for which a notification came
    kGoodbye,              // Header: the sender is ending its context, and sends nothing any more
    // 9 is UCP's request to send, which Tern looks into.
    kGatheredPart = 10,  // Header, GatheredPart, and the items of the part: addresses with keys
    kMessageIds
};

struct Header {
    uint32_t node;    // the sender
    uint16_t credit;  // units of credit that the sender returns
    // Of a notification. kWireupMessage: 1 if the sender's side is connected. kGatheredPart: 1 if
    // addresses are missing.
    uint8_t kind;
    uint8_t zero;

    uint64_t pack() const {
        uint64_t word;
        std::memcpy(&word, this, sizeof word);
        return word;
    }
};
static_assert(sizeof(Header) == 8);

enum class NotificationKind : uint8_t { kNone, kSet, kAdd, kSlot };
inline constexpr size_t kNotificationKinds = 4;
constexpr bool is_signal(NotificationKind kind) {
    return kind == NotificationKind::kSet || kind == NotificationKind::kAdd;
}

// The notification of a write, with all that the target needs to apply it.
struct Notification {
    uint64_t region;  // its handle at the owner
    uint64_t bytes;   // of the write
    uint64_t place;   // offset of the word, or number of the slot
    uint64_t value;
};
static_assert(sizeof(Notification) == 32);
// What lets Tern send a notification that comes again in one work request with its data.
static_assert(sizeof(Header) + sizeof(Notification) == tern::repeated_message::kBytes);
static_assert(sizeof(Header) + offsetof(Notification, value) ==
              tern::repeated_message::kValue * sizeof(uint64_t));

// A part of what a step of a barrier or of a gathering of addresses sends.
struct GatheredPart {
    uint64_t number;  // of the gathering, from 1
    uint32_t first;   // address of the part, within the step
    uint8_t step;
    uint8_t last;  // 1: nothing follows in this step
    uint8_t zero[2];
};
static_assert(sizeof(GatheredPart) == 16);

template <class T>
std::span<const std::byte> bytes_of(const T& object) {
    return std::as_bytes(std::span(&object, 1));
}

// What is at this place of a message, which is long enough.
template <class T>
T read_at(std::span<const std::byte> message, size_t place) {
    T found;
    std::memcpy(&found, message.data() + place, sizeof found);
    return found;
}
inline uint32_t node_at(std::span<const std::byte> message) {
    return read_at<uint32_t>(message, offsetof(Header, node));
}
inline NotificationKind kind_at(std::span<const std::byte> message) {
    return read_at<NotificationKind>(message, offsetof(Header, kind));
}
// Each member is read for itself, which leaves them in registers.
inline Notification notification_at(std::span<const std::byte> message) {
    const auto word = [=](size_t place) {
        return read_at<uint64_t>(message, sizeof(Header) + place);
    };
    return {word(offsetof(Notification, region)), word(offsetof(Notification, bytes)),
            word(offsetof(Notification, place)), word(offsetof(Notification, value))};
}

// Copies the Header and the body of a message. False: the message has another length.
template <class Body>
bool parse(std::span<const std::byte> message, Header& header, Body& body) {
    if (message.size() != sizeof header + sizeof body) return false;
    std::memcpy(&header, message.data(), sizeof header);
    std::memcpy(&body, message.data() + sizeof header, sizeof body);
    return true;
}

// The start of the address that a process publishes. Four parts follow, whose lengths it has: the
// addresses of the device and of the interface, and the same of the wireup interface.
struct AddressHeader {
    static constexpr uint32_t kMagic = 0x35415752;  // "RWA5"

    uint32_t magic;
    uint32_t slots;
    uint64_t incarnation;
    uint16_t credit;
    std::array<uint8_t, 4> lengths;
    uint8_t zero[2];
    std::array<char, 16> transport;
};
static_assert(sizeof(AddressHeader) == 40);

}  // namespace rwapi
