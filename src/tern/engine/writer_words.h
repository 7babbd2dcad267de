// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tern/verbs/memory.h"

namespace tern {

// The values of notify words (WriterWords).
namespace notify {

// In immediate data of blocks the low half is 0; in all other it is not.
inline constexpr uint32_t kMask = 0xffff0000;

inline constexpr uint32_t kNever = 0;
// Notify always, with immediate data 0.
inline constexpr uint32_t kAlways = 1;

constexpr uint32_t word(uint16_t generation) {
    return uint32_t{generation} << 16;
}
constexpr uint32_t immediate(uint32_t word) {
    return word & kMask;
}
constexpr bool is_of_block(uint32_t immediate) {
    return (immediate & ~kMask) == 0;
}
constexpr uint16_t generation(uint32_t immediate) {
    return static_cast<uint16_t>(immediate >> 16);
}

}  // namespace notify

// Two words that the reader of a block writes into the memory of the block's writer. The writer has
// a pair for each peer that has offered it a block.
//
// The notify word decides whether writes into the block carry immediate data, and which. A reader
// that goes to sleep writes the immediate data that it wants to the word, and 0 when it polls
// memory again.
//
//   writer: the device; nothing else while the peer has its address
//   reader: this side, at each frame, relaxed: no other data depends on the word
//
// The peer's write and this side's reads are not ordered: a frame may go without notification
// although the word has changed. The peer must therefore look at its block until it has seen the
// first notification.
//
// The credit word is the number of bytes that the peer has freed of the block, modulo 2^32.
//
//   writer: the device; this side writes 0 when it takes an offer: what the peer has written for
//           the last block has arrived before the offer, and for the new block there is nothing yet
//   reader: this side, before it decides where a frame goes, acquire: the writes that it posts then
//           go to places that the peer has freed
//
// The words are in registered memory, which grows by pages; the first page is registered when the
// first peer offers a block. Control path.
class WriterWords {
  public:
    struct Pair {
        uint32_t notify = notify::kNever;
        uint32_t credit = 0;
    };
    struct Words {
        Pair* at = nullptr;
        uint32_t rkey = 0;
    };

    explicit WriterWords(ibv_pd* pd) : pd_(pd) {}

    // Takes a pair and sets it to its initial values. `at` is null if no memory can be registered.
    Words take();
    // The peer must not write to the words any more.
    void give(const Words& words) { free_.push_back(words); }

    size_t registered_bytes() const;

    static constexpr size_t kChunk = 4096;  // bytes that are registered at a time

  private:
    ibv_pd* pd_;
    std::vector<verbs::RegisteredMemory> chunks_;
    std::vector<Words> free_;
};

inline WriterWords::Words WriterWords::take() {
    if (free_.empty()) {
        verbs::RegisteredMemory chunk(pd_, kChunk,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        if (!chunk) return {};
        chunks_.push_back(std::move(chunk));
        const verbs::RegisteredMemory& memory = chunks_.back();
        for (size_t at = memory.size(); at != 0; at -= sizeof(Pair))
            free_.push_back(
                {reinterpret_cast<Pair*>(memory.data() + at - sizeof(Pair)), memory.rkey()});
    }
    const Words words = free_.back();
    free_.pop_back();
    __atomic_store_n(&words.at->notify, notify::kNever, __ATOMIC_RELAXED);
    __atomic_store_n(&words.at->credit, 0, __ATOMIC_RELAXED);
    return words;
}

inline size_t WriterWords::registered_bytes() const {
    size_t bytes = 0;
    for (const verbs::RegisteredMemory& chunk : chunks_) bytes += chunk.size();
    return bytes;
}

}  // namespace tern
