// SPDX-License-Identifier: BSD-3-Clause
// The `softhca-bench` command: measures an HCA, usually the software HCA, and compares it with the
// machine and with the timing model.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include "bench/measure/link.h"
#include "bench/measure/mark.h"
#include "bench/series/options.h"
#include "bench/series/series.h"
#include "common/command.h"
#include "softhca/inspect/inspect.h"

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
    std::vector<std::string> sections = {"small", "bandwidth", "model"};
    std::vector<std::string> profiles = {"graphene", "infini", "hdr200"};
    std::string model;   // changes to the profiles, as in SOFTHCA_MODEL
    std::string only;    // text that the titles of figures must contain
    std::string device;  // empty: the first device
    int rounds = 11;
    uint64_t iterations = 2000;
    int gid_index = 0;
    bool json = false;
};

void add_options(CLI::App& app, Options* options) {
    add_list(app, "--section", options->sections, ',',
             "sections to measure: small, bandwidth, model")
        ->option_text("LIST [all of them]")
        ->check(CLI::IsMember({"small", "bandwidth", "model"}));
    add_list(app, "--profile", options->profiles, ',', "profiles that the section model measures")
        ->option_text("LIST [graphene,infini,hdr200]")
        ->check(known_profile());
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
    add_gid_index(app, &options->gid_index, "GID table entry, if addresses are GIDs");
    app.add_flag("--json", options->json, "print the result as JSON");
}

