// SPDX-License-Identifier: BSD-3-Clause
// The `softhca-bench` command: measures an HCA, usually the software HCA, and compares it with the
// machine and with the timing model.
#include <cstdio>
#include <cstring>

#include "bench/measure/clock.h"
#include "bench/measure/machine.h"
#include "bench/series/options.h"
#include "bench/series/worker.h"
#include "bench/softhca-bench/sections.h"

namespace bench {
namespace {

std::optional<int> parse_command_line(int argc, char** argv, Options* options) {
    CLI::App app(
        "Measures an HCA with two processes of this machine; the software HCA if there is no "
        "other.",
        "softhca-bench");
    const auto set = [](std::vector<std::string>& list) {
        return [&list](const std::vector<std::string>& parts) { list = parts; };
    };
    add_list(app, "--section", ',', {CLI::IsMember({"small", "bandwidth", "model"})},
             set(options->sections), "sections to measure: small, bandwidth, model")
        ->option_text("LIST [all of them]");
    add_list(app, "--profile", ',', {known_profile()}, set(options->profiles),
             "profiles that the section model measures")
        ->option_text("LIST [graphene,infini,hdr200]");
    app.add_option("--model", options->model,
                   "parameters to change in these profiles, as SOFTHCA_MODEL")
        ->option_text("LIST")
        ->check(known_model());
    app.add_option("--only", options->only, "measure only rows whose title contains this");
    app.add_option("--rounds", options->rounds, "how often everything is measured in turn")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--iterations", options->iterations, "small messages in a round")
        ->check(CLI::Range(10, 1000000))
        ->capture_default_str();
    app.add_option("--device", options->device, "name of the HCA, without port [the first HCA]");
    app.add_option("--gid-index", options->gid_index, "GID table entry, if addresses are GIDs")
        ->check(CLI::Range(0, 255))
        ->capture_default_str();
    app.add_flag("--json", options->json, "print the result as JSON");
    return tools::parse_options(&app, argc, argv);
}

class Conductor {
  public:
    explicit Conductor(const Options& options)
        : options_(options),
          facts_({{"placement", placement_text(choose_cpus())},
                  {"load_average", load_text()},
                  {"rounds", std::to_string(options.rounds)},
                  {"model", options.model}}) {}

    void run() {
        if (!options_.json) {
            std::printf("%s, %s rounds, load average %s\n", facts_[0].second.c_str(),
                        facts_[2].second.c_str(), facts_[1].second.c_str());
        }
        for (const std::string& section : options_.sections) {
            if (section == "small") show(measure_small_messages(options_));
            if (section == "bandwidth") show(measure_bandwidth(options_));
            if (section != "model") continue;
            const ModelSection model(options_);
            for (const std::string& profile : options_.profiles) show(model.run(profile));
        }
        if (options_.json) std::fputs(as_json(facts_, all_).c_str(), stdout);
        if (std::fflush(stdout) != 0) throw call_failed("writing the result");
    }

  private:
    void show(const std::vector<Figure>& figures) {
        all_.insert(all_.end(), figures.begin(), figures.end());
        if (options_.json || figures.empty()) return;
        std::printf("\n%s", as_table(figures).c_str());
        std::fflush(stdout);
    }

    const Options& options_;
    const Facts facts_;
    std::vector<Figure> all_;
};

int main_of(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], kWorkerCommand) == 0)
        return worker_main(argv[2], open_verbs_port);
    Options options;
    if (const auto status = parse_command_line(argc, argv, &options)) return *status;
    try {
        Conductor(options).run();
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "softhca-bench: %s\n", failure.what());
        return 1;
    }
    return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    return bench::main_of(argc, argv);
}
