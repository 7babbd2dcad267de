// SPDX-License-Identifier: BSD-3-Clause
// The `tern-bench` command: Tern beside stock UCX and the bare device.
#include <sys/utsname.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "bench/measure/cpus.h"
#include "bench/measure/device.h"
#include "bench/measure/failure.h"
#include "bench/measure/program.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/device_name.h"
#include "bench/tern-bench/member.h"
#include "bench/tern-bench/own_device.h"
#include "bench/tern-bench/tern_library.h"
#include "bench/tern-bench/worker.h"

namespace bench {
namespace {

constexpr int kExitUsage = 2;

Setup make_setup(const Options& options) {
    Setup setup;
    DeviceName name(options.device);
    if (name.device.empty()) name.device = device_names().front();
    setup.device = name.text();
    setup.gid_index = options.gid_index;
    setup.cpus = choose_cpus();
    if (options.transport == "tern") setup.tern_library = find_tern_library();
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    ucp_get_version(&major, &minor, &release);
    setup.by_plugin_path = major > 1 || (major == 1 && minor >= 22);
    return setup;
}

std::string cpu_model() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    }
    return "unknown CPU";
}

std::string placement(const Setup& setup) {
    if (!setup.cpus) return "both processes on one CPU: figures are worthless";
    std::string text = "processes polling on CPUs " + std::to_string(setup.cpus->first) + " and " +
                       std::to_string(setup.cpus->second);
    if (::sysconf(_SC_NPROCESSORS_ONLN) == 2) text += ", which are all there are";
    return text;
}

std::string load() {
    double average = 0;
    if (::getloadavg(&average, 1) != 1) return "unknown";
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", average);
    return text;
}

std::string environment_text() {
    std::string text;
    for (char** entry = environ; *entry != nullptr; ++entry) {
        if (std::strncmp(*entry, "UCX_", 4) != 0 && std::strncmp(*entry, "SOFTHCA_", 8) != 0)
            continue;
        text.append(text.empty() ? "" : " ").append(*entry);
    }
    return text;
}

Facts facts_of(const Options& options, const Setup& setup) {
    utsname system;
    ::uname(&system);
    return {{"command", options.command},
            {"device", setup.device},
            {"machine", cpu_model() + ", " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) +
                            " CPUs, " + system.sysname + " " + system.release},
            {"ucx", ucp_get_version_string()},
            {"placement", placement(setup)},
            {"load_average", load()},
            {"rounds", options.quick ? "quick" : std::to_string(options.rounds)},
            {"environment", environment_text()}};
}

void write_file(const std::string& name, const std::string& text) {
    FILE* const file = std::fopen(name.c_str(), "we");
    if (file == nullptr) throw call_failed(name);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written) throw call_failed(name);
}

void show(const Options& options, const Facts& facts, const Result& result) {
    const std::string table = !result.table.empty() ? result.table
                              : result.matrix       ? as_matrix(result.figures)
                                                    : as_table(result.figures);
    std::printf("%s\n%s", table.c_str(), result.notes.c_str());
    if (!options.json.empty()) write_file(options.json, as_json(facts, result.figures));
    if (!options.plot.empty()) plot(options.plot, {result.x_label, result.matrix}, result.figures);
}

std::string profile_here() {
    const char* profile = std::getenv("SOFTHCA_PROFILE");
    return profile != nullptr ? profile : "";
}

Result run_command(const Options& options, const Setup& setup) {
    if (options.command == "latency") return run_latency(options, setup);
    if (options.command == "rate") return run_rate(options, setup);
    if (options.command == "bandwidth") return run_bandwidth(options, setup);
    if (options.command == "pinning") return run_pinning(options, setup);
    if (options.command == "overlap") return run_overlap(options, setup);
    if (options.command == "tune") return run_tune(options, setup);
    return run_memory(options, setup);
}

int run(const Options& options) {
    if (options.command == "fastpath") {
        show(options, {{"command", options.command}, {"seed", std::to_string(options.seed)}},
             run_fastpath(options));
        return 0;
    }
    const Setup setup = make_setup(options);
    const Facts facts = facts_of(options, setup);
    for (const auto& [key, text] : facts) {
        if (key != "command" && !text.empty()) std::printf("%-12s %s\n", key.c_str(), text.c_str());
    }
    std::printf("\n");
    std::fflush(stdout);
    show(options, facts, run_command(options, setup));
    return 0;
}

std::string check(const Options& options) {
    const std::string choices = std::string("; choose from ") + kCommands;
    if (options.command.empty()) return "no command" + choices;
    if ((std::string(", ") + kCommands + ",").find(", " + options.command + ",") ==
        std::string::npos)
        return "no command '" + options.command + "'" + choices;
    return options.plot.empty() ? std::string() : plot_obstacle(options.plot);
}

int main_of(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], kWorkerCommand) == 0)
        return worker_main(argc - 2, argv + 2);
    if (argc > 1 && std::strcmp(argv[1], kMemberCommand) == 0)
        return member_main(argc - 2, argv + 2);
    Options options;
    std::string error = parse_options(argc, argv, &options);
    if (error.empty() && options.help) {
        print_usage();
        return 0;
    }
    if (error.empty()) error = check(options);
    if (!error.empty()) {
        std::fprintf(stderr, "tern-bench: %s\nTry 'tern-bench --help'.\n", error.c_str());
        return kExitUsage;
    }
    try {
        if (options.command != "fastpath" && !has_device(DeviceName(options.device).device)) {
            return run_on_own_device(options.device, options.profile, argv);
        }
        if (!options.profile.empty() && options.profile != profile_here()) {
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
