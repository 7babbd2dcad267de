// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tern {

// The user's memory that a transfer reads or fills, in order.
class Buffers {
  public:
    static constexpr size_t kMost = 8;  // pieces

    struct Piece {
        std::byte* at = nullptr;
        size_t length = 0;
    };

    Buffers() = default;
    // At most kMost pieces.
    explicit Buffers(std::span<const Piece> pieces) {
        for (const Piece& piece : pieces) {
            if (piece.length == 0) continue;
            pieces_[count_++] = piece;
            length_ += piece.length;
        }
    }

    uint64_t length() const { return length_; }
    bool contiguous() const { return count_ == 1; }
    // Only if contiguous().
    std::byte* data() const { return pieces_[0].at; }

    // These move on by `bytes`, which must not exceed the rest. Data path.
    void read(std::byte* to, size_t bytes) {
        walk(bytes, [&](std::byte* piece, size_t part) {
            memcpy(to, piece, part);
            to += part;
        });
    }
    void write(const std::byte* from, size_t bytes) {
        walk(bytes, [&](std::byte* piece, size_t part) {
            memcpy(piece, from, part);
            from += part;
        });
    }
    void skip(uint64_t bytes) {
        walk(bytes, [](std::byte*, size_t) {});
    }

  private:
    template <class Each>
    void walk(uint64_t bytes, Each&& each) {
        while (bytes != 0) {
            const Piece& piece = pieces_[index_];
            const size_t part = static_cast<size_t>(std::min<uint64_t>(bytes, piece.length - at_));
            each(piece.at + at_, part);
            bytes -= part;
            at_ += part;
            if (at_ == piece.length) {
                ++index_;
                at_ = 0;
            }
        }
    }

    Piece pieces_[kMost];
    size_t count_ = 0;
    uint64_t length_ = 0;
    size_t index_ = 0;  // next piece
    size_t at_ = 0;     // next byte of that piece
};

}  // namespace tern
