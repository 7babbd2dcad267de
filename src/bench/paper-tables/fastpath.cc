// SPDX-License-Identifier: BSD-3-Clause
#include <cmath>
#include <cstring>
#include <deque>
#include <string>
#include <utility>

#include "bench/paper-tables/tables.h"
#include "tern/veloblock/block_writer.h"
#include "tern/veloblock/receive_path.h"

namespace paper_tables {
namespace {

using report::Failure;
using report::Figure;

constexpr uint32_t kSlot = 8192;
constexpr uint32_t kLongestFast = 8192;
constexpr uint32_t kShortest = 8;
constexpr uint32_t kTooLong = 64 << 10;
// With bursts of up to 12 messages, four slots hold half of all messages, as in the paper.
constexpr uint32_t kPaperBursts = 12;

// Designs: ways to manage a receiver's room for the messages of one sender.
//   bool send(uint32_t size)       sends a message; false: there is no room for it now
//   void consume(bool answered)    the receiver takes all messages; the sender gets the free room
//                                  back if the receiver answers, or if a quarter of all room is
//                                  free and not reported

// Slots of one size, filled from the top; the sender has a copy of their states (paper, section
// 4.3).
struct FixedSlots {
    bool send(uint32_t size) {
        if (size > kSlot || free == 0) return false;
        --free;
        ++full;
        return true;
    }
    void consume(bool answered) {
        unreported += std::exchange(full, 0);
        if (answered || unreported >= slots / 4) free += std::exchange(unreported, 0);
    }

    const uint32_t slots;
    uint32_t free = slots;
    uint32_t full = 0;
    uint32_t unreported = 0;
};

// The transport's own BlockWriter and BlockReader, over memory of that size. Throws Failure if a
// frame is not read as it was written.
class Veloblock {
  public:
    explicit Veloblock(uint32_t size) : memory_(size / sizeof(uint64_t)) {
        writer_.attach(size);
        reader_.attach(base(), size);
    }

    bool send(uint32_t size) {
        if (size > tern::BlockWriter::max_payload(writer_.size())) return false;
        const tern::BlockWriter::Plan plan = writer_.plan(size);
        if (!plan.fits) return false;
        if (plan.wrap) put(plan.wrap_at, tern::Word(tern::FrameKind::kWrap, 0, 0, 0, 0));
        put(plan.at, plan.below());
        std::memset(base() + plan.at + tern::Word::kUnit, static_cast<int>(++sent_ & 0xff),
                    tern::padded(size));
        put(plan.at + tern::Word::kUnit + tern::padded(size),
            tern::Word(tern::FrameKind::kActiveMessage, 0, size, 0, 0));
        writer_.commit(plan);
        under_way_.push_back(size);
        return true;
    }

    void consume(bool answered) {
        tern::Word word;
        tern::BlockReader::Look look;
        while ((look = reader_.look(word)) == tern::BlockReader::Look::kFrame) {
            take(word);
            reader_.consume(word);
        }
        if (look != tern::BlockReader::Look::kNothing || !under_way_.empty()) {
            throw Failure("the block lost a frame");
        }
        if (!answered && !reader_.due()) return;
        if (!writer_.credit(reader_.freed_units())) throw Failure("wrong credit");
        reader_.framed();
    }

  private:
    std::byte* base() { return reinterpret_cast<std::byte*>(memory_.data()); }
    void put(uint32_t at, tern::Word word) {
        const uint64_t raw = word.raw();
        std::memcpy(base() + at, &raw, sizeof raw);
    }
    void take(tern::Word word) {
        ++taken_;
        const uint32_t size = under_way_.empty() ? 0 : under_way_.front();
        const auto mark = static_cast<std::byte>(taken_ & 0xff);
        const std::byte* payload = reader_.payload(word);
        if (under_way_.empty() || word.length() != size ||
            (size > 0 && (payload[0] != mark || payload[size - 1] != mark))) {
            throw Failure("the block damaged a frame");
        }
        under_way_.pop_front();
    }

