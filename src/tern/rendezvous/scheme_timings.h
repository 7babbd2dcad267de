// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tern {

// What the ways of receiving a message have taken, compared with the model, by length. It corrects
// a model whose inputs are wrong: the rate of a port that the slot of the adapter does not reach,
// measurements on a busy machine, or a network that is itself a processor that copies. Pure: times
// are arguments, in seconds. No allocation; the size does not depend on the number of peers.
class SchemeTimings {
  public:
    enum class Way : uint8_t {
        kStaged,   // through rings
        kPlaced,   // written to memory that is pinned, or will be used again
        kPinning,  // written to memory that is pinned for this message
    };
    // What a way costs by the model. SchemeTimings corrects the time, not the work: that is for
    // others than the message to notice.
    struct Offer {
        Way way = Way::kStaged;
        double time = 0;  // until the message is in place
        double work = 0;  // of processors, besides
    };

    static constexpr unsigned kRarely = 64;  // one message in this many goes the other way, at most

    // Whether the second way is better than staging by what is known. A way that was better before
    // remains so until the other one is 10 % better, so that noise changes nothing.
    bool prefers(uint64_t length, const Offer& staged, const Offer& other) const {
        return better(cell(length), staged, other);
    }
    // The same, remembered for this length. True also if the second way is to be tried, or false if
    // staging is: the tries take 1/kRarely of the time of all messages, at most, by what is known.
    // Only if `may_try`.
    bool choose(uint64_t length, const Offer& staged, const Offer& other, bool may_try);
    // A message that nothing else delayed was in place after `time`; the model had expected
    // `expected`.
    void took(uint64_t length, Way way, double expected, double time);

    // By which factor a message takes longer than by the model.
    double factor(uint64_t length, Way way) const { return of(cell(length), way); }

  private:
    static constexpr size_t kCells = 12;  // up to 8 KB, 16 KB, .. 8 MB, and longer
    static constexpr size_t kWays = 3;
    static constexpr uint32_t kTrusted = 8;  // samples after which a way may seem slower
    static constexpr double kLate = 4;       // samples above this multiple are the peer's fault
    static constexpr double kHysteresis = 1.1;
    static constexpr double kMostCredit = 4;  // messages' times

    struct Speed {
        double factor = 1;
        uint32_t samples = 0;
    };
    enum class Last : uint8_t { kNone, kStaged, kOther };
    // Between staging and one other way.
    struct Choice {
        Last last = Last::kNone;
        uint32_t since = 0;  // choices since a try
        double credit = 0;   // seconds that a try may lose
    };
    struct Cell {
        std::array<Speed, kWays> speeds;
        std::array<Choice, kWays> choices;
    };

    static size_t index(uint64_t length) {
        const auto cell = static_cast<size_t>(std::bit_width(length >> 13));
        return cell < kCells ? cell : kCells - 1;
    }
    const Cell& cell(uint64_t length) const { return cells_[index(length)]; }
    static double of(const Cell& cell, Way way);
    static double cost(const Cell& cell, const Offer& offer) {
        return offer.time * of(cell, offer.way) + offer.work;
    }
    static bool better(const Cell& cell, const Offer& staged, const Offer& other);

    std::array<Cell, kCells> cells_;
};

}  // namespace tern
