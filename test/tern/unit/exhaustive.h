// SPDX-License-Identifier: BSD-3-Clause
// A search through all orders of events of a model, for small numbers of events.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tern {

// Two words, equal for states that behave alike.
using Digest = std::array<uint64_t, 2>;

// Makes a digest of numbers.
class Digester {
  public:
    void operator()(uint64_t value) {
        for (uint64_t& word : words_) {
            word = (word ^ value) * 0x9e3779b97f4a7c15u;
            word ^= word >> 29;
            value = ~value * 3;
        }
    }
    // Never that of an empty place in Seen.
    Digest digest() const { return {words_[0] | 1, words_[1]}; }

  private:
    uint64_t words_[2] = {1, 2};
};

// The digests that have been seen. With 128 bits, two states are not expected to share one.
class Seen {
  public:
    Seen() : slots_(1 << 16) {}

    // False if the digest is there already.
    bool insert(const Digest& digest) {
        if (2 * count_ >= slots_.size()) grow();
        const bool is_new = place(slots_, digest);
        count_ += is_new;
        return is_new;
    }
    uint64_t count() const { return count_; }

  private:
    static bool place(std::vector<Digest>& slots, const Digest& digest) {
        size_t i = digest[0] & (slots.size() - 1);
        while (slots[i] != Digest{}) {
            if (slots[i] == digest) return false;
            i = (i + 1) & (slots.size() - 1);
        }
        slots[i] = digest;
        return true;
    }
    void grow() {
        std::vector<Digest> larger(slots_.size() * 4);
        for (const Digest& digest : slots_)
            if (digest != Digest{}) place(larger, digest);
        slots_.swap(larger);
    }

    std::vector<Digest> slots_;
    uint64_t count_ = 0;
};

// A Model can be copied. It has moves() and apply(move), wrong() (a text: the first rule that was
// broken), expect_end() for states without a move, and digest(). A move has text().
template <class Model>
class Exhaustive {
  public:
    // True if no order of events goes wrong: all ends are good, and there is no circle.
    bool run(const Model& start) { return visit(start); }
    std::string report() const {
        std::string text = wrong_;
        for (size_t i = path_.size(); i-- != 0;) text += "\n  " + path_[i];
        return text;
    }
    uint64_t states() const { return seen_.count(); }
    uint64_t ends() const { return ends_; }

  private:
    static constexpr size_t kMostMoves = 500;  // of one order of events

    bool visit(const Model& model) {
        const Digest digest = model.digest();
        if (!seen_.insert(digest)) {
            if (std::find(below_.begin(), below_.end(), digest) == below_.end()) return true;
            wrong_ = "a circle";
            return false;
        }
        if (below_.size() == kMostMoves) {
            wrong_ = "it goes on for ever";
            return false;
        }
        below_.push_back(digest);
        const bool good = visit_moves(model);
        below_.pop_back();
        return good;
    }
    bool visit_moves(const Model& model) {
        const auto moves = model.moves();
        if (moves.empty()) {
            ++ends_;
            Model end(model);
            end.expect_end();
            wrong_ = end.wrong();
            return wrong_.empty();
        }
        for (const auto& move : moves) {
            Model next(model);
            next.apply(move);
            wrong_ = next.wrong();
            if (wrong_.empty() && visit(next)) continue;
            path_.push_back(move.text());
            return false;
        }
        return true;
    }

    Seen seen_;
    uint64_t ends_ = 0;
    std::string wrong_;
    std::vector<Digest> below_;      // on the path from the start to the current state
    std::vector<std::string> path_;  // to the failure, the last move first
};

}  // namespace tern
