// SPDX-License-Identifier: BSD-3-Clause
// The `paper-tables` command: tables of papers that are simulations, not measurements. It is not
// installed.
#include "bench/paper/fastpath.h"
#include "bench/series/options.h"

namespace {

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
        const std::vector<bench::Figure> figures = bench::run_fastpath(seed, quick);
        std::printf("%s\n%s", bench::as_table(figures).c_str(), bench::kFastpathNotes);
        const bench::Facts facts = {{"command", table}, {"seed", std::to_string(seed)}};
        if (!json.empty()) bench::write_file(json, bench::as_json(facts, figures));
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "paper-tables: %s\n", failure.what());
        return 1;
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    return main_of(argc, argv);
}
