// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tern {

enum class FrameKind : uint8_t {
    kActiveMessage = 0,  // payload for the active message handler `id`
    kWrap = 1,           // no payload: the next frame is at the block's high end
    kControl = 2,        // a control frame, described by `id` (ControlId); always sent cold
    kTag = 3,            // payload for the layer that matches tags, described by `id`
    kBatch = 4,          // messages of kinds kActiveMessage and kTag: see BatchEntry
};

// The `id` argument of Engine's send functions for a frame of kind kTag: kind and id in one.
constexpr uint32_t tag_message(uint32_t id) {
    return static_cast<uint32_t>(FrameKind::kTag) << 5 | id;
}

// The 8-byte word that describes a frame: its tail in a block, its head in a shared receive buffer
// (Veloblock, section 5.2). Its last byte is never 0, and the device places the last byte last. A
// reader therefore waits for that byte, even if the device places the word byte by byte.
//
//   bits  0..15  payload length in bytes
//   bits 16..20  active message id
//   bits 21..23  kind
//   bits 24..39  credit: how much the sender of this frame has freed of the block that it reads, in
//                units of kUnit bytes, counted since that block was offered, modulo 2^16
//   bits 40..55  sequence: the number of frames sent by the other path before this one, modulo 2^16
//   bits 56..61  round: how often the frames of the block have filled it from high to low before,
//                modulo 64; 0 in a receive buffer
//   bit  62      last: the next frame is at the block's high end; 0 in a receive buffer
//   bit  63      1
class Word {
  public:
    static constexpr uint32_t kUnit = 8;
    static constexpr uint32_t kMaxLength = 0xffff;
    static constexpr uint32_t kMaxId = 31;
    static constexpr uint32_t kRounds = 64;

    constexpr Word() = default;
    constexpr explicit Word(uint64_t raw) : raw_(raw) {}
    constexpr Word(FrameKind kind, uint32_t id, uint32_t length, uint16_t credit, uint16_t sequence)
        : Word(Word(uint64_t{sequence} << 40 | uint64_t{1} << 63).with(kind, id, length, credit)) {}

    // This word with the parts that differ between the frames of a path; they are 0 in this one.
    constexpr Word with(FrameKind kind, uint32_t id, uint32_t length, uint16_t credit) const {
        return Word(raw_ | uint64_t{length} | uint64_t{id} << 16 |
                    uint64_t{static_cast<uint8_t>(kind)} << 21 | uint64_t{credit} << 24);
    }

    // This word with the credit for `freed` bytes in all, modulo 2^16 units; it is 0 in this one.
    constexpr Word with_freed(uint32_t freed) const {
        constexpr uint32_t kCounted = 0xffff * kUnit;
        return Word(raw_ | uint64_t{freed & kCounted} * ((1u << 24) / kUnit));
    }

    // This word with a round, which is 0 in this one.
    constexpr Word in_round(uint32_t round) const {
        return Word(raw_ | uint64_t{round % kRounds} << 56);
    }
    constexpr Word as_last() const { return Word(raw_ | kLast); }
    // This word with a length, which is 0 in this one.
    constexpr Word with_length(uint32_t length) const { return Word(raw_ | length); }
    // This word with the next sequence.
    constexpr Word following() const {
        constexpr uint64_t kSequence = uint64_t{0xffff} << 40;
        return Word(raw_ ^ ((raw_ ^ (raw_ + (uint64_t{1} << 40))) & kSequence));
    }

    constexpr uint64_t raw() const { return raw_; }
    constexpr uint32_t length() const { return raw_ & 0xffff; }
    constexpr uint32_t id() const { return raw_ >> 16 & 0x1f; }
    constexpr FrameKind kind() const { return static_cast<FrameKind>(raw_ >> 21 & 7); }
    constexpr uint16_t credit() const { return static_cast<uint16_t>(raw_ >> 24); }
    constexpr uint16_t sequence() const { return static_cast<uint16_t>(raw_ >> 40); }

    constexpr bool present() const { return raw_ >> 63 != 0; }
    constexpr bool last() const { return (raw_ & kLast) != 0; }
    // Whether this is well formed, is not the last one, is of that round, and its kind is
    // kActiveMessage. By one compare, for most frames.
    constexpr bool is_active_message(uint32_t round) const {
        constexpr uint64_t kFixed = uint64_t{0xff} << 56 | kKind;
        return (raw_ & kFixed) == (uint64_t{1} << 63 | uint64_t{round % kRounds} << 56);
    }
    // is_active_message() of a word that look() has found well formed.
    constexpr bool is_usual() const { return (raw_ & (kLast | kKind)) == 0; }
    // Whether this differs from `other` in nothing but its id and length.
    constexpr bool is_like(Word other) const { return (raw_ ^ other.raw_) >> 21 == 0; }
    // Whether the fixed bits, the round and the kind are valid. Does not check the length.
    constexpr bool well_formed(uint32_t round) const {
        return (raw_ & ~kLast) >> 56 == (0x80 | round % kRounds) && (raw_ >> 21 & 7) <= 4;
    }
    // Whether the word is valid in a receive buffer.
    constexpr bool well_formed() const { return well_formed(0) && !last(); }

  private:
    static constexpr uint64_t kLast = uint64_t{1} << 62;
    static constexpr uint64_t kKind = uint64_t{7} << 21;