// A device and a series of measurements on it.
class Bench {
  public:
    // Without a profile: uses the device of the machine, or a software HCA if there is none.
    explicit Bench(const Options& options, const std::string& profile = {},
                   const std::string& model = {})
        : setup_{profile.empty() ? options.device : "", options.gid_index, choose_cpus()},
          series_(setup_, options.rounds, 1, options.only) {
        if (profile.empty() && has_device(options.device)) {
            if (setup_.device.empty()) setup_.device = tern::verbs::device_names().front();
            return;
        }
        if (profile.empty()) may_make_device(options.device);
        fabric_.emplace("softhca-bench");
        setup_.device = "softhca0";
        setup_.fabric = fabric_->name();
        setup_.launcher =
            fabric_->launcher({"--profile", profile.empty() ? "ideal" : profile, "--model", model});
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

Order trips(Kind kind, uint64_t count, bool reaps = true) {
    return {.kind = kind, .size = kWord, .count = count, .reaps = reaps};
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

// The entries of the section `model`, each with the value of the model.
class ModelEntries {
  public:
    ModelEntries(const softhca_inspect_model& model, Group& times, Group& rates, Group& others)
        : model_(model), times_(times), rates_(rates), others_(others) {}

    void add_latencies(uint64_t count) {
        const double arrival = us(this->arrival(SOFTHCA_INSPECT_WRITE, kWord));
        const double completion = us(this->arrival(SOFTHCA_INSPECT_SEND, kWord) +
                                     softhca_inspect_completion_ns(&model_, SOFTHCA_INSPECT_SEND));
        const Order sends = trips(Kind::kSends, count);
        const Order writes = trips(Kind::kWrites, count);
        add("8 B send/recv, CQ polled, half round trip", sends, completion);
        add("8 B send/recv, shared memory, half round trip", sends, completion, true);
        add("8 B write, memory and CQ polled, half round trip", writes, arrival);
        add("8 B write, only memory polled, half round trip", trips(Kind::kWrites, count, false),
            arrival);
        add("8 B write, shared memory, half round trip", writes, arrival, true);
    }
    void add_bandwidths() {
        constexpr uint32_t kBytesUnderWay = 4 << 20;
        constexpr uint32_t kMaxWindow = 16;
        constexpr uint64_t kMessages = 12;  // short, so that most samples are undisturbed
        constexpr uint64_t kMinBytes = 4 << 20;
        struct Way {
            Request request;
            softhca_inspect_operation operation;
            const char* name;
        };
        for (const auto& [request, operation, name] :
             {Way{Request::kWrite, SOFTHCA_INSPECT_WRITE, " write, stream"},
              Way{Request::kSend, SOFTHCA_INSPECT_SEND, " send, stream"},
              Way{Request::kRead, SOFTHCA_INSPECT_READ, " read, stream"}}) {
            for (const uint32_t size : {64U << 10, 1U << 20}) {
                bench::add(rates_, size_text(size) + name,
                           stream(Kind::kSpacings, request, size,
                                  std::min(kMaxWindow, kBytesUnderWay / size), kStreams,
                                  std::max(kMessages, kMinBytes / size)))
                    .model = size / us(spacing(operation, size)) / 1000;
            }
        }
    }
    void add_gaps() {
        constexpr uint32_t kWindow = 64;
        for (const bool shared : {false, true}) {
            for (const auto& [request, name] : {std::pair(Request::kWrite, "8 B writes"),
                                                std::pair(Request::kSend, "8 B sends")}) {
                bench::add(
                    others_,
                    name + std::string(shared ? ", shared memory" : "") + ", from one to the next",
                    stream(Kind::kSpacings, request, kWord, kWindow, kStreams, Link::kDepth),
                    shared)
                    .model = us(spacing(
                    request == Request::kWrite ? SOFTHCA_INSPECT_WRITE : SOFTHCA_INSPECT_SEND,
                    kWord));
            }
        }
    }
    void add_registrations() {
        constexpr uint64_t kRegistrations = 5;
        for (const uint32_t size : {4U << 10, 64U << 10, 1U << 20, 16U << 20}) {
            bench::add(others_, size_text(size) + " registration",
                       {.kind = Kind::kRegistrations,
                        .size = size,
                        .count = kRegistrations,
                        .one_sided = true})
                .model = us(softhca_inspect_registration_ns(&model_, size));
        }
    }

  private:
    static constexpr uint64_t kStreams = 5;  // samples of a stream in each round

    static double us(uint64_t ns) { return static_cast<double>(ns) / 1000; }
    uint64_t arrival(softhca_inspect_operation operation, uint64_t bytes) const {
        return softhca_inspect_arrival_ns(&model_, operation, bytes,
                                          static_cast<int>(bytes <= kWord));
    }
    uint64_t spacing(softhca_inspect_operation operation, uint64_t bytes) const {
        return softhca_inspect_spacing_ns(&model_, operation, bytes);
    }
    void add(const std::string& name, const Order& order, double model, bool shared = false) {
        bench::add(times_, name, order, shared).model = model;
    }

    const softhca_inspect_model& model_;
    Group& times_;
    Group& rates_;
    Group& others_;
};

std::vector<Figure> run_profile(const Options& options, const std::string& profile,
                                const std::string& changes) {
    constexpr uint64_t kMaxTrips = 1000;
    softhca_inspect_model model;
    char text[1024];
    if (softhca_inspect_find_model(profile.c_str(), changes.c_str(), &model, text, sizeof text) !=
        0)
        throw Failure(text);
    softhca_inspect_describe(&model, text, sizeof text);
    Bench bench(options, profile, changes);
    const Group outline{.test = "profile " + profile, .x_text = text, .needs_cpu = false};
    Group& times = bench.series().add(outline);
    Group& rates = bench.series().add(outline);
    rates.unit = "GB/s";
    rates.at_most = false;
    Group& others = bench.series().add(outline);
    ModelEntries entries(model, times, rates, others);
    entries.add_latencies(std::min(options.iterations, kMaxTrips));
    entries.add_bandwidths();
    entries.add_gaps();
    entries.add_registrations();
    for (Group* group : {&times, &rates, &others}) {
        for (Entry& entry : group->entries) {
            if (softhca_inspect_is_ideal(&model) != 0) entry.model = kNone;
        }
    }
    return bench.series().run();
}

// Compares the timing model of a profile with measurements on a software HCA. `alone` are those
// without a model.
std::vector<Figure> measure_model(const Options& options, const std::string& profile,
                                  const std::vector<Figure>& alone) {
    std::vector<Figure> figures = run_profile(options, profile, options.model);
    for (size_t i = 0; i < figures.size(); ++i) {
        Figure& figure = figures[i];
        figure.machine = alone.at(i).value.median;
        const double slack = figure.model - figure.machine;
        figure.machine_bound = figure.unit == "GB/s" ? slack > 0 : slack < 0;
        if (figure.machine_bound) figure.doubts.emplace_back("machine-bound");
    }
    return figures;
}

void run(const Options& options) {
    const Facts facts = {{"placement", placement_text(choose_cpus())},
                         {"load_average", load_text()},
                         {"rounds", std::to_string(options.rounds)},
                         {"model", options.model}};
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
        if (section == "small") show(measure_small_messages(options));
        if (section == "bandwidth") show(measure_bandwidth(options));
        if (section != "model") continue;
        const std::vector<Figure> alone = run_profile(options, "ideal", "");
        for (const std::string& profile : options.profiles)
            show(measure_model(options, profile, alone));
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
