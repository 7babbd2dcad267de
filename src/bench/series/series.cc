// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/series.h"

#include <algorithm>
#include <cstdio>

#include "bench/series/interrupt.h"
#include "softhca/inspect/inspect.h"

namespace bench {
namespace {

// Samples of workers are us for each message.
Samples converted(const Group& group, Samples samples) {
    if (group.unit.ends_with("/s"))
        for (double& sample : samples) sample = group.size / sample;
    return samples;
}

void note(Entry::Measured& measured, const Samples& samples, double cpu, double late) {
    measured.all.insert(measured.all.end(), samples.begin(), samples.end());
    measured.medians.push_back(median(samples));
    measured.cpu.push_back(cpu);
    if (is_set(late)) measured.late.push_back(late);
}

Figure outline(const Group& group, std::string name) {
    Figure figure;
    figure.test = group.test;
    figure.x = group.size;
    figure.x_text = size_text(group.size);
    figure.name = std::move(name);
    return figure;
}

// A ratio is as late as the later one of its entries; kNone if nothing is known of them.
double late_share(const Entry& entry, const Entry& yardstick) {
    const auto share = [](const Entry::Measured& measured) {
        return measured.late.empty() ? kNone : median(measured.late);
    };
    return std::fmax(share(entry.measured), share(yardstick.measured));
}

// Two entries of one name are the same.
const Entry& find(const Group& group, const std::string& name) {
    const auto found = std::ranges::find(group.entries, name, &Entry::name);
    if (found == group.entries.end()) throw Failure("nothing is called " + name);
    return *found;
}

}  // namespace

void add_gap(const Setup& setup, const std::string& text) {
    std::fprintf(stderr, "incomplete: %s\n", text.c_str());
    setup.gaps->push_back(text);
}

void Entry::Measured::complete_round() {
    complete = all.size();
    complete_late = late.size();
}

void Entry::Measured::drop_incomplete(size_t rounds) {
    all.resize(complete);
    late.resize(complete_late);
    medians.resize(std::min(medians.size(), rounds));
    cpu.resize(std::min(cpu.size(), rounds));
}

// How often the software HCA was later than its timing model. Nothing is known of another device.
class Series::Lateness {
  public:
    explicit Lateness(const std::string& device) {
        if (!device.starts_with("softhca")) return;
        char ignored[1];
        fabric_ = softhca_inspect_open(nullptr, ignored, sizeof ignored);
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

void Series::number_arms(Group& group) {
    for (Entry& entry : group.entries) {
        const auto found = std::ranges::find(arms_, entry.arm);
        entry.arm_index = static_cast<size_t>(found - arms_.begin());
        if (found == arms_.end()) arms_.push_back(entry.arm);
    }
}

std::vector<Figure> Series::run() {
    size_t entries = 0;
    for (Group& group : groups_) {
        number_arms(group);
        entries += group.entries.size();
    }
    failed_.assign(arms_.size(), false);
    Progress progress(
        static_cast<uint32_t>(starts_ * arms_.size() + static_cast<size_t>(rounds_) * entries));
    int round = 0;
    for (int start_number = 0; start_number < starts_ && interrupted() == 0; ++start_number) {
        Pairs pairs = start(progress);
        Lateness lateness(setup_.device);
        const int end = rounds_ * (start_number + 1) / starts_;
        for (bool complete = true; round < end && complete; round += complete ? 1 : 0) {
            complete = interrupted() == 0 && run_round(round, pairs, lateness, progress);
            end_round(complete, round);
        }
        progress.end();
        if (round == end) finish(pairs);
    }
    progress.clear();
    if (round < rounds_)
        add_gap(setup_, "interrupted after " + std::to_string(round) + " of " +
                            std::to_string(rounds_) + " rounds");
    std::vector<Figure> figures;
    for (const Group& group : groups_) add_figures(group, &figures);
    return figures;
}

Series::Pairs Series::start(Progress& progress) {
    Pairs pairs(arms_.size());
    for (size_t i = 0; i < arms_.size() && interrupted() == 0; ++i) {
        if (failed_[i]) {
            progress.drop();
            continue;
        }
        progress.step("starting " + arms_[i].name);
        try {
            pairs[i] = std::make_unique<Pair>(arms_[i], setup_);
            // Connections are set up, and become fast, with use.
            Order warm_up;
            warm_up.kind = arms_[i].warm_up;
            warm_up.count = 500;
            pairs[i]->run(warm_up);
        } catch (const Failure& failure) {
            pairs[i].reset();
            give_up(i, failure, &progress);
        }
    }
    return pairs;
}

bool Series::run_round(int round, Pairs& pairs, Lateness& lateness, Progress& progress) {
    const std::string number =
        "round " + std::to_string(round + 1) + " of " + std::to_string(rounds_) + ", ";
    for (Group& group : groups_) {
        const std::string place = number + group.test + ", " + size_text(group.size) + ", ";
        const size_t count = group.entries.size();
        for (size_t i = 0; i < count; ++i) {
            if (interrupted() != 0) return false;
            Entry& entry = group.entries[round % 2 == 0 ? i : count - 1 - i];
            std::unique_ptr<Pair>& pair = pairs[entry.arm_index];
            if (!entry.offered || pair == nullptr) {
                progress.drop();
                continue;
            }
            progress.step(place + entry.name);
            try {
                measure(group, entry, *pair, lateness);
            } catch (const Failure& failure) {
                if (interrupted() != 0) return false;
                pair.reset();
                give_up(entry.arm_index, failure, &progress);
            }
        }
    }
    return true;
}

void Series::finish(Pairs& pairs) {
    for (size_t i = 0; i < pairs.size(); ++i) {
        try {
            if (pairs[i] != nullptr) pairs[i]->finish();
        } catch (const Failure& failure) {
            give_up(i, failure, nullptr);
        }
    }
}

void Series::end_round(bool complete, int rounds) {
    for (Group& group : groups_) {
        for (Entry& entry : group.entries) {
            complete ? entry.measured.complete_round()
                     : entry.measured.drop_incomplete(static_cast<size_t>(rounds));
        }
    }
}

void Series::give_up(size_t arm, const Failure& failure, Progress* progress) {
    // Before the others are stopped: what fails then fails because of the interrupt.
    if (interrupted() != 0) return;
    failed_[arm] = true;
    if (progress != nullptr) progress->clear();
    if (std::ranges::find(failed_, false) == failed_.end()) throw Failure(failure);
    add_gap(setup_, failure.what());
}

bool Series::has_figures(const Entry& entry) const {
    return entry.offered && !failed_[entry.arm_index] && !entry.measured.medians.empty();
}

void Series::measure(const Group& group, Entry& entry, Pair& pair, Lateness& lateness) {
    lateness.share();
    const Outcome outcome = pair.run(entry.order);
    entry.offered = !outcome.samples.empty();
    if (!entry.offered) return;
    note(entry.measured, converted(group, outcome.samples), outcome.cpu_share, lateness.share());
}

void Series::add_figures(const Group& group, std::vector<Figure>* figures) const {
    for (const Entry& entry : group.entries) {
        if (has_figures(entry)) figures->push_back(figure_of(group, entry));
    }
    for (const Ratio& ratio : group.ratios) {
        const Entry& entry = find(group, ratio.entry);
        const Entry& yardstick = find(group, ratio.yardstick);
        if (!has_figures(entry) || !has_figures(yardstick)) continue;
        Figure figure = outline(group, entry.name + " / " + yardstick.name);
        figure.late_share = late_share(entry, yardstick);
        figures->push_back(
            ratio_figure(std::move(figure), entry.measured.medians, yardstick.measured.medians));
    }
}

Figure Series::figure_of(const Group& group, const Entry& entry) const {
    const Entry::Measured& measured = entry.measured;
    Figure figure = outline(group, entry.name);
    figure.unit = group.unit;
    figure.value = summarize(measured.all);
    figure.cpu_share = median(measured.cpu);
    if (!measured.late.empty()) figure.late_share = median(measured.late);
    doubt_value(&figure, measured.medians, setup_.cpus.has_value(), figure.cpu_share);
    if (figure.refused()) figure.doubts.push_back(percent_text("late %.0f%%", figure.late_share));
    return figure;
}

}  // namespace bench
