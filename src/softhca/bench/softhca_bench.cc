// SPDX-License-Identifier: BSD-3-Clause
// The `softhca-bench` command: measures an HCA, usually the software HCA, and compares it with the
// machine.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "bench/measure/link.h"
#include "bench/measure/mark.h"
#include "bench/series/options.h"
#include "bench/series/series.h"
#include "common/command.h"

namespace bench {
namespace {

using Kind = Order::Kind;
using Request = Order::Request;

// Targets. Ratios are to process_vm_writev.
constexpr double kWriteTarget = 1.5;
constexpr double kSendTarget = 2.5;
constexpr double kSharedTargetUs = 0.4;
constexpr double kStreamTarget = 0.9;
constexpr uint32_t kStreamTargetSize = 1 << 20;

struct Options {
    std::vector<std::string> sections = {"small", "bandwidth"};
    std::string only;    // text that the titles of figures must contain
    std::string device;  // empty: the first device
    int rounds = 11;
    uint64_t iterations = 2000;
    int gid_index = 0;
    bool json = false;
};

void add_options(CLI::App& app, Options* options) {
    add_list(app, "--section", options->sections, ',', "sections to measure: small, bandwidth")
        ->option_text("LIST [all of them]")
        ->check(CLI::IsMember({"small", "bandwidth"}));
    app.add_option("--only", options->only, "measure only rows whose title contains this");
    app.add_option("--rounds", options->rounds, "how often everything is measured in turn")
        ->check(CLI::Range(1, 10000))
        ->capture_default_str();
    app.add_option("--iterations", options->iterations, "small messages in a round")
        ->check(CLI::Range(10, 1000000))
        ->capture_default_str();
    app.add_option("--device", options->device, "name of the HCA, without port [the first HCA]");
    add_gid_index(app, &options->gid_index, "GID table entry, if addresses are GIDs");
    app.add_flag("--json", options->json, "print the result as JSON");
}

// A device and a series of measurements on it.
class Bench {
  public:
    // The device of the machine, or a software HCA if there is none.
    explicit Bench(const Options& options)
        : setup_{options.device, options.gid_index, choose_cpus()},
          series_(setup_, options.rounds, 1, options.only) {
        if (has_device(options.device)) {
            if (setup_.device.empty()) setup_.device = tern::verbs::device_names().front();
            return;
        }
        may_make_device(options.device);
        fabric_.emplace("softhca-bench");
        setup_.device = "softhca0";
        setup_.fabric = fabric_->name();
        setup_.launcher = fabric_->launcher({"--profile", "ideal"});
    }
    Series& series() { return series_; }
    const std::string& device() const { return setup_.device; }

  private:
    std::optional<OwnFabric> fabric_;
    Setup setup_;
    Series series_;
};

Entry& add(Group& group, std::string name, const Order& order, bool shared = false) {
    Arm arm = {shared ? "shared memory" : "private memory", "raw", "", shared};
    arm.threads_beside = false;
    return group.add(std::move(name), arm, order);
}

Order trips(Kind kind, uint64_t count) {
    return {.kind = kind, .size = kWord, .count = count, .reaps = true};
}

// A stream of requests: `samples` samples of `messages` messages.
Order stream(Kind kind, Request request, uint32_t size, uint32_t window, uint64_t samples,
             uint64_t messages) {
    return {.kind = kind,
            .size = size,
            .count = samples,
            .per_sample = std::min<uint64_t>(messages, Link::kDepth),
            .one_sided = request != Request::kSend,
            .request = request,
            .window = window};
}

// Small messages compared with one process_vm_writev.
std::vector<Figure> measure_small_messages(const Options& options) {
    Bench bench(options);
    const std::string call = "process_vm_writev, one call";
    Group& group = bench.series().add(
        {.test = "small messages, " + bench.device(), .size = kWord, .needs_cpu = false});
    add(group, call, trips(Kind::kCopyCalls, options.iterations));
    struct Way {
        const char* name;
        Kind kind;
        bool shared = false;
        double target = kNone;  // of the ratio
        double target_us = kNone;
    };
    for (const auto& [name, kind, shared, target, target_us] :
         {Way{"write", Kind::kWrites, false, kWriteTarget},
          Way{"send/recv", Kind::kSends, false, kSendTarget},
          Way{"write, shared memory", Kind::kWrites, true, kNone, kSharedTargetUs},
          Way{"send/recv, shared memory", Kind::kSends, true}}) {
        const std::string title = std::string(name) + ", half round trip";
        group.ratios.push_back({title, call, target, title + " / one call"});
        add(group, title, trips(kind, options.iterations), shared).target = target_us;
    }
    return bench.series().run();
}

// Streams of large messages compared with process_vm_writev and process_vm_readv.
std::vector<Figure> measure_bandwidth(const Options& options) {
    constexpr uint32_t kWindow = 4;
    constexpr uint64_t kBytes = 16 << 20;  // of a sample, at most
    constexpr uint64_t kSamples = 3;       // in each round
    Bench bench(options);
    for (const uint32_t size : {1U << 20, 64U << 10, 8U << 10}) {
        Group& group = bench.series().add({.test = "bandwidth, " + bench.device(),
                                           .size = size,
                                           .unit = "GB/s",
                                           .needs_cpu = false});
        struct Way {
            const char* name;
            Kind kind;
            Request request;
        };
        for (const auto& [name, kind, request] :
             {Way{"process_vm_writev", Kind::kCopySpacings, Request::kWrite},
              Way{"write", Kind::kSpacings, Request::kWrite},
              Way{"send", Kind::kSpacings, Request::kSend},
              Way{"process_vm_readv", Kind::kCopySpacings, Request::kRead},
              Way{"read", Kind::kSpacings, Request::kRead}}) {
            add(group, name, stream(kind, request, size, kWindow, kSamples, kBytes / size));
        }
        // A write keeps an order that process_vm_writev() does not; a send is copied as fast.
        group.compare("write", "process_vm_writev");
        group.compare("send", "process_vm_writev",
                      size == kStreamTargetSize ? kStreamTarget : kNone);
        group.compare("read", "process_vm_readv");
    }
    return bench.series().run();
}

void run(const Options& options) {
    const Facts facts = {{"placement", placement_text(choose_cpus())},
                         {"load_average", load_text()},
                         {"rounds", std::to_string(options.rounds)}};
    if (!options.json) {
        std::printf("%s, %s rounds, load average %s\n", facts[0].second.c_str(),
                    facts[2].second.c_str(), facts[1].second.c_str());
    }
    std::vector<Figure> all;
    const auto show = [&](const std::vector<Figure>& figures) {
        all.insert(all.end(), figures.begin(), figures.end());
        if (options.json || figures.empty()) return;
        std::printf("\n%s", as_table(figures).c_str());
        std::fflush(stdout);
    };
    for (const std::string& section : options.sections) {
        show(section == "small" ? measure_small_messages(options) : measure_bandwidth(options));
    }
    if (options.json) std::fputs(as_json(facts, all).c_str(), stdout);
}

int main_of(int argc, char** argv) {
    if (argc == 3 && std::strcmp(argv[1], kWorkerCommand) == 0)
        return worker_main(argv[2], open_verbs_port);
    CLI::App app(
        "Measures an HCA with two processes of this machine; the software HCA if there is no "
        "other.",
        "softhca-bench");
    Options options;
    add_options(app, &options);
    return tools::run_command(&app, argc, argv, [&] {
        run(options);
        return 0;
    });
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
    return bench::main_of(argc, argv);
}
