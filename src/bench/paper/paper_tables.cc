// SPDX-License-Identifier: BSD-3-Clause
// The `paper-tables` command: tables of papers that are simulations, not measurements. It is not
// installed. "fastpath" is table 2 of the Veloblock paper: the share of messages that find room on
// the fast path, by the memory of a channel.
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>

#include "bench/measure/clock.h"
#include "bench/series/figure.h"
#include "bench/series/options.h"
#include "veloblock/block_writer.h"
#include "veloblock/receive_path.h"

namespace bench {
namespace {

constexpr const char* kFastpathNotes =
    "One sender, one receiver. Of ten messages one is too long for a fast path, the others "
    "have 8 B to 8 KiB, as\n"
    "many in each doubling. The receiver takes a whole burst at once; after every other burst "
    "it sends a message\n"
    "back, which brings credit, and otherwise reports credit when a quarter of the room is "
    "free. A message that\n"
    "finds no room takes the other path. Veloblock is the transport's own code. \"paper\" is "
    "AMG2006, refinement 3,\n"
    "where the reduced design has 32 KiB in all.\n";

constexpr uint32_t kMessages = 1'000'000;
constexpr uint32_t kMessagesQuick = 50'000;
constexpr uint32_t kSlot = 8192;
// With bursts of up to 12 messages, four slots hold half of all messages, as in the paper.
constexpr uint32_t kPaperBursts = 12;

constexpr uint32_t kTooLong = 64 << 10;
constexpr uint32_t kShortest = 8;

constexpr uint32_t kLongestFast = 8192;

// A way to manage a receiver's room for the messages of one sender.
class Design {
  public:
    virtual ~Design() = default;

    // Sends a message. Returns false if there is no room for it now.
    virtual bool send(uint32_t size) = 0;
    // The receiver takes all messages. The sender gets the free room back if the receiver answers,
    // or if a quarter of all room is free and not reported.
    virtual void consume(bool answered) = 0;
};

// Slots of one size, filled from the top; the sender has a copy of their states (paper, section
// 4.3).
class FixedSlots : public Design {
  public:
    FixedSlots(uint32_t slot_size, uint32_t slots)
        : slot_size_(slot_size), slots_(slots), free_(slots) {}

    bool send(uint32_t size) override {
        if (size > slot_size_ || free_ == 0) return false;
        --free_;
        ++full_;
        return true;
    }
    void consume(bool answered) override {
        unreported_ += full_;
        full_ = 0;
        if (!answered && unreported_ < slots_ / 4) return;
        free_ += unreported_;
        unreported_ = 0;
    }

  private:
    const uint32_t slot_size_;
    const uint32_t slots_;
    uint32_t free_;
    uint32_t full_ = 0;
    uint32_t unreported_ = 0;
};

// The transport's own BlockWriter and BlockReader, over memory of that size. Throws Failure if a
// frame is not read as it was written.
class Veloblock : public Design {
  public:
    explicit Veloblock(uint32_t size) : memory_(size / sizeof(uint64_t)) {
        writer_.attach(size);
        reader_.attach(base(), size);
    }

    bool send(uint32_t size) override {
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

    void consume(bool answered) override {
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
    bool answered = false;
};

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
std::vector<Burst> make_load(uint64_t seed, uint32_t longest, uint32_t messages) {
    Random random(seed);
    std::vector<Burst> load;
    for (uint32_t made = 0; made < messages;) {
        Burst burst;
        burst.sizes.resize(1 + random.below(longest));
        for (uint32_t& size : burst.sizes) size = size_of_message(random);
        burst.answered = random.below(2) == 0;
        made += static_cast<uint32_t>(burst.sizes.size());
        load.push_back(std::move(burst));
    }
    return load;
}

struct Entry {
    const char* name;
    std::unique_ptr<Design> (*make_design)();
    double paper;  // percent, AMG2006 with refinement 3
};

template <typename Kind, typename... Arguments>
std::unique_ptr<Design> make(Arguments... arguments) {
    return std::make_unique<Kind>(arguments...);
}

constexpr Entry kEntries[] = {
    {"32 slots of 8 KiB, 512 KiB in all", [] { return make<FixedSlots>(kSlot, 32); }, 89.75},
    {"4 slots of 8 KiB, 64 KiB in all", [] { return make<FixedSlots>(kSlot, 4); }, 49.54},
    {"2 slots of 8 KiB, 32 KiB in all", [] { return make<FixedSlots>(kSlot, 2); }, kNone},
    {"Veloblock, 32 KiB in all", [] { return make<Veloblock>(32 << 10); }, 87.22},
    {"Veloblock, 16 KiB in all", [] { return make<Veloblock>(16 << 10); }, kNone},
};

double percent_on_fast_path(Design& design, const std::vector<Burst>& load) {
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

// The result depends on the arguments alone. Throws Failure if a block damages a frame.
std::vector<Figure> run_fastpath(uint64_t seed, bool quick) {
    std::vector<Figure> figures;
    for (const uint32_t longest : {1, 4, 8, 12, 16, 32, 64}) {
        const auto load = make_load(seed, longest, quick ? kMessagesQuick : kMessages);
        for (const Entry& entry : kEntries) {
            const std::unique_ptr<Design> design = entry.make_design();
            Figure figure = exact_figure("messages on the fast path", longest,
                                         "bursts of 1 to " + std::to_string(longest), entry.name,
                                         "%", percent_on_fast_path(*design, load));
            if (longest == kPaperBursts) figure.reference = entry.paper;
            figures.push_back(std::move(figure));
        }
    }
    return figures;
}

int main_of(int argc, char** argv) {
    std::string table;
    std::string json;
    uint64_t seed = 1;
    bool quick = false;
    CLI::App app("Repeats tables of papers as simulations.", "paper-tables");
    app.add_option("TABLE", table, "fastpath: share of messages that find room on the fast path")
        ->required()
        ->check(CLI::IsMember({"fastpath"}));
    app.add_option("--seed", seed, "seed of the random load")->capture_default_str();
    app.add_flag("--quick", quick, "fewer messages");
    app.add_option("--json", json, "also write the result to this file, as JSON");
    if (const auto status = tools::parse_options(&app, argc, argv)) return *status;
    try {
        const std::vector<Figure> figures = run_fastpath(seed, quick);
        std::printf("%s\n%s", as_table(figures).c_str(), kFastpathNotes);
        const Facts facts = {{"command", table}, {"seed", std::to_string(seed)}};
        if (!json.empty()) write_file(json, as_json(facts, figures));
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "paper-tables: %s\n", failure.what());
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    return bench::main_of(argc, argv);
}
