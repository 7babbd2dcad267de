// SPDX-License-Identifier: BSD-3-Clause
// Puts and gets of many pieces: lists, and blocks at regular distances. Each is one operation. It
// has a list of its pieces, which own what they use, and posts one after the other: the operation's
// `target` and `local` are those of the block that is to be posted next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rwapi/engine/operation.h"

namespace rwapi {

// An element of a list, or blocks of the same length.
struct Piece {
    Operation::Target target;  // of the first block
    Operation::Local local;
    Piece* next;
    uint64_t blocks;        // that have not been posted
    uint64_t stride;        // from a block to the next one, at the target
    uint64_t local_stride;  // and here

    // From the first byte of these blocks to the last one.
    uint64_t extent() const { return (blocks - 1) * stride + local.length; }
    uint64_t local_extent() const { return (blocks - 1) * local_stride + local.length; }
};

// Has the operation post this piece next.
inline void begin_piece(Operation& operation, Piece& piece) {
    operation.pieces.current = &piece;
    operation.target = piece.target;
    operation.local = piece.local;
}

// The block of the operation has been posted: goes on to the next one. False: it was the last one,
// or it is no such put.
inline bool next_piece(Operation& operation) {
    Piece* const piece = operation.pieces.current;
    if (piece == nullptr) [[likely]]
        return false;
    if (--piece->blocks > 0) {
        operation.target.offset += piece->stride;
        operation.local.memory += piece->local_stride;
        operation.local.posted = 0;
        return true;
    }
    if (piece->next == nullptr) return false;
    begin_piece(operation, *piece->next);
    return true;
}

// Places for pieces, which are allocated together at the first use.
class PiecePool {
  public:
    explicit PiecePool(uint32_t capacity) : capacity_(capacity), free_(capacity) {}

    uint32_t capacity() const { return capacity_; }

    // Whether there are so many free places.
    bool reserve(size_t count) {
        if (!pieces_) {
            pieces_ = std::make_unique_for_overwrite<Piece[]>(capacity_);
            for (uint32_t i = 0; i < capacity_; ++i) {
                pieces_[i].next = first_;
                first_ = &pieces_[i];
            }
        }
        return count <= free_;
    }
    // One that was reserved.
    Piece* take() {
        TERN_ASSERT(free_ > 0);
        --free_;
        Piece* const piece = first_;
        first_ = piece->next;
        return piece;
    }
    void give_back(Piece* piece) {
        piece->next = first_;
        first_ = piece;
        ++free_;
    }

  private:
    const uint32_t capacity_;
    uint32_t free_;
    std::unique_ptr<Piece[]> pieces_;
    Piece* first_ = nullptr;  // free
};

}  // namespace rwapi
