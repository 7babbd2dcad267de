// SPDX-License-Identifier: BSD-3-Clause
// The `tern-bench` command: compares Tern with stock UCX and the bare device.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "bench/measure/link.h"
#include "bench/tern-bench/arms.h"
#include "bench/tern-bench/command.h"
#include "tools/common/library.h"

namespace bench {
namespace {

std::unique_ptr<Port> open_port(Peer& peer, const WorkerJob& job) {
    const std::string port = job.port;
    if (port == "uct") return open_uct_port(peer, job);
    if (port == "ucp") return open_ucp_port(peer, job);
    if (port == "rma") return open_rma_port(peer, job);
    if (port == "rwapi") return open_rwapi_port(peer, job);
    if (port == "shim") return open_shim_port(peer, job);
    if (port == "large") return open_large_port(peer, job);
    return open_verbs_port(peer, job);
}

// Runs this command line again on the benchmark's own software HCA. Call if there is no HCA.
int run_on_own_device(const Options& options, char** argv) {
    may_make_device(options.device);
    const OwnFabric fabric("tern-bench");
    const Words profile = {"--profile", options.profile};
    Words words = fabric.launcher(options.profile.empty() ? Words() : profile);
    words.push_back(tools::program_path());
    for (char** word = argv + 1; *word != nullptr; ++word) words.emplace_back(*word);
    return Process(std::move(words), {}, {}, SIGTERM).wait();
}

int run(const Options& options) {
    const Setup setup = make_setup(options);
    const Facts facts = facts_of(options, setup);
    std::printf("%-12s %s\n", "machine", this_machine().text().c_str());
    for (const auto& [key, text] : facts) {
        if (key == "command" || text.empty()) continue;
        if (options.brief && key != "device" && key != "ucx") continue;
        std::printf("%-12s %s\n", key.c_str(), text.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    // A file that cannot be written is found out before an hour of measuring.
    if (!options.json.empty()) check_writable(options.json);
    const auto command = std::ranges::find_if(
        kCommands, [&](const Command& one) { return options.command == one.name; });
    const Result result = command->run(options, setup);
    const std::string table = !result.table.empty() ? result.table
                              : result.matrix       ? as_matrix(result.figures)
                                                    : as_table(result.figures);
    std::printf("%s\n%s", table.c_str(), result.notes.c_str());
    if (!options.json.empty()) write_file(options.json, as_json(facts, result.figures));
    return 0;
}

int main_of(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], kWorkerCommand) == 0)
        return worker_main(argv[2], open_port);
    Options options;
    if (const auto status = parse_command_line(argc, argv, &options)) return *status;
    try {
        if (!has_device(DeviceName(options.device).device)) return run_on_own_device(options, argv);
        const char* here = std::getenv("SOFTHCA_PROFILE");
        if (!options.profile.empty() && (here == nullptr || options.profile != here)) {
            throw Failure(
                "--profile is for a software HCA of this program's own; there is a "
                "device already: 'softhca run --profile " +
                options.profile + "' makes one");
        }
        return run(options);
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "tern-bench: %s\n", failure.what());
        return 1;
    }
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    return bench::main_of(argc, argv);
}
