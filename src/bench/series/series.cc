// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/series.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "bench/measure/clock.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

// Samples of workers are us for each message.
Samples converted(const Group& group, const Order& order, Samples samples) {
    if (!group.unit.ends_with("/s")) return samples;
    const double per_message = group.unit == "GB/s"   ? order.size / 1000.0
                               : group.unit == "MB/s" ? order.size
                                                      : 1;
    for (double& sample : samples) sample = per_message / sample;
    return samples;
}

void note(Entry::Measured& measured, const Samples& samples, double cpu, double late) {
    measured.all.insert(measured.all.end(), samples.begin(), samples.end());
    measured.medians.push_back(median(samples));
    measured.cpu.push_back(cpu);
    if (is_set(late)) measured.late.push_back(late);
}

Figure outline(const Group& group, bool first, std::string name) {
    Figure figure;
    figure.test = first ? group.first_test : group.test;
    figure.x = group.size;
    figure.x_text = group.x_text.empty() ? size_text(group.size) : group.x_text;
    figure.name = std::move(name);
    figure.at_most = group.at_most;
    return figure;
}

// A ratio is as late as the later one of its entries; kNone if nothing is known of them.
double late_share(const Entry& entry, const Entry& yardstick, bool first) {
    const auto share = [](const Entry::Measured& measured) {
        return measured.late.empty() ? kNone : median(measured.late);
    };
    return std::fmax(share(first ? entry.first : entry.measured), share(yardstick.measured));
}

// Two entries of one name are the same.
const Entry& find(const Group& group, const std::string& name) {
    const auto found = std::ranges::find(group.entries, name, &Entry::name);
    if (found == group.entries.end()) throw Failure("nothing is called " + name);
    return *found;
}

}  // namespace

// How often the software HCA was later than its timing model. Nothing is known of another device.
class Series::Lateness {
  public:
    Lateness(const std::string& device, const std::string& fabric) {
        if (!device.empty() && !device.starts_with("softhca")) return;
        char ignored[1];
        fabric_ = softhca_inspect_open(fabric.empty() ? nullptr : fabric.c_str(), ignored,
                                       sizeof ignored);
        share();
    }
    ~Lateness() { softhca_inspect_close(fabric_); }
    Lateness(const Lateness&) = delete;
    Lateness& operator=(const Lateness&) = delete;

    // The share of late operations since the last call, 0..1; kNone if there was no operation.
    double share() {
        if (fabric_ == nullptr) return kNone;
        uint64_t operations;
        uint64_t late;
        softhca_inspect_lateness(fabric_, &operations, &late);
        // What a process counted goes with it.
        const bool shrunk = operations < operations_ || late < late_;
        const uint64_t new_operations = operations - std::exchange(operations_, operations);
        const uint64_t new_late = late - std::exchange(late_, late);
        if (new_operations == 0 || shrunk) return kNone;
        return static_cast<double>(new_late) / static_cast<double>(new_operations);
    }

  private:
    softhca_inspect_fabric* fabric_ = nullptr;
    uint64_t operations_ = 0;
    uint64_t late_ = 0;
};

void Series::prepare(Group& group) {
    const auto chosen = [&](const std::string& name) {
        const std::string title = group.size == 0 ? name : size_text(group.size) + " " + name;
        return title.find(only_) != std::string::npos;
    };
    for (Entry& entry : group.entries) {
        entry.offered =
            chosen(entry.name) || std::ranges::any_of(group.ratios, [&](const auto& one) {
                return one.yardstick == entry.name && chosen(one.entry);
            });
        const auto found = std::ranges::find(arms_, entry.arm);
        entry.arm_index = static_cast<size_t>(found - arms_.begin());
        if (found == arms_.end()) arms_.push_back(entry.arm);
    }
}

// What share of the measurement is done, on stderr: on a terminal in one line, elsewhere a line
// every few seconds.
class Series::Progress {
  public:
    explicit Progress(size_t all) : all_(all) {}
    ~Progress() {
        if (terminal_ && next_ != 0) std::fprintf(stderr, "\r%*s\r", kWidth, "");
    }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void step() {
        ++done_;
        const uint64_t now = now_ns();
        if (now < next_) return;
        const bool first = std::exchange(next_, now + (terminal_ ? kOftenNs : kSeldomNs)) == 0;
        if (first && !terminal_) return;
        std::fprintf(stderr, terminal_ ? "\rmeasuring: %3zu %%" : "measuring: %zu %%\n",
                     100 * done_ / std::max<size_t>(all_, 1));
    }

