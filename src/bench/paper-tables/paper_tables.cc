// SPDX-License-Identifier: BSD-3-Clause
// The `paper-tables` command: results of papers that are simulations, not measurements. It is not
// installed.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "bench/paper-tables/tables.h"
#include "bench/report/figure.h"
#include "common/command.h"

namespace paper_tables {
namespace {

using report::Figure;

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

constexpr const char* kSuperpipelineNotes =
    "The transport's own ChunkSource, Schedule and RingReader in simulated time, with 12 KiB, 1.5 "
    "and a ring of 256 KiB,\n"
    "on the costs of the profiles of these names (src/tern/rendezvous/cost_model.cc). \"model\": "
    "the "
    "paper's equations.\n";
constexpr const char* kPinningNotes =
    "The transport's own cost model with the costs of table 1, on 10G Ethernet: 7.5 us, 1.25 "
    "GB/s.\n";

int main_of(int argc, char** argv) {
    std::string table;
    std::string json;
    uint64_t seed = 1;
    bool quick = false;
    CLI::App app("Repeats results of papers as simulations.", "paper-tables");
    app.add_option(
           "TABLE", table,
           "fastpath: share of messages that find room on the fast path; superpipeline: the "
           "raw protocol; pinning: what pinning costs")
        ->required()
        ->check(CLI::IsMember({"fastpath", "superpipeline", "pinning"}));
    app.add_option("--seed", seed, "fastpath: seed of the random load")->capture_default_str();
    app.add_flag("--quick", quick, "fastpath: fewer messages");
    app.add_option("--json", json, "also write the result to this file, as JSON");
    return tools::run_command(&app, argc, argv, [&] {
        report::Facts facts = {{"command", table}};
        std::vector<Figure> figures;
        const char* notes = kFastpathNotes;
        if (table == "fastpath") {
            facts.emplace_back("seed", std::to_string(seed));
            figures = run_fastpath(seed, quick);
        } else if (table == "superpipeline") {
            figures = run_superpipeline();
            notes = kSuperpipelineNotes;
        } else {
            figures = run_pinning();
            notes = kPinningNotes;
        }
        std::printf("%s\n%s", report::as_table(figures).c_str(), notes);
        if (!json.empty()) report::write_file(json, report::as_json(facts, figures));
        return 0;
    });
}

}  // namespace
}  // namespace paper_tables

int main(int argc, char** argv) {
    return paper_tables::main_of(argc, argv);
}
