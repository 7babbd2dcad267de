// SPDX-License-Identifier: BSD-3-Clause
// A block that its writer fills with anything, also while the reader looks: the reader uses nothing
// outside of it, and clears only what it has read.
#include <cstring>
#include <vector>

#include "fuzz.h"
#include "tern/veloblock/receive_path.h"

using namespace tern;
using fuzz::require;

namespace {

class World {
  public:
    explicit World(fuzz::Input& input)
        : input_(input), memory_(64 + 8 * input.below(8)), copy_(memory_) {
        path_.offer(base(), size());
    }

    void run() {
        while (!input_.empty()) step();
    }

  private:
    std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }
    uint32_t size() const { return static_cast<uint32_t>(memory_.size() * sizeof(uint64_t)); }
    uint32_t tail() {
        return static_cast<uint32_t>(reinterpret_cast<const std::byte*>(path_.next()) - base());
    }

    void step() {
        switch (input_.below(8)) {
            case 0: {
                const uint32_t at = input_.take<uint16_t>() % size();
                write(at, input_.take_bytes(std::min<size_t>(1 + input_.below(16), size() - at)));
                break;
            }
            case 1:
            case 2: {
                // A frame that is well formed, or nearly so, where the reader looks.
                Word word(static_cast<FrameKind>(input_.below(5)), input_.below(32),
                          static_cast<uint32_t>(input_.number() & Word::kMaxLength),
                          input_.take<uint16_t>(),
                          static_cast<uint16_t>(path_.cold() + input_.take<int8_t>() / 64));
                if (input_.chance(4)) word = word.as_last();
                const uint64_t raw =
                    word.in_round(round_ + input_.chance(8)).raw() ^
                    (input_.chance(8) ? uint64_t{input_.take<uint8_t>()} << 56 : 0);
                write(tail(), std::as_bytes(std::span(&raw, 1)));
                break;
            }
            case 3:
            case 4:
                look();
                break;
            case 5:
                path_.received_cold();
                break;
            case 6: {
                const Word cold(input_.take<uint64_t>());
                for (uint32_t before = path_.before(cold.sequence()); before != 0 && look();
                     --before) {
                }
                break;
            }
            case 7:
                credit();
                break;
        }
        expect_untouched();
    }

    // The device writes, a byte after the other.
    void write(uint32_t at, std::span<const std::byte> bytes) {
        memcpy(base() + at, bytes.data(), bytes.size());
        memcpy(reinterpret_cast<std::byte*>(copy_.data()) + at, bytes.data(), bytes.size());
    }

    // Takes a frame as BlockPoller does. The writer may write again between look() and consume().
    bool look() {
        if (failed_) return false;
        Word word;
        const uint32_t end = tail() + Word::kUnit;
        const auto found = path_.look(word);
        if (tail() + Word::kUnit != end) copy_[end / 8 - 1] = 0, ++round_;  // a wrap
        if (found == ReceivePath::Look::kMalformed) failed_ = true;
        if (found != ReceivePath::Look::kFrame) return false;
        const std::byte* const payload = path_.payload(word);
        require(payload >= base() && payload + padded(word.length()) <= base() + tail(),
                "a payload outside the block");
        require(word.well_formed(round_) && word.kind() != FrameKind::kWrap,
                "a frame that is none");
        sum_ += std::to_integer<unsigned>(word.length() != 0 ? payload[word.length() - 1]
                                                             : std::byte{});
        if (input_.chance(2)) {
            const uint32_t at = input_.take<uint16_t>() % (size() - 8);
            write(at, input_.take_bytes(8));
        }
        const uint16_t before = path_.credit();
        uint32_t place = tail() / 8;
        for (uint32_t left = in_steps(word.length()); left != 0; left -= kStep, place -= kStep / 8)
            copy_[place] = 0;
        path_.consume(word);
        round_ += word.last();
        require(static_cast<uint16_t>(path_.credit() - before) * Word::kUnit <= size(),
                "more is freed than there is");
        require(tail() < size(), "the reader looks outside the block");
        return true;
    }

    void credit() {
        if (path_.credit_frame_due() || input_.chance(2))
            path_.credit_sent();
        else
            path_.credit_written();
        require(!path_.credit_due(), "credit is due that was sent");
    }

    void expect_untouched() {
        require(memcmp(memory_.data(), copy_.data(), size()) == 0,
                "the reader writes a word that it has not read");
    }

    fuzz::Input& input_;
    std::vector<uint64_t> memory_;
    std::vector<uint64_t> copy_;
    ReceivePath path_;
    bool failed_ = false;
    uint32_t round_ = 0;
    unsigned sum_ = 0;
};

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::Input input(data, size);
    World(input).run();
    return 0;
}
