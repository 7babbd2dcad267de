// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "fastpath/block_reader.h"
#include "fastpath/control.h"
#include "fastpath/word.h"

namespace tern {

// The receiving half of one direction: takes the frames of both ways in the order in which they
// were sent. See SendPath.
class ReceivePath {
  public:
    using Look = BlockReader::Look;

    // The state of the block: none, the sender's to use, asked back.
    enum class Block : uint8_t { kNone, kGranted, kRevoked };

    // The next frame, if it is the block's turn.
    Look look(Word& word) {
        if (block_ == Block::kNone) return Look::kNothing;
        const Look look = reader_.look(word);
        if (look != Look::kFrame) return look;
        const auto ahead = static_cast<int16_t>(static_cast<uint16_t>(word.sequence() - cold_));
        // Cold frames come before it that have not been seen yet.
        if (ahead > 0) return Look::kNothing;
        return ahead == 0 ? Look::kFrame : Look::kMalformed;
    }
    const std::byte* payload(Word word) const { return reader_.payload(word); }
    // The frame that look() showed has been delivered.
    void consume(Word word) {
        reader_.consume(word);
        ++hot_;
    }

    // How many frames of the block come before this cold one. They are there already: the device
    // completes a receive after the writes that were posted before it. Above kMaxBlock / 16:
    // malformed.
    uint16_t before(Word cold) const { return static_cast<uint16_t>(cold.sequence() - hot_); }
    // A cold frame has been delivered.
    void received_cold() { ++cold_; }

    void grant(std::byte* base, uint32_t size) {
        reader_.attach(base, size);
        block_ = Block::kGranted;
    }
    void revoke() { block_ = Block::kRevoked; }
    // The sender's release, in order. False: there is nothing to release.
    bool released() {
        if (block_ == Block::kNone) return false;
        block_ = Block::kNone;
        return true;
    }

    Block block() const { return block_; }
    const uint64_t* next() const { return reader_.next(); }
    uint16_t credit() const { return reader_.freed_units(); }
    bool credit_due() const { return block_ != Block::kNone && reader_.due(); }
    void credit_sent() { reader_.reported(); }

  private:
    Block block_ = Block::kNone;
    uint16_t hot_ = 0;   // frames delivered from blocks, modulo 2^16
    uint16_t cold_ = 0;  // cold frames delivered, modulo 2^16
    BlockReader reader_;
};

}  // namespace tern
