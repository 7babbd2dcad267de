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

}  // namespace tern
