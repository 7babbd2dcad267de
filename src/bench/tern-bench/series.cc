// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/series.h"

#include <algorithm>
#include <cstdio>

#include "bench/measure/failure.h"

namespace bench {
namespace {

constexpr size_t kFewRounds = 5;
constexpr double kLate = 0.05;       // share of operations
constexpr double kOwnCpu = 0.95;     // share of the time
constexpr double kWideItem = 1.5;    // 90th percentile of the rounds' medians to the 10th
constexpr double kWideRatio = 1.25;  // the same of the rounds' ratios

std::string percent(const char* what, double share) {
    char text[64];
    std::snprintf(text, sizeof text, "%s %.0f%%", what, 100 * share);
    return text;
}

// Samples come as us for a message.
Samples converted(const Series::Item& item, Samples samples) {
    if (!item.rate) return samples;
    for (double& sample : samples)
        sample = item.unit == "GB/s" ? item.size / sample / 1000 : 1 / sample;
    return samples;
}

bool wide(const Samples& rounds, double limit) {
    const Summary summary = summarize(rounds);
    return summary.p90 > limit * summary.p10;
}

// The outermost round of few tells nothing of how wide the rest lie.
bool few(const Samples& rounds) {
    return rounds.size() < kFewRounds;
}

}  // namespace

std::string size_text(uint32_t size) {
    char text[32];
    constexpr uint32_t kKibi = 1 << 10;
    constexpr uint32_t kMebi = 1 << 20;
    if (size >= kMebi && size % kMebi == 0) {
        std::snprintf(text, sizeof text, "%u MiB", size / kMebi);
    } else if (size >= kKibi && (size % kKibi == 0 || size > 100 * kKibi)) {
        std::snprintf(text, sizeof text, "%u KiB", size / kKibi);
    } else {
        std::snprintf(text, sizeof text, "%u B", size);
    }
    return text;
}

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

std::vector<Figure> Series::run() {
    for (int start_number = 0, round = 0; start_number < starts_; ++start_number) {
        Pairs pairs = start();
        LatenessWatch lateness;
        for (const int end = rounds_ * (start_number + 1) / starts_; round < end; ++round) {
            run_round(round, pairs, lateness);
        }
        for (const auto& pair : pairs) pair->finish();
    }
    std::vector<Figure> figures;
    for (auto item = items_.begin(); item != items_.end(); ++item) {
        if (item->offered) figures.push_back(figure_of(*item));
        const auto next = item + 1;
        if (next != items_.end() && next->test == item->test && next->size == item->size) continue;
        for (const Comparison& comparison : comparisons_) {
            if (comparison.item->test != item->test || comparison.item->size != item->size)
                continue;
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
        // Connections come about and become fast with use.
        Order warm_up;
        warm_up.kind = arm.layer == Layer::kUct   ? Order::Kind::kMessages
                       : arm.layer == Layer::kUcp ? Order::Kind::kGoes
                                                  : Order::Kind::kWrites;
        warm_up.count = 500;
        pairs.back()->run(warm_up);
    }
    return pairs;
}

void Series::run_round(int round, Pairs& pairs, LatenessWatch& lateness) {
    for (auto first = items_.begin(); first != items_.end();) {
        const auto last = std::find_if(first, items_.end(), [&](const Item& item) {
            return item.test != first->test || item.size != first->size;
        });
        if (round % 2 == 0) {
            for (auto item = first; item != last; ++item)
                measure_item(*item, *pairs[item->arm], lateness);
        } else {
            for (auto item = last; item != first;) {
                --item;
                measure_item(*item, *pairs[item->arm], lateness);
            }
        }
        first = last;
    }
}

void Series::measure_item(Item& item, Pair& pair, LatenessWatch& lateness) {
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

void Series::note(Item& item, const Samples& samples, double cpu, double late) {
    append(&item.all, samples);
    item.medians.push_back(median(samples));
    item.cpu.push_back(cpu);
    if (is_set(late)) item.late.push_back(late);
}

std::vector<std::string> Series::doubts(const Item& item) const {
    std::vector<std::string> reasons;
    if (few(item.medians)) reasons.emplace_back("few rounds");
    if (!item.late.empty() && median(item.late) > kLate) {
        reasons.push_back(percent("late", median(item.late)));
    }
    if (!setup_.cpus) reasons.emplace_back("one CPU for both processes");
    if (median(item.cpu) < kOwnCpu) {
        reasons.push_back(percent("had a CPU for", median(item.cpu)));
    }
    if (wide(item.medians, kWideItem)) reasons.emplace_back("rounds differ");
    return reasons;
}

Figure Series::figure_of(const Item& item) const {
    Figure figure;
    figure.test = item.test;
    figure.x = item.size;
    figure.x_text = size_text(item.size);
    figure.name = item.name;
    figure.unit = item.unit;
    figure.value = summarize(item.all);
    if (!item.late.empty()) figure.late_share = median(item.late);
    figure.cpu_share = median(item.cpu);
    figure.doubts = doubts(item);
    return figure;
}

Figure Series::figure_of(const Comparison& comparison) const {
    const Item& item = *comparison.item;
    const Item& yardstick = *comparison.yardstick;
    Samples ratios;
    for (size_t i = 0; i < item.medians.size(); ++i) {
        ratios.push_back(item.medians[i] / yardstick.medians[i]);
    }
    Figure figure;
    figure.test = item.test;
    figure.x = item.size;
    figure.x_text = size_text(item.size);
    figure.name = comparison.name.empty() ? item.name + " / " + yardstick.name : comparison.name;
    figure.unit = std::string(1, kRatioUnit);
    figure.value = summarize(ratios);
    figure.target = comparison.target;
    figure.at_most = comparison.at_most;
    if (few(ratios)) figure.doubts.emplace_back("few rounds");
    if (wide(ratios, kWideRatio)) figure.doubts.emplace_back("rounds differ");
    if (figure.has_target() && figure.value.p10 < figure.target &&
        figure.target < figure.value.p90) {
        figure.doubts.emplace_back("target within the spread");
    }
    return figure;
}

}  // namespace bench
