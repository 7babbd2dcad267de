// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/series.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "bench/measure/clock.h"
#include "bench/series/rounds.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

constexpr double kLate = 0.05;  // share of operations

// Samples of workers are us for each message.
Samples converted(const Series::Item& item, Samples samples) {
    if (!item.rate) return samples;
    const double per_message = item.unit == "GB/s"   ? item.order.size / 1000.0
                               : item.unit == "MB/s" ? item.order.size
                                                     : 1;
    for (double& sample : samples) sample = per_message / sample;
    return samples;
}

void note(Series::Item& item, const Samples& samples, double cpu, double late) {
    item.all.insert(item.all.end(), samples.begin(), samples.end());
    item.medians.push_back(median(samples));
    item.cpu.push_back(cpu);
    if (is_set(late)) item.late.push_back(late);
}

Figure outline(const Series::Item& item, std::string name) {
    Figure figure;
    figure.test = item.test;
    figure.x = item.size;
    figure.x_text = item.x_text.empty() ? size_text(item.size) : item.x_text;
    figure.name = std::move(name);
    return figure;
}

bool same_group(const Series::Item& one, const Series::Item& other) {
    return one.test == other.test && one.size == other.size;
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

size_t Series::add_arm(const Arm& arm) {
    const auto found = std::ranges::find(arms_, arm);
    if (found != arms_.end()) return static_cast<size_t>(found - arms_.begin());
    arms_.push_back(arm);
    return arms_.size() - 1;
}

Series::Item& Series::add(Item item) {
    items_.push_back(std::move(item));
    return items_.back();
}

void Series::compare(const Item& item, const Item& yardstick, double target, bool at_most,
                     std::string name) {
    comparisons_.push_back({&item, &yardstick, target, at_most, std::move(name)});
}

void Series::choose() {
    const auto chosen = [&](const Item& item) {
        const std::string title =
            item.size == 0 ? item.name : size_text(item.size) + " " + item.name;
        return title.find(only_) != std::string::npos;
    };
    for (Item& item : items_) {
        item.offered = chosen(item) || std::ranges::any_of(comparisons_, [&](const auto& one) {
                           return one.yardstick == &item && chosen(*one.item);
                       });
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
                     100 * done_ / all_);
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
    choose();
    Progress progress(items_.size() * static_cast<size_t>(rounds_));
    for (int start_number = 0, round = 0; start_number < starts_; ++start_number) {
        Pairs pairs = start();
        Lateness lateness(setup_.device, setup_.fabric);
        for (const int end = rounds_ * (start_number + 1) / starts_; round < end; ++round) {
            run_round(round, pairs, lateness, progress);
        }
        for (const auto& pair : pairs) pair->finish();
    }
    std::vector<Figure> figures;
    for (auto item = items_.begin(); item != items_.end(); ++item) {
        if (item->offered) figures.push_back(figure_of(*item));
        if (item + 1 != items_.end() && same_group(*item, *(item + 1))) continue;
        for (const Comparison& comparison : comparisons_) {
            if (!same_group(*comparison.item, *item)) continue;
            if (!comparison.item->offered || !comparison.yardstick->offered) continue;
            figures.push_back(figure_of(comparison));
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
    for (auto first = items_.begin(); first != items_.end();) {
        const auto last = std::find_if(first, items_.end(),
                                       [&](const Item& item) { return !same_group(item, *first); });
        const auto count = last - first;
        for (std::ptrdiff_t i = 0; i < count; ++i) {
            Item& item = *(first + (round % 2 == 0 ? i : count - 1 - i));
            measure(item, *pairs[item.arm], lateness);
            progress.step();
        }
        first = last;
    }
}

void Series::measure(Item& item, Pair& pair, Lateness& lateness) {
    if (!item.offered || item.follows) return;
    lateness.share();
    const Outcome outcome = pair.run(item.order);
    item.offered = !outcome.samples.empty();
    if (item.first != nullptr) item.first->offered = item.offered;
    if (!item.offered) return;
    Samples samples = converted(item, outcome.samples);
    const double late = lateness.share();
    if (item.first != nullptr) {
        note(*item.first, {samples.front()}, outcome.cpu_share, late);
        samples.erase(samples.begin());
    }
    note(item, samples, outcome.cpu_share, late);
}

Figure Series::figure_of(const Item& item) const {
    Figure figure = outline(item, item.name);
    figure.unit = item.unit;
    figure.value = summarize(item.all);
    figure.target = item.target;
    figure.at_most = item.at_most;
    figure.model = item.model;
    figure.cpu_share = median(item.cpu);
    if (!item.late.empty()) figure.late_share = median(item.late);
    doubt_value(&figure, item.medians, setup_.cpus.has_value(),
                item.needs_cpu ? figure.cpu_share : kNone);
    if (figure.late_share > kLate)
        figure.doubts.push_back(percent_text("late %.0f%%", figure.late_share));
    return figure;
}

Figure Series::figure_of(const Comparison& comparison) {
    const Item& item = *comparison.item;
    const Item& yardstick = *comparison.yardstick;
    Figure figure = outline(
        item, comparison.name.empty() ? item.name + " / " + yardstick.name : comparison.name);
    figure.target = comparison.target;
    figure.at_most = comparison.at_most;
    return ratio_figure(std::move(figure), item.medians, yardstick.medians);
}

}  // namespace bench
