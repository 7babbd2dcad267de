// SPDX-License-Identifier: BSD-3-Clause
// Interleaved measurements and their ratios.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/report/figure.h"
#include "bench/series/progress.h"
#include "bench/series/worker.h"

namespace bench {

// What one arm does in a comparison, and what was measured.
struct Entry {
    std::string name;
    Arm arm;
    Order order;

    struct Measured {
        Samples all = {};
        Samples medians = {};  // of the rounds
        Samples late = {};
        Samples cpu = {};
        size_t complete = 0;  // of `all`, those of complete rounds
        size_t complete_late = 0;

        void complete_round();
        // Leaves out what was measured after `rounds` complete rounds.
        void drop_incomplete(size_t rounds);
    };
    Measured measured = {};
    bool offered = true;   // false: impossible
    size_t arm_index = 0;  // in the series
};

// Notes what a result lacks, and says it on stderr.
void add_gap(const Setup& setup, const std::string& text);

// Of two entries.
struct Ratio {
    std::string entry;
    std::string yardstick;
};

// All that is compared in one test with messages of one size.
struct Group {
    std::string test;
    uint32_t size = 0;        // of messages
    std::string unit = "us";  // or "MB/s"
    std::vector<Entry> entries = {};
    std::vector<Ratio> ratios = {};

    void add(std::string name, const Arm& arm, const Order& order,
             const std::vector<std::string>& yardsticks = {}) {
        for (const std::string& yardstick : yardsticks) compare(name, yardstick);
        entries.push_back({std::move(name), arm, order});
    }
    void compare(std::string entry, std::string yardstick) {
        ratios.push_back({std::move(entry), std::move(yardstick)});
    }
};

// In each round, all entries are measured in turn, so that a disturbance of the machine affects all
// of them. Ratios are calculated for each round. Every second round measures the entries of a group
// in reverse order. The rounds are divided among a few starts of all processes, because the
// placement of their memory affects results too.
//
// An arm that fails is left out, and noted in Setup::gaps. After an interrupt only complete rounds
// count.
class Series {
  public:
    Series(const Setup& setup, int rounds, int starts)
        : setup_(setup), rounds_(rounds), starts_(starts) {}

    // The reference is valid as long as the series. Fill the group before run().
    Group& add(Group group) { return groups_.emplace_back(std::move(group)); }
    // Throws Failure if all arms fail.
    std::vector<Figure> run();

  private:
    class Lateness;
    using Pairs = std::vector<std::unique_ptr<Pair>>;

    void number_arms(Group& group);
    // Null in the place of an arm that has failed.
    Pairs start(Progress& progress);
    // Returns false if it was interrupted.
    bool run_round(int round, Pairs& pairs, Lateness& lateness, Progress& progress);
    static void measure(const Group& group, Entry& entry, Pair& pair, Lateness& lateness);
    void finish(Pairs& pairs);
    void end_round(bool complete, int rounds);
    // Notes that an arm has failed. Throws the failure if nothing is left.
    void give_up(size_t arm, const Failure& failure, Progress* progress);
    bool has_figures(const Entry& entry) const;
    void add_figures(const Group& group, std::vector<Figure>* figures) const;
    Figure figure_of(const Group& group, const Entry& entry) const;

    const Setup& setup_;
    const int rounds_;
    const int starts_;
    std::vector<Arm> arms_;
    std::vector<bool> failed_;  // by arm
    std::deque<Group> groups_;
};

}  // namespace bench
