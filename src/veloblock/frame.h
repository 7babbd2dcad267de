// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace tern {

// What a frame carries.
enum class FrameKind : uint8_t {
    kActiveMessage = 0,  // payload for the active message handler `id`
    kWrap = 1,           // no payload: the next frame is at the block's high end
    kControl = 2,        // a ControlMessage; never in a block
    kTag = 3,            // payload for the layer that matches tags; `id` says of what kind
};

// What sends take for an active message's id, of a frame of kind kTag.
constexpr uint32_t tag_message(uint32_t id) {
    return static_cast<uint32_t>(FrameKind::kTag) << 5 | id;
}

// The 8-byte word that describes a frame: its tail in a block, its head in a shared receive buffer
// (Veloblock, section 5.2). Its last byte is never 0, so a reader can wait for it, and does not
// mind a device that places the word byte by byte: the last byte comes last.
//
//   bits  0..15  payload length in bytes
//   bits 16..20  active message id
//   bits 21..23  kind
//   bits 24..39  credit: what the sender of this frame has freed of the block it reads, in units of
//                kUnit bytes, counted since that block was granted, modulo 2^16
//   bits 40..55  sequence: how many frames the other path has carried before this one, modulo 2^16
//   bits 56..62  0
//   bit  63      1
class Word {
  public:
    static constexpr uint32_t kUnit = 8;
    static constexpr uint32_t kMaxLength = 0xffff;
    static constexpr uint32_t kMaxId = 31;

    constexpr Word() = default;
    constexpr explicit Word(uint64_t raw) : raw_(raw) {}
    constexpr Word(FrameKind kind, uint32_t id, uint32_t length, uint16_t credit, uint16_t sequence)
        : raw_(uint64_t{length} | uint64_t{id} << 16 | uint64_t{static_cast<uint8_t>(kind)} << 21 |
               uint64_t{credit} << 24 | uint64_t{sequence} << 40 | uint64_t{1} << 63) {}

    constexpr uint64_t raw() const { return raw_; }
    constexpr uint32_t length() const { return raw_ & 0xffff; }
    constexpr uint32_t id() const { return raw_ >> 16 & 0x1f; }
    constexpr FrameKind kind() const { return static_cast<FrameKind>(raw_ >> 21 & 7); }
    constexpr uint16_t credit() const { return static_cast<uint16_t>(raw_ >> 24); }
    constexpr uint16_t sequence() const { return static_cast<uint16_t>(raw_ >> 40); }

    constexpr bool present() const { return raw_ >> 63 != 0; }
    // The bits that are fixed are as they must be. Says nothing of the length.
    constexpr bool well_formed() const { return raw_ >> 56 == 0x80 && (raw_ >> 21 & 7) <= 3; }

  private:
    uint64_t raw_ = 0;
};

constexpr uint32_t padded(uint32_t length) {
    return (length + Word::kUnit - 1) & ~(Word::kUnit - 1);
}

// What a block may measure, in bytes. 2^15 units outstanding are the most the credit can tell
// apart.
inline constexpr uint32_t kMinBlock = 512;
inline constexpr uint32_t kMaxBlock = 256 * 1024 - Word::kUnit;

// Ids of the frames of kind kControl. Those here manage the block that the receiver of a direction
// grants to its sender. `Reader` below is that receiver, `writer` that sender.
enum class ControlId : uint32_t {
    kCredit =
        0,  // either way: nothing but the credit in the word. The only one that may be in a block
    kGrant = 1,       // reader to writer: a BlockGrant
    kRevoke = 2,      // reader to writer: release the block
    kRelease = 3,     // writer to reader: a Release; nothing comes through the block any more
    kNotifyWord = 4,  // writer to reader: a NotifyAddress; not before it has been granted a block
    kFirstTransfer = 8,  // this and those above are the rendezvous's
    kFirstTag = 16,      // this and all above are of tagged messages
};

// The payloads, little endian as everything on the wire.
struct BlockGrant {
    // Write with immediate data: the reader does not poll its memory.
    static constexpr uint32_t kNotify = 1;

    uint64_t address = 0;  // of the block's low end
    uint32_t rkey = 0;
    uint32_t size = 0;  // bytes, a multiple of 8
    uint32_t most = 0;  // bytes: the largest block worth wishing for
    uint32_t flags = 0;

    bool valid() const {
        return address != 0 && address % Word::kUnit == 0 && size % Word::kUnit == 0 &&
               size >= kMinBlock && size <= kMaxBlock && (flags & ~kNotify) == 0;
    }
};

struct Release {
    uint32_t wish = 0;  // bytes the next block should have, 0 for none
    uint32_t reserved = 0;
};

// The word that says whether writes into blocks are to be notified of: 4 bytes that the reader
// writes to when it goes to sleep.
struct NotifyAddress {
    uint64_t address = 0;
    uint32_t rkey = 0;
    uint32_t reserved = 0;

    bool valid() const { return address != 0 && address % sizeof(uint32_t) == 0 && reserved == 0; }
};

static_assert(sizeof(BlockGrant) == 24 && sizeof(Release) == 8 && sizeof(NotifyAddress) == 16);

inline constexpr uint32_t kMaxControl = 80;  // bytes of payload, of the longest control frame

}  // namespace tern
