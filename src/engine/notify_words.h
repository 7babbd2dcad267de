// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <vector>

#include "verbs/memory.h"

namespace tern {

// Whether a frame that is written into a peer's block is to be notified of (an RDMA write with
// immediate data), and with what. A writer has one word for each peer that has granted it a block;
// a peer that goes to sleep writes to it what it wants as immediate data, and 0 when it looks at
// its memory again.
//
//   writer: the device; nobody else while the peer knows the word
//   reader: this side, at each frame, relaxed: nothing else depends on it
//
// Between the two there is no order: a frame may go without notification although the word has
// changed. The peer has to look at its block until it has seen the first one that was notified of.
namespace notify {

// Immediate data that belong to blocks have a low half of 0; those of transfers have not.
inline constexpr uint32_t kMask = 0xffff0000;

inline constexpr uint32_t kNever = 0;
// Always, whatever the peer does: the immediate data is 0.
inline constexpr uint32_t kAlways = 1;

constexpr uint32_t word(uint16_t telling) {
    return uint32_t{telling} << 16;
}
constexpr uint32_t immediate(uint32_t word) {
    return word & kMask;
}
constexpr bool is_of_block(uint32_t immediate) {
    return (immediate & ~kMask) == 0;
}
constexpr uint16_t telling(uint32_t immediate) {
    return static_cast<uint16_t>(immediate >> 16);
}

}  // namespace notify

// Registered memory for such words, which peers may write to. Grows by pages; nothing is registered
// before the first peer grants a block. Control path.
class NotifyWords {
  public:
    struct Word {
        uint32_t* at = nullptr;
        uint32_t rkey = 0;
    };

    explicit NotifyWords(ibv_pd* pd) : pd_(pd) {}

    // A word of value 0. `at` is null if no memory can be registered.
    Word take();
    // No peer writes to it any more.
    void give(const Word& word) { free_.push_back(word); }

    size_t registered_bytes() const;

  private:
    static constexpr size_t kChunk = 4096;

    ibv_pd* pd_;
    std::vector<verbs::RegisteredMemory> chunks_;
    std::vector<Word> free_;
};

}  // namespace tern
