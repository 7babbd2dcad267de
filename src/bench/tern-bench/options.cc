// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/options.h"

#include "bench/measure/order.h"
#include "bench/tern-bench/command.h"

namespace bench {
namespace {

constexpr int kBriefRounds = 21;

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
    app.add_option("COMMAND", options->command)->required()->check(CLI::IsMember(names));
    app.add_option("--device", options->device,
                   "HCA and port as UCX names them: mlx5_0:1 [the first HCA]");
    app.add_option(
           "--rounds", options->rounds,
           "how often everything is measured in turn [15; onesided, rwapi, mpi: 7; --brief: 21]")
        ->check(CLI::Range(1, 10000));
    app.add_flag("--quick", options->quick, "few and short rounds: whether it works, not how fast");
    app.add_flag("--brief", options->brief, "mpi: only four comparisons, in 40 seconds");
    app.add_option("--profile", options->profile,
                   "model of the software HCA that is used if there is no HCA: ideal, graphene, "
                   "infini, hdr200, muse")
        ->option_text("NAME")
        ->check(known_profile());
    const auto set_range = [&](const std::vector<std::string>& parts) {
        if (parts.size() > 2) throw CLI::ValidationError("--sizes", "more than two sizes");
        options->low = static_cast<uint32_t>(std::stoul(parts.front()));
        options->high = static_cast<uint32_t>(std::stoul(parts.back()));
        if (options->high < options->low)
            throw CLI::ValidationError("--sizes", "the second size is the smaller one");
    };
    add_list(app, "--sizes", ':', {CLI::AsSizeValue(false), CLI::Range(uint64_t{1}, kLongest)},
             set_range,
             "bandwidth, pinning, protocols, onesided, rwapi, mpi, tune: lengths of messages, in "
             "bytes, or "
             "with K or M [1K:16M; onesided: 8:4M; rwapi: 1:4M; mpi: 16:1M]")
        ->option_text("LOW:HIGH");
    app.add_option("--step", options->step,
                   "the same: ratio of a size to the one before it, about [1.2; onesided: 2; "
                   "rwapi, mpi: 4]")
        ->check(CLI::Range(1.05, 1024.0));
    app.add_option("--json", options->json, "also write the result to this file, as JSON");
    app.add_option("--transport", options->transport, "what to compare with rc_verbs")
        ->capture_default_str();
    app.add_option("--gid-index", options->gid_index,
                   "GID table entry for the bare device, if its addresses are GIDs")
        ->check(CLI::Range(0, 255))
        ->capture_default_str();
    const auto set_peers = [&](const std::vector<std::string>& parts) {
        options->peers.clear();
        for (const std::string& part : parts)
            options->peers.push_back(static_cast<uint32_t>(std::stoul(part)));
    };
    add_list(app, "--peers", ',', {CLI::Range(1, 200)}, set_peers,
             "memory: numbers of peers to measure [1,4,16,32,63; with --quick 1,4]")
        ->option_text("LIST");
    app.add_option("--hot", options->hot, "memory: how many of the peers keep talking [all]")
        ->check(CLI::Range(0, 200));
    app.callback([&] {
        if (options->quick && app.count("--peers") == 0) options->peers = {1, 4};
        const auto command = std::ranges::find_if(
            kCommands, [&](const Command& one) { return options->command == one.name; });
        if (app.count("--rounds") == 0)
            options->rounds = options->brief ? kBriefRounds : command->rounds;
        if (app.count("--step") == 0) options->step = command->step;
        if (app.count("--sizes") == 0) {
            options->low = command->low;
            options->high = command->high;
        }
        if (options->brief && options->command != "mpi")
            throw CLI::ValidationError("--brief", "only mpi has a brief form");
        if (options->low < command->least) {
            throw CLI::ValidationError("--sizes", "messages of " + options->command +
                                                      " have at least " +
                                                      std::to_string(command->least) + " bytes");
        }
    });
    return tools::parse_options(&app, argc, argv);
}

}  // namespace bench
