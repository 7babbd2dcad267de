// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/options.h"

#include "bench/measure/order.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

std::string commands_text() {
    std::string text = "Commands:\n";
    for (const Command& command : kCommands) {
        const std::string name = command.name;
        text += "  " + name + std::string(28 - name.size(), ' ') + command.help + "\n";
    }
    return text;
}

}  // namespace

std::optional<int> parse_command_line(int argc, char** argv, Options* options) {
    CLI::App app(
        "Compares Tern with UCX's own rc_verbs and with the bare device, in turns and on one "
        "device: that of\nthis machine, or the software HCA if there is no other.",
        "tern-bench");
    app.footer(commands_text());
    std::vector<std::string> names;
    for (const Command& command : kCommands) names.emplace_back(command.name);
    std::vector<uint32_t> range;
    app.add_option("COMMAND", options->command)->required()->check(CLI::IsMember(names));
    app.add_option("--device", options->device, "as UCX names it: mlx5_0:1 [the first one]");
    app.add_option("--rounds", options->rounds, "how often everything is measured in turn")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_flag("--quick", options->quick, "few and short rounds: whether it works, not how fast");
    app.add_option("--profile", options->profile,
                   "of the software HCA, where there is no other: ideal, graphene, infini, hdr200")
        ->option_text("NAME")
        ->check(known_profile());
    app.add_option("--sizes", range,
                   "bandwidth, pinning, tune: of messages, in bytes, or with K or M "
                   "[1K:16M]")
        ->option_text("LOW:HIGH")
        ->delimiter(':')
        ->expected(1, 2)
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(uint64_t{64}, kLongest));
    app.add_option("--step", options->step, "bandwidth, pinning, tune: from size to size, about")
        ->check(CLI::Range(1.05, 1024.0))
        ->capture_default_str();
    app.add_option("--json", options->json, "a file to write the result to, for programs");
    app.add_option("--transport", options->transport, "what to compare with rc_verbs")
        ->capture_default_str();
    app.add_option("--gid-index", options->gid_index,
                   "of the bare device, where addresses are GIDs")
        ->check(CLI::Range(0, 255))
        ->capture_default_str();
    app.add_option("--peers", options->peers,
                   "memory: numbers of peers to measure [1,4,16,32,63; with --quick 1,4]")
        ->option_text("LIST")
        ->delimiter(',')
        ->check(CLI::Range(1, 200));
    app.add_option("--hot", options->hot, "memory: how many of the peers keep talking [all]")
        ->check(CLI::Range(0, 200));
    app.callback([&] {
        if (!range.empty()) {
            options->low = range.front();
            options->high = range.back();
        }
        if (options->high < options->low) {
            throw CLI::ValidationError("--sizes", "the second size is the smaller one");
        }
        if (options->quick && app.count("--peers") == 0) options->peers = {1, 4};
    });
    return parse_options(app, argc, argv);
}

}  // namespace bench
