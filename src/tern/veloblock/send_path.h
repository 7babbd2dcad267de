// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tern/base/tunables.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/frame.h"

namespace tern {

// The sending half of one direction: chooses the path of a frame, and counts frames to keep their
// order. A frame may take either path at any time:
//
//   cold   a send into the shared receive queue
//   hot    a write into the block that the receiver has offered
//
// Every word carries the number of frames sent by the other path before it, from which the receiver
// restores the order. A release frame gives up the block. It goes cold, so its word orders it
// behind all frames of the block.
class SendPath {
  public:
    // kWait: as kCold, but the receiver does not allow more cold messages now; see PeerBlocks.
    enum class Route : uint8_t { kCold, kBlock, kStall, kWait };

    // The part of this object that a frame needs which goes straight.
    static constexpr size_t kHotBytes = sizeof(Word) + 2 * sizeof(uint32_t) + sizeof(BlockWriter);

    struct Choice {
        Route route = Route::kCold;
        BlockWriter::Plan plan;
    };

    // The path of a payload of `length` bytes. kStall: the payload fits the block, but the receiver
    // has not freed enough. Payloads longer than 1/kPayloadsOfBlock of the block go cold instead: a
    // block that holds few of them would stall too often.
    Choice choose(uint32_t length) const {
        Choice choice;
        if (!hot_ || fenced_ || length > largest_) return choice;
        choice.plan = writer_.plan(length);
        choice.route = choice.plan.fits                             ? Route::kBlock
                       : length > writer_.size() / kPayloadsOfBlock ? Route::kCold
                                                                    : Route::kStall;
        return choice;
    }

    // Of a frame that goes straight, and of a wrap; and of a frame with a plan.
    Word block_word(FrameKind kind, uint32_t id, uint32_t length, uint16_t credit) const {
        return blank_.with(kind, id, length, credit);
    }
    Word block_word(const BlockWriter::Plan& plan, FrameKind kind, uint32_t id, uint32_t length,
                    uint16_t credit) const {
        const Word blank = plan.wrap ? this->blank(cold_count(), writer_.round() + 1) : blank_;
        const Word word = blank.with(kind, id, length, credit);
        return plan.last ? word.as_last() : word;
    }
    Word cold_word(FrameKind kind, uint32_t id, uint32_t length, uint16_t credit) const {
        return {kind, id, length, credit, hot_count_};
    }

    // That of a cold word: the frames sent by the block so far, modulo 2^16. And the cold ones.
    uint16_t sequence() const { return hot_count_; }
    uint16_t cold_count() const { return blank_.sequence(); }

    // BlockWriter::straight(), and false without a block. These frames need no choose(), even if
    // they are longer than it would permit: they fit now.
    bool straight(uint32_t space) const { return writer_.straight(space); }
    uint32_t straight_end() const { return writer_.straight_end(); }
    void sent_straight(uint32_t space) {
        writer_.commit_straight(space);
        ++hot_count_;
    }

    // The frame has been posted.
    void sent_block(const BlockWriter::Plan& plan) {
        writer_.commit(plan);
        blank_ = blank(cold_count(), writer_.round());
        ++hot_count_;
    }
    void sent_cold() { blank_ = blank_.following(); }

    // A frame of kind kBatch, which counts as posted while it may still grow (Batches). Its word
    // has no length yet.
    BlockWriter::Growing plan_batch(uint32_t most) const {
        return writer_.plan_growing(most_batch(most));
    }
    // Its most bytes of payload, of which the block is to hold several times as many.
    uint32_t most_batch(uint32_t most) const {
        return std::min(most, writer_.size() / 4 & ~(kStep - 1));
    }
    Word batch_word(const BlockWriter::Growing& plan, uint16_t credit) const {
        const Word word = blank_.with(FrameKind::kBatch, 0, 0, credit);
        return plan.last ? word.as_last() : word;
    }
    void batch_begins(const BlockWriter::Growing& plan) {
        writer_.commit_growing(plan);
        blank_ = blank(cold_count(), writer_.round());
        ++hot_count_;
    }
    void batch_ends(const BlockWriter::Growing& plan, uint32_t length) {
        writer_.settle(plan, length);
    }

