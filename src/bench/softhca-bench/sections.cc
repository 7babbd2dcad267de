// SPDX-License-Identifier: BSD-3-Clause
#include "bench/softhca-bench/sections.h"

#include <algorithm>
#include <optional>

#include "bench/measure/link.h"
#include "bench/series/series.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

using Kind = Order::Kind;
using Request = Order::Request;

constexpr uint32_t kWord = 8;

// Targets. Ratios are to process_vm_writev.
constexpr double kWriteTarget = 1.5;
constexpr double kSendTarget = 2.5;
constexpr double kSharedTargetUs = 0.4;
constexpr double kStreamTarget = 0.9;
constexpr uint32_t kStreamTargetSize = 1 << 20;

// A device and a series of measurements on it.
class Bench {
  public:
    explicit Bench(const Options& options)
        : setup_{options.device, options.gid_index, choose_cpus()},
          series_(setup_, options.rounds, 1, options.only) {}
    // Uses the device of the machine, or starts a software HCA if there is none.
    void use_device(const Options& options) {
        if (!has_device(options.device)) {
            may_make_device(options.device);
            use_own_device("ideal", "");
        } else if (setup_.device.empty()) {
            setup_.device = device_names().front();
        }
    }
    void use_own_device(const std::string& profile, const std::string& model) {
        fabric_.emplace("softhca-bench");
        setup_.device = "softhca0";
        setup_.fabric = fabric_->name();
        setup_.launcher = fabric_->launcher({"--profile", profile, "--model", model});
    }
    Series& series() { return series_; }
    const std::string& device() const { return setup_.device; }

  private:
    std::optional<OwnFabric> fabric_;
    Setup setup_;
    Series series_;
};

Entry& add(Group* group, std::string name, const Order& order, bool shared = false) {
    Arm arm = {shared ? "shared memory" : "private memory", "raw", shared ? "shared" : "private"};
    arm.device_threads = DeviceThreads::kAnywhere;
    return group->add(std::move(name), arm, order);
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

// The entries of the section `model`, each with the value of the model.
class ModelEntries {
  public:
    ModelEntries(const softhca_inspect_model& model, bool ideal, Group* group)
        : model_(model), ideal_(ideal), group_(group) {}

    void add_latencies(uint64_t count) {
        const double arrival = us(model_.latency_ns + transmit(kWord));
        const double completion = arrival + us(model_.completion_ns);
        Order only_memory = trips(Kind::kWrites, count);
        only_memory.reaps = false;
        add("8 B send/recv, CQ polled, half round trip", trips(Kind::kSends, count), completion);
        add("8 B send/recv, shared memory, half round trip", trips(Kind::kSends, count), completion,
            true);
        add("8 B write, memory and CQ polled, half round trip", trips(Kind::kWrites, count),
            arrival);
        add("8 B write, only memory polled, half round trip", only_memory, arrival);
        add("8 B write, shared memory, half round trip", trips(Kind::kWrites, count), arrival,
            true);
    }
    // Adds the time until a program that polls memory sees the pieces of a long write.
    void add_pieces() {
        constexpr uint32_t kLongWrite = 64 << 10;
        constexpr uint64_t kWrites = 100;
        for (const bool shared : {false, true}) {
            for (const auto& [bytes, part] :
                 {std::pair(4U << 10, "its first 4 KiB"), std::pair(32U << 10, "its first half"),
                  std::pair(kLongWrite, "all of it")}) {
                add(std::string("64 KiB write") + (shared ? ", shared memory, " : ", ") + part,
                    {.kind = Kind::kPieces, .size = kLongWrite, .count = kWrites, .bytes = bytes},
                    us(model_.latency_ns + transmit(bytes)), shared);
            }
        }
    }
    void add_bandwidths() {
        constexpr uint32_t kBytesUnderWay = 4 << 20;
        constexpr uint32_t kMaxWindow = 16;
        constexpr uint64_t kMessages = 12;  // short, so that most samples are undisturbed
        constexpr uint64_t kMinBytes = 4 << 20;
        for (const auto& [request, name] : {std::pair(Request::kWrite, " write, stream"),
                                            std::pair(Request::kSend, " send, stream"),
                                            std::pair(Request::kRead, " read, stream")}) {
            for (const uint32_t size : {64U << 10, 1U << 20}) {
                add(size_text(size) + name,
                    stream(Kind::kSpacings, request, size,
                           std::min(kMaxWindow, kBytesUnderWay / size), kStreams,
                           std::max(kMessages, kMinBytes / size)),
                    size / us(spacing(size)) / 1000);
            }
        }
    }
    void add_gaps() {
        constexpr uint32_t kWindow = 64;
        for (const bool shared : {false, true}) {
            for (const auto& [request, name] : {std::pair(Request::kWrite, "8 B writes"),
                                                std::pair(Request::kSend, "8 B sends")}) {
                add(name + std::string(shared ? ", shared memory" : "") + ", from one to the next",
                    stream(Kind::kSpacings, request, kWord, kWindow, kStreams, Link::kDepth),
                    us(spacing(kWord)), shared);
            }
        }
    }
    void add_registrations() {
        constexpr uint64_t kRegistrations = 5;
        for (const uint32_t size : {4U << 10, 64U << 10, 1U << 20, 16U << 20}) {
            add(size_text(size) + " registration",
                {.kind = Kind::kRegistrations,
                 .size = size,
                 .count = kRegistrations,
                 .one_sided = true},
                us(softhca_inspect_registration_ns(&model_, size)));
        }
    }

  private:
    static constexpr uint64_t kStreams = 5;  // samples of a stream in each round

    static double us(uint64_t ns) { return static_cast<double>(ns) / 1000; }
    uint64_t spacing(uint64_t bytes) const { return softhca_inspect_spacing_ns(&model_, bytes); }
    uint64_t transmit(uint64_t bytes) const { return softhca_inspect_transmit_ns(&model_, bytes); }
    void add(std::string name, const Order& order, double model, bool shared = false) {
        bench::add(group_, std::move(name), order, shared).model = ideal_ ? kNone : model;
    }

    const softhca_inspect_model& model_;
    const bool ideal_;
    Group* const group_;
};

std::vector<Figure> run_profile(const Options& options, const std::string& profile,
                                const std::string& changes) {
    constexpr uint64_t kMaxTrips = 1000;
    softhca_inspect_model model;
    char text[256];
    if (softhca_inspect_find_model(profile.c_str(), changes.c_str(), &model, text, sizeof text) !=
        0)
        throw Failure(text);
    softhca_inspect_describe(&model, text, sizeof text);
    Bench bench(options);
    bench.use_own_device(profile, changes);
    Group times{.test = "profile " + profile, .x_text = text, .needs_cpu = false};
    Group rates = times;
    rates.unit = "GB/s";
    rates.rate = true;
    Group others = times;
    const bool ideal = softhca_inspect_is_ideal(&model) != 0;
    ModelEntries first(model, ideal, &times);
    first.add_latencies(std::min(options.iterations, kMaxTrips));
    first.add_pieces();
    ModelEntries(model, ideal, &rates).add_bandwidths();
    ModelEntries last(model, ideal, &others);
    last.add_gaps();
    last.add_registrations();
    for (Group* group : {&times, &rates, &others}) bench.series().add(std::move(*group));
    return bench.series().run();
}

}  // namespace

