// SPDX-License-Identifier: BSD-3-Clause
// The comparison of the Veloblock paper's table 2, as a simulation: what share of the messages
// finds room on the fast path, with how much memory.
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/fastpath_design.h"
#include "bench/tern-bench/fastpath_load.h"

namespace bench {
namespace {

constexpr uint32_t kMessages = 1'000'000;
constexpr uint32_t kMessagesQuick = 50'000;
constexpr uint32_t kSlot = 8192;
// With bursts of up to 12 messages four slots take the half of all messages that they took in the
// paper.
constexpr uint32_t kPaperBursts = 12;

struct Entry {
    const char* name;
    std::unique_ptr<Design> (*make)();
    double paper;  // percent, AMG2006 with refinement 3
};

constexpr Entry kEntries[] = {
    {"32 slots of 8 KiB, 512 KiB in all", [] { return fixed_slots(kSlot, 32); }, 89.75},
    {"4 slots of 8 KiB, 64 KiB in all", [] { return fixed_slots(kSlot, 4); }, 49.54},
    {"2 slots of 8 KiB, 32 KiB in all", [] { return fixed_slots(kSlot, 2); }, kNone},
    {"Veloblock, 32 KiB in all", [] { return veloblock(32 << 10); }, 87.22},
    {"Veloblock, 16 KiB in all", [] { return veloblock(16 << 10); }, kNone},
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

}  // namespace

Result run_fastpath(const Options& options) {
    Result result;
    result.x_label = "longest burst, messages";
    for (const uint32_t longest : {1, 4, 8, 12, 16, 32, 64}) {
        const auto load =
            make_load(options.seed, longest, options.quick ? kMessagesQuick : kMessages);
        for (const Entry& entry : kEntries) {
            const std::unique_ptr<Design> design = entry.make();
            Figure figure = exact_figure("messages on the fast path", longest,
                                         "bursts of 1 to " + std::to_string(longest), entry.name,
                                         "%", percent_on_fast_path(*design, load));
            if (longest == kPaperBursts) figure.reference = entry.paper;
            result.figures.push_back(std::move(figure));
        }
    }
    result.notes =
        "One sender, one receiver. Of ten messages one is too long for a fast path, the others "
        "have 8 B to 8 KiB, as\n"
        "many in each doubling. The receiver takes a whole burst at once; after every other burst "
        "it sends a message\n"
        "back, which brings credit, and otherwise reports credit when a quarter of the room is "
        "free. A message that\n"
        "finds no room takes the other path. Veloblock is the transport's own code. \"paper\" is "
        "AMG2006, refinement 3,\n"
        "where the reduced design has 32 KiB in all.\n";
    return result;
}

}  // namespace bench
