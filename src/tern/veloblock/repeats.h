// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "common/repeated_message.h"
#include "tern/base/tunables.h"
#include "tern/veloblock/frame.h"

namespace tern {

// Messages that announce a put, and come again and again with the same words but for a value that
// grows slowly. The sender gives such a message a number (RepeatFrame). From then on the put is a
// write with immediate data, which stands for the message, and for a cold frame in the order of
// frames:
//
//   bits  0..8   by how much the value is higher than that of the last such write, or of the frame
//   bits  9..14  the number
//   bit  15      1; it is 0 in immediate data of blocks and of transfers
//   bits 16..31  sequence: see Word
namespace repeat {

inline constexpr uint32_t kNumbers = 64;  // of each direction
inline constexpr uint32_t kMostHigher = 511;

using Words = std::array<uint64_t, repeated_message::kWords>;
inline constexpr size_t kValue = repeated_message::kValue;
inline constexpr uint32_t kBytes = sizeof(Words);
static_assert(kBytes == repeated_message::kBytes && kValue == 4);  // same() compares four words

constexpr uint32_t immediate(uint32_t number, uint32_t higher, uint16_t sequence) {
    return uint32_t{sequence} << 16 | 1u << 15 | number << 9 | higher;
}
constexpr bool is_repeat(uint32_t immediate) {
    return (immediate >> 15 & 1) != 0;
}
constexpr uint16_t sequence(uint32_t immediate) {
    return static_cast<uint16_t>(immediate >> 16);
}

}  // namespace repeat

// A control frame: gives a number to an active message. It replaces the message that had the
// number before.
struct RepeatFrame {
    uint32_t number = 0;
    uint32_t id = 0;  // of the active message
    repeat::Words words{};

    bool valid() const { return number < repeat::kNumbers && id <= Word::kMaxId; }
};
static_assert(sizeof(RepeatFrame) == 48);

// The sender's table. The place of a message is its number, so two that share a place take turns.
class SentRepeats {
  public:
    SentRepeats() = default;
    SentRepeats(const SentRepeats&) = delete;
    SentRepeats& operator=(const SentRepeats&) = delete;

    // What has come to a place last.
    struct alignas(64) Place {
        repeat::Words words{};  // the value: that of the receiver, once the message has the number
        uint32_t id = UINT32_MAX;
        uint16_t seen = 0;               // so often, one after the other
        uint16_t needed = kRepetitions;  // so often before it gets the number
        bool numbered = false;

        // By how much the value is higher than that of the receiver. More than kMostHigher: it is
        // another message, or has no number.
        [[gnu::always_inline]] uint64_t higher(uint32_t other_id,
                                               const repeat::Words& other) const {
            return numbered && same(other_id, other) ? other[repeat::kValue] - words[repeat::kValue]
                                                     : UINT64_MAX;
        }
        [[gnu::always_inline]] bool same(uint32_t other_id, const repeat::Words& other) const {
            return ((words[0] ^ other[0]) | (words[1] ^ other[1]) | (words[2] ^ other[2]) |
                    (words[3] ^ other[3]) | (id ^ other_id)) == 0;
        }
    };

    // The place of the message that was sent last, if it is this one; else as place_of().
    [[gnu::always_inline]] Place& likely_place_of(uint32_t id, const repeat::Words& words) {
        if (last_->same(id, words)) [[likely]]
            return *last_;
        return *(last_ = &place_of(words));
    }
    [[gnu::always_inline]] Place& place_of(const repeat::Words& words) {
        const uint64_t sum = words[0] + words[1] + words[2] * 9 + words[3] * 5;
        return places_[sum * 0x9e3779b97f4a7c15ull >> (64 - std::bit_width(repeat::kNumbers - 1))];
    }
    uint32_t number_of(const Place& place) const {
        return static_cast<uint32_t>(&place - places_.data());
    }

    // A message that has no number is about to be sent. True: it has come often enough to get one;
    // call give_number() when the receiver has been told.
    static bool learn(Place& place, uint32_t id, const repeat::Words& words) {
        const bool again =
            place.same(id, words) &&
            words[repeat::kValue] - place.words[repeat::kValue] <= repeat::kMostHigher;
        place.seen = again ? static_cast<uint16_t>(place.seen + 1) : uint16_t{1};
        place.id = id;
        place.words = words;
        place.numbered = false;
        return place.seen >= place.needed;
    }
    // Messages that change places, or values that jump, need ever more repetitions, so that their
    // frames cost little.
    static void give_number(Place& place) {
        place.numbered = true;
        if (place.needed < kMostRepetitions) place.needed = static_cast<uint16_t>(place.needed * 2);
    }
    // A write with immediate data has told the receiver that the value is so much higher.
    static void sent(Place& place, uint64_t higher) { place.words[repeat::kValue] += higher; }

  private:
    std::array<Place, repeat::kNumbers> places_{};
    Place* last_ = places_.data();
};

// The receiver's table.
class ReceivedRepeats {
  public:
    struct Message {
        repeat::Words words{};
        uint32_t id = UINT32_MAX;  // none
    };

    // False: the frame is malformed.
    bool define(const RepeatFrame& frame) {
        if (!frame.valid()) return false;
        messages_[frame.number] = {frame.words, frame.id};
        return true;
    }
    // The message for which this immediate data stands, until the next call. Null: none has the
    // number.
    [[gnu::always_inline]] const Message* take(uint32_t immediate) {
        Message& message = messages_[immediate >> 9 & (repeat::kNumbers - 1)];
        if (message.id > Word::kMaxId) [[unlikely]]
            return nullptr;
        message.words[repeat::kValue] += immediate & repeat::kMostHigher;
        return &message;
    }

  private:
    std::array<Message, repeat::kNumbers> messages_{};
};

}  // namespace tern