  private:
    static constexpr int kWidth = 20;
    static constexpr uint64_t kOftenNs = 200'000'000;
    static constexpr uint64_t kSeldomNs = 10'000'000'000;

    const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
    const size_t all_;
    size_t done_ = 0;
    uint64_t next_ = 0;
};

std::vector<Figure> Series::run() {
    size_t entries = 0;
    for (Group& group : groups_) {
        prepare(group);
        entries += group.entries.size();
    }
    Progress progress(entries * static_cast<size_t>(rounds_));
    for (int start_number = 0, round = 0; start_number < starts_; ++start_number) {
        Pairs pairs = start();
        Lateness lateness(setup_.device, setup_.fabric);
        for (const int end = rounds_ * (start_number + 1) / starts_; round < end; ++round) {
            run_round(round, pairs, lateness, progress);
        }
        for (const auto& pair : pairs) pair->finish();
    }
    std::vector<Figure> figures;
    for (const bool first : {false, true}) {
        for (const Group& group : groups_) {
            if (!first || !group.first_test.empty()) add_figures(group, first, &figures);
        }
    }
    return figures;
}

Series::Pairs Series::start() {
    Pairs pairs;
    for (const Arm& arm : arms_) {
        pairs.push_back(std::make_unique<Pair>(arm, setup_));
        if (!pairs.back()->library().empty()) libraries_.insert(pairs.back()->library());
        // Connections are set up, and become fast, with use.
        Order warm_up;
        warm_up.kind = arm.warm_up;
        warm_up.count = 500;
        pairs.back()->run(warm_up);
    }
    return pairs;
}

void Series::run_round(int round, Pairs& pairs, Lateness& lateness, Progress& progress) {
    for (Group& group : groups_) {
        const size_t count = group.entries.size();
        for (size_t i = 0; i < count; ++i) {
            Entry& entry = group.entries[round % 2 == 0 ? i : count - 1 - i];
            if (entry.offered) measure(group, entry, *pairs[entry.arm_index], lateness);
            progress.step();
        }
    }
}

void Series::measure(const Group& group, Entry& entry, Pair& pair, Lateness& lateness) {
    lateness.share();
    const Outcome outcome = pair.run(entry.order);
    entry.offered = !outcome.samples.empty();
    if (!entry.offered) return;
    Samples samples = converted(group, entry.order, outcome.samples);
    const double late = lateness.share();
    if (entry.has_first) {
        note(entry.first, {samples.front()}, outcome.cpu_share, late);
        samples.erase(samples.begin());
    }
    note(entry.measured, samples, outcome.cpu_share, late);
}

void Series::add_figures(const Group& group, bool first, std::vector<Figure>* figures) const {
    for (const Entry& entry : group.entries) {
        if (entry.offered && (!first || entry.has_first))
            figures->push_back(figure_of(group, entry, first));
    }
    for (const Ratio& ratio : group.ratios) {
        const Entry& entry = find(group, ratio.entry);
        const Entry& yardstick = find(group, ratio.yardstick);
        if (ratio.of_first != first || !entry.offered || !yardstick.offered) continue;
        Figure figure = outline(
            group, first, ratio.name.empty() ? entry.name + " / " + yardstick.name : ratio.name);
        figure.target = ratio.target;
        figure.late_share = late_share(entry, yardstick, first);
        figures->push_back(ratio_figure(std::move(figure),
                                        first ? entry.first.medians : entry.measured.medians,
                                        yardstick.measured.medians));
    }
}

Figure Series::figure_of(const Group& group, const Entry& entry, bool first) const {
    const Entry::Measured& measured = first ? entry.first : entry.measured;
    Figure figure = outline(group, first, entry.name);
    figure.unit = group.unit;
    figure.value = summarize(measured.all);
    figure.target = entry.target;
    figure.model = entry.model;
    figure.cpu_share = median(measured.cpu);
    if (!measured.late.empty()) figure.late_share = median(measured.late);
    doubt_value(&figure, measured.medians, setup_.cpus.has_value(),
                group.needs_cpu ? figure.cpu_share : kNone);
    if (figure.refused()) figure.doubts.push_back(percent_text("late %.0f%%", figure.late_share));
    return figure;
}

}  // namespace bench