std::vector<Figure> measure_small_messages(const Options& options) {
    Bench bench(options);
    bench.use_device(options);
    const std::string call = "process_vm_writev, one call";
    Group group{.test = "small messages, " + bench.device(), .size = kWord, .needs_cpu = false};
    const auto add_compared = [&](const std::string& name, Kind kind, bool shared = false,
                                  double target = kNone) {
        group.ratios.push_back({name, call, target, name + " / one call"});
        add(&group, name, trips(kind, options.iterations), shared);
    };
    add(&group, call, trips(Kind::kCopyCalls, options.iterations));
    add_compared("write, half round trip", Kind::kWrites, false, kWriteTarget);
    add_compared("send/recv, half round trip", Kind::kSends, false, kSendTarget);
    add_compared("process_vm_writev, half round trip", Kind::kCopyTrips);
    add_compared("write, shared memory, half round trip", Kind::kWrites, true);
    group.entries.back().target = kSharedTargetUs;
    add_compared("send/recv, shared memory, half round trip", Kind::kSends, true);
    add_compared("store, shared memory, half round trip", Kind::kStoreTrips, true);
    bench.series().add(std::move(group));
    return bench.series().run();
}

std::vector<Figure> measure_bandwidth(const Options& options) {
    constexpr uint32_t kWindow = 4;
    constexpr uint64_t kBytes = 16 << 20;  // of a sample, at most
    constexpr uint64_t kSamples = 3;       // in each round
    Bench bench(options);
    bench.use_device(options);
    for (const uint32_t size : {1U << 20, 64U << 10, 8U << 10}) {
        Group group{.test = "bandwidth, " + bench.device(),
                    .size = size,
                    .unit = "GB/s",
                    .rate = true,
                    .needs_cpu = false};
        const auto add_stream = [&](const char* name, Kind kind, Request request) {
            add(&group, name, stream(kind, request, size, kWindow, kSamples, kBytes / size));
        };
        add_stream("process_vm_writev", Kind::kCopySpacings, Request::kWrite);
        add_stream("write", Kind::kSpacings, Request::kWrite);
        add_stream("send", Kind::kSpacings, Request::kSend);
        add_stream("process_vm_readv", Kind::kCopySpacings, Request::kRead);
        add_stream("read", Kind::kSpacings, Request::kRead);
        group.compare("write", "process_vm_writev",
                      size == kStreamTargetSize ? kStreamTarget : kNone);
        group.compare("send", "process_vm_writev");
        group.compare("read", "process_vm_readv");
        bench.series().add(std::move(group));
    }
    return bench.series().run();
}

ModelSection::ModelSection(const Options& options)
    : options_(options), alone_(run_profile(options, "ideal", "")) {}

std::vector<Figure> ModelSection::run(const std::string& profile) const {
    std::vector<Figure> figures = run_profile(options_, profile, options_.model);
    for (size_t i = 0; i < figures.size(); ++i) {
        Figure& figure = figures[i];
        figure.machine = alone_.at(i).value.median;
        const double slack = figure.model - figure.machine;
        if (figure.unit == "GB/s" ? slack > 0 : slack < 0)
            figure.doubts.emplace_back("machine-bound");
    }
    return figures;
}

}  // namespace bench