    std::vector<uint64_t> memory_;
    tern::BlockWriter writer_;
    tern::BlockReader reader_;
    std::deque<uint32_t> under_way_;
    uint64_t sent_ = 0;
    uint64_t taken_ = 0;
};

// The messages that arrive between two polls of the receiver, and whether it then answers.
struct Burst {
    std::vector<uint32_t> sizes;
    bool answered;
};
using Load = std::vector<Burst>;

// SplitMix64. Its numbers are the same on all platforms, unlike those of the standard library's
// distributions.
class Random {
  public:
    explicit Random(uint64_t seed) : state_(seed) {}
    uint64_t next() {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    uint32_t below(uint32_t limit) { return static_cast<uint32_t>((next() >> 32) * limit >> 32); }
    double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  private:
    uint64_t state_;
};

uint32_t size_of_message(Random& random) {
    if (random.below(10) == 0) return kTooLong;
    const double doublings = std::log2(static_cast<double>(kLongestFast) / kShortest);
    return static_cast<uint32_t>(kShortest * std::exp2(doublings * random.unit()));
}

// A load of mixed sizes, the same for every design. One message in ten has 64 KiB, too long for any
// fast path. The others have 8 B to 8 KiB, spread evenly over the powers of two. The receiver is
// busy while a burst arrives, and then takes all of it. Bursts have 1 to `longest` messages, all
// lengths equally often. On average a message in the other direction, which returns credit, follows
// every second burst. The load depends on the arguments alone.
Load make_load(uint64_t seed, uint32_t longest, uint32_t messages) {
    Random random(seed);
    Load load;
    for (size_t made = 0; made < messages; made += load.back().sizes.size()) {
        std::vector<uint32_t> sizes(1 + random.below(longest));
        for (uint32_t& size : sizes) size = size_of_message(random);
        load.push_back({std::move(sizes), random.below(2) == 0});
    }
    return load;
}

// Throws Failure if a block damages a frame.
template <typename Design, uint32_t kRoom>
double percent_on_fast_path(const Load& load) {
    Design design{kRoom};
    uint64_t fast = 0;
    uint64_t all = 0;
    for (const Burst& burst : load) {
        for (const uint32_t size : burst.sizes) {
            ++all;
            fast += size <= kLongestFast && design.send(size);
        }
        design.consume(burst.answered);
    }
    return 100 * static_cast<double>(fast) / static_cast<double>(all);
}

constexpr struct {
    const char* name;
    double (*percent)(const Load& load);
    double paper = report::kNone;  // percent, AMG2006 with refinement 3
} kEntries[] = {{"32 slots of 8 KiB, 512 KiB in all", percent_on_fast_path<FixedSlots, 32>, 89.75},
                {"4 slots of 8 KiB, 64 KiB in all", percent_on_fast_path<FixedSlots, 4>, 49.54},
                {"2 slots of 8 KiB, 32 KiB in all", percent_on_fast_path<FixedSlots, 2>},
                {"Veloblock, 32 KiB in all", percent_on_fast_path<Veloblock, 32 << 10>, 87.22},
                {"Veloblock, 16 KiB in all", percent_on_fast_path<Veloblock, 16 << 10>}};

}  // namespace

std::vector<Figure> run_fastpath(uint64_t seed, bool quick) {
    std::vector<Figure> figures;
    for (const uint32_t longest : {1, 4, 8, 12, 16, 32, 64}) {
        const Load load = make_load(seed, longest, quick ? 50'000 : 1'000'000);
        for (const auto& [name, percent, paper] : kEntries) {
            Figure& figure = figures.emplace_back(report::exact_figure(
                "messages on the fast path", longest, "bursts of 1 to " + std::to_string(longest),
                name, "%", percent(load)));
            if (longest == kPaperBursts) figure.reference = paper;
        }
    }
    return figures;
}

}  // namespace paper_tables