    uint64_t raw_ = 0;
};

template <std::unsigned_integral T>
constexpr T padded(T length) {
    return (length + Word::kUnit - 1) & ~T{Word::kUnit - 1};
}

// Frames in a block end at multiples of so many bytes: only there the reader looks for words, and
// only these words need be clear before a frame is written. With less, the reader clears more words
// of a long frame. With more, short frames take more of the block, so that more credit goes back:
// with 64, a receiver of 16 bytes needs 15 instructions more for each.
inline constexpr uint32_t kStep = 32;

// Bytes of a block that a frame with a payload of `length` bytes takes.
template <std::unsigned_integral T>
constexpr T in_steps(T length) {
    return (length + Word::kUnit + kStep - 1) & ~T{kStep - 1};
}

// Limits of a block's size, in bytes.
inline constexpr uint32_t kMinBlock = 512;
inline constexpr uint32_t kMaxBlock = 256 * 1024 - kStep;

// A reader returns credit by frames, or by a write to the writer's credit word. The writer may find
// the word changed before it handles frames that were sent earlier, and their credit, modulo 2^16,
// must not look new. So the reader writes the word only while it is ahead of the last frame's
// credit by less than kFrameDue bytes, and the writer takes no credit from the word that is ahead
// of the last handled frame's by more than kMostAhead: that and a whole block are less than 2^16
// units.
inline constexpr uint32_t kFrameDue = 0x5000 * Word::kUnit;
inline constexpr uint32_t kMostAhead = 0x7000 * Word::kUnit;
static_assert(kFrameDue < kMostAhead && kMostAhead + kMaxBlock < (1u << 16) * Word::kUnit);

// A frame of kind kBatch has a payload of messages, one behind the other: each is an entry of 8
// bytes, with length, kind and id as in a word, and its payload, padded to 8.
class BatchEntry {
  public:
    static constexpr uint32_t kBytes = sizeof(Word);

    // Bytes of a message of `length` bytes.
    static constexpr uint32_t space(uint32_t length) { return kBytes + padded(length); }
    // `id`: of an active message, or the value of tag_message().
    static constexpr Word make(uint32_t id, uint32_t length) {
        return Word().with(FrameKind::kActiveMessage, id, length, 0);
    }
    // The first entry of a payload of which `left` bytes are left. False: it is malformed.
    static bool read(const std::byte* payload, uint32_t left, Word& entry) {
        if (left < kBytes) return false;
        entry = Word(*reinterpret_cast<const uint64_t*>(payload));
        const bool of_message =
            entry.kind() == FrameKind::kActiveMessage || entry.kind() == FrameKind::kTag;
        return entry.raw() >> 24 == 0 && of_message && space(entry.length()) <= left;
    }
};

// Ids of control frames. The ids below kFirstTransfer manage the block that the receiver of a
// direction ("reader") offers to its sender ("writer").
enum class ControlId : uint32_t {
    kCredit = 0,         // either way: no payload, only the credit in the word
    kOffer = 1,          // reader to writer: a BlockOffer
    kRevoke = 2,         // reader to writer: release the block
    kRelease = 3,        // writer to reader: a Release; the writer no longer uses the block
    kWriterWords = 4,    // writer to reader: a WordsAddress; only after an offer
    kCreditRequest = 5,  // writer to reader, no payload: it will sleep until a frame brings credit
    kAllowance = 6,      // receiver to sender: an AllowanceFrame
    kRepeat = 7,         // sender to receiver: a RepeatFrame (repeats.h)
    kFirstTransfer = 8,  // the first id of the rendezvous
    kFirstTag = 16,      // the first id of tagged messages
};

// Payloads of control frames. All integers on the wire are little endian.
struct BlockOffer {
    // The writer must write with immediate data, since the reader does not poll its memory.
    static constexpr uint32_t kNotify = 1;

    uint64_t address = 0;  // of the block's low end, a multiple of kStep
    uint32_t rkey = 0;
    uint32_t size = 0;  // bytes, a multiple of kStep
    uint32_t most = 0;  // bytes; the largest block that the reader offers
    uint32_t flags = 0;

    bool valid() const {
        return address != 0 && address % kStep == 0 && size % kStep == 0 && size >= kMinBlock &&
               size <= kMaxBlock && (flags & ~kNotify) == 0;
    }
};

struct Release {
    uint32_t requested_bytes = 0;  // of the next block; 0: none
    uint32_t reserved = 0;
};

// Where the writer's words are, which the reader writes: 4 bytes to request or stop notification of
// writes into its block, and 4 bytes of credit.
struct WordsAddress {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t reserved = 0;

    bool valid() const { return address != 0 && address % sizeof(uint64_t) == 0 && reserved == 0; }
};

// How many cold messages the receiver of this frame may send.
struct AllowanceFrame {
    uint32_t limit = 0;  // since the connection began, modulo 2^16
    uint32_t reserved = 0;

    bool valid() const { return limit <= UINT16_MAX && reserved == 0; }
};

static_assert(sizeof(BlockOffer) == 24 && sizeof(Release) == 8 && sizeof(WordsAddress) == 16 &&
              sizeof(AllowanceFrame) == 8);

inline constexpr uint32_t kMaxControl = 80;  // bytes of payload in the longest control frame

}  // namespace tern