    // An offer, taken in order. False: the peer breaks the protocol.
    bool take_offer(const BlockOffer& offer) {
        if (hot_ || !offer.valid()) return false;
        hot_ = true;
        release_due_ = false;
        most_ = std::min(offer.most, kMaxBlock);
        largest_ = BlockWriter::max_payload(offer.size);
        stalls_ = 0;
        misfits_ = 0;
        requested_bytes_ = 0;
        writer_.attach(offer.size);
        blank_ = blank(cold_count(), writer_.round());
        return true;
    }
    // A revoke frame that crosses a release has no effect.
    void revoked() { release_due_ = hot_; }
    bool credited(uint16_t units) { return !hot_ || writer_.credit(units); }
    // The credit word has changed.
    BlockWriter::Taken credit_word(uint32_t freed) {
        return hot_ ? writer_.credit_word(freed) : BlockWriter::Taken::kYes;
    }

    // The block was full. True: release the block now, to get a larger one.
    bool stalled() { return hot_ && outgrown(++stalls_ >= kStallsToGrow, writer_.size() * 2); }
    // Counts a payload that went cold since the block was full or too small. True: as stalled().
    bool detoured(uint32_t length) {
        if (!hot_) return false;
        if (length <= largest_) return stalled();
        if (length > BlockWriter::max_payload(most_)) return false;  // no block would take it
        return outgrown(++misfits_ >= kMisfitsToGrow, size_for(length));
    }

    // Whether a release frame must be sent, with the size requested for the next block.
    bool release_due() const { return release_due_; }
    Release release() const { return {.requested_bytes = requested_bytes_}; }
    // The release frame has been posted.
    void released() {
        TERN_ASSERT(hot_);
        hot_ = false;
        release_due_ = false;
        writer_.detach();
    }

    bool hot() const { return hot_; }
    // While it is fenced, frames go cold although there is a block. Those that would go straight
    // are the caller's.
    bool fenced() const { return fenced_; }
    void fence(bool fenced) { fenced_ = fenced; }
    // Whether the receiver has taken all that was written to its block, and has sent frames since:
    // the two sides send in turns. Sides that send at once do not see it. False without a block.
    bool answered() const { return hot_ && writer_.answered(); }
    uint32_t block_size() const { return writer_.size(); }
    // See BlockWriter; without a block, it stays the same.
    uint32_t freed() const { return writer_.freed(); }

  private:
    bool outgrown(bool enough, uint32_t size) {
        if (!enough || !hot_ || release_due_ || writer_.size() >= most_) return false;
        requested_bytes_ = std::min(size, most_);
        if (requested_bytes_ <= writer_.size()) return false;
        release_due_ = true;
        return true;
    }
    static uint32_t size_for(uint32_t length) {
        uint32_t size = kMinBlock;
        while (size < kMaxBlock && BlockWriter::max_payload(size) < length) size *= 2;
        return size;
    }

    // `cold`: frames sent cold, modulo 2^16.
    static constexpr Word blank(uint16_t cold, uint32_t round) {
        return Word(FrameKind::kActiveMessage, 0, 0, 0, cold).in_round(round);
    }

    // What a frame that goes straight needs comes first: kHotBytes.
    Word blank_ = blank(0, 0);  // what all words of frames in the block have in common
    bool hot_ = false;
    bool release_due_ = false;
    uint16_t hot_count_ = 0;  // frames sent through blocks, modulo 2^16
    uint32_t largest_ = 0;    // the longest payload that the block takes
    BlockWriter writer_;
    uint32_t most_ = 0;
    uint32_t requested_bytes_ = 0;
    uint16_t stalls_ = 0;
    uint16_t misfits_ = 0;
    bool fenced_ = false;
};

}  // namespace tern
