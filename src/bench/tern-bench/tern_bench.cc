// SPDX-License-Identifier: BSD-3-Clause
// The `tern-bench` command: compares Tern with stock UCX and the bare device.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "bench/measure/link.h"
#include "bench/report/machine.h"
#include "bench/series/interrupt.h"
#include "bench/series/options.h"
#include "bench/tern-bench/command.h"
#include "common/command.h"
#include "common/library.h"

namespace bench {
namespace {

const Command kCommands[] = {
    {"latency", "half round trips: UCT active messages, UCP tagged messages, RDMA writes",
     run_latency},
    {"rwapi", "notified writes and puts with signals, against RDMA writes", run_rwapi, 7},
    {"tune", "the costs of copies, registrations and the network here, and the model's choices",
     run_tune},
    {"memory", "registered bytes, memory of queues and queue pairs by number of peers",
     run_memory}};

// Those with options of their own.
constexpr struct {
    const char* name;
    const char* help;
    int (*run)(int argc, char** argv);
} kOthers[] = {
    {"sim", "exact figures in virtual time", run_sim},
    {"replay", "an MPI job in virtual time", run_replay},
    {"gate", "Tern over the peers that clusters run, in virtual time", run_gate},
    {"scale", "one process with up to 100,000 peers, simulated", run_scale},
    {"program", "a program of yours", run_program},
    {"order", "the bytes of writes between two machines, and their order", run_order},
};

const Command& command_of(const Options& options) {
    return *std::ranges::find(kCommands, options.command, &Command::name);
}

// What the command line does not say, and what does not fit together.
void complete(const CLI::App& app, const std::vector<uint32_t>& sizes, Options* options) {
    const Command& command = command_of(*options);
    if (options->quick && app.count("--peers") == 0) options->peers = {1, 4};
    if (app.count("--rounds") == 0) options->rounds = command.rounds;
    if (sizes.size() > 2) throw CLI::ValidationError("--sizes", "more than two sizes");
    if (sizes.empty()) return;
    options->low = sizes.front();
    options->high = sizes.back();
    if (options->high < options->low)
        throw CLI::ValidationError("--sizes", "the second size is the smaller one");
}

void add_options(CLI::App& app, std::vector<uint32_t>& sizes, Options* options) {
    std::string commands = "Commands:\n";
    std::vector<std::string> names;
    for (const Command& command : kCommands) {
        names.push_back(command.name);
        commands += formatted("  %-28s%s\n", command.name.c_str(), command.help);
    }
    for (const auto& [name, help, run] : kOthers)
        commands += formatted("  %-28s%s: see tern-bench %s --help\n", name, help, name);
    app.footer(commands);
    app.add_option("COMMAND", options->command)->required()->check(CLI::IsMember(names));
    app.add_option("--device", options->device,
                   "HCA and port as UCX names them: mlx5_0:1 [the first HCA]");
    app.add_option("--rounds", options->rounds,
                   "how often everything is measured in turn [15; rwapi: 7]")
        ->check(CLI::Range(1, 10000));
    app.add_flag("--quick", options->quick, "few and short rounds: whether it works, not how fast");
    app.add_option("--profile", options->profile,
                   "model of the software HCA that is used if there is no HCA: ideal, graphene, "
                   "infini, hdr200, muse, cx3-fdr, cx5-edr, cx6-hdr, cx7-ndr")
        ->option_text("NAME")
        ->check(known_profile());
    add_list(app, "--sizes", sizes, ':',
             "rwapi: lengths of messages, in bytes, or with K or M [1:4M]")
        ->option_text("LOW:HIGH")
        ->check(CLI::Range(uint64_t{1}, kLongest))
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--step", options->step,
                   "rwapi: ratio of a size to the one before it, about [4]")
        ->check(CLI::Range(1.05, 1024.0));
    app.add_option("--json", options->json, "also write the result to this file, as JSON");
    app.add_option("--transport", options->transport, "what to compare with rc_verbs")
        ->capture_default_str();
    add_gid_index(app, &options->gid_index,
                  "GID table entry for the bare device, if its addresses are GIDs");
    add_list(app, "--peers", options->peers, ',',
             "memory: numbers of peers to measure [1,4,16,32,63; with --quick 1,4]")
        ->option_text("LIST")
        ->check(CLI::Range(1, 4000));
    app.add_option("--hot", options->hot, "memory: how many of the peers keep talking [all]")
        ->check(CLI::Range(0, 200));
}

std::unique_ptr<Port> open_port(Peer& peer, const WorkerJob& job) {
    const std::string port = job.port;
    for (const PortKind* kind : {&kUctPort, &kUcpPort, &kRwapiPort}) {
        if (port == kind->name) return kind->open(peer, job);
    }
    return open_verbs_port(peer, job);
}

int exit_status(const Gaps& gaps) {
    if (interrupted() != 0) return kExitSignal + interrupted();
    return gaps.empty() ? 0 : kExitIncomplete;
}

int run(const Options& options) {
    check_profile(options.profile);
    Gaps gaps;
    Setup setup = make_setup(options);
    setup.gaps = &gaps;
    const Facts facts = facts_of(options, setup);
    std::printf("%-12s %s\n", "machine", this_machine().text().c_str());
    for (const auto& [key, text] : facts) {
        if (key == "command" || text.empty()) continue;
        std::printf("%-12s %s\n", key.c_str(), text.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    // A file that cannot be written is found out before an hour of measuring.
    if (!options.json.empty()) check_writable(options.json);
    watch_for_interrupts();
    Result result;
    try {
        result = command_of(options).run(options, setup);
    } catch (const Failure& failure) {
        if (interrupted() == 0) throw;
        std::fprintf(stderr, "%s\n", failure.what());
    }
    if (result.figures.empty()) {
        std::fprintf(stderr, "nothing is complete\n");
        return exit_status(gaps);
    }
    std::printf("%s\n%s", result.table.c_str(), result.notes.c_str());
    for (const std::string& gap : gaps) std::printf("incomplete: %s\n", gap.c_str());
    if (!options.json.empty()) write_file(options.json, as_json(facts, result.figures, gaps));
    return exit_status(gaps);
}

int main_of(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], kWorkerCommand) == 0)
        return worker_main(argv[2], open_port);
    for (const auto& [name, help, run] : kOthers)
        if (argc > 1 && argv[1] == std::string_view(name)) return run(argc, argv);
    CLI::App app(
        "Compares Tern with UCX's own rc_verbs and with the bare device, in turns and on one "
        "device: that of\nthis machine, or the software HCA if there is no other.",
        "tern-bench");
    Options options;
    std::vector<uint32_t> sizes;
    add_options(app, sizes, &options);
    return tools::run_command(&app, argc, argv, [&] {
        complete(app, sizes, &options);
        if (!has_device(DeviceName(options.device).device))
            return run_on_own_device(options.device, options.profile, argv);
        return run(options);
    });
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    return bench::main_of(argc, argv);
}
