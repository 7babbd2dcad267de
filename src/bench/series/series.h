// SPDX-License-Identifier: BSD-3-Clause
// Interleaved measurements and their ratios.
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bench/series/figure.h"
#include "bench/series/worker.h"

namespace bench {

// In each round, all items are measured in turn, so that a disturbance of the machine affects all
// of them. Ratios are calculated for each round. Every second round measures the items of a test in
// reverse order. The rounds are divided among a few starts of all processes, because the placement
// of their memory affects results too.
class Series {
  public:
    struct Item {
        std::string test;
        uint32_t size = 0;  // of messages; 0 if there is none
        std::string name;
        size_t arm = 0;
        Order order = {};
        std::string unit = "us";
        bool rate = false;  // messages per time, not time
        double target = kNone;
        bool at_most = true;
        double model = kNone;
        std::string x_text = {};  // empty: the size
        Item* first = nullptr;    // gets the first sample of each order
        bool follows = false;     // this is the `first` of another item
        // Whether a lack of CPU time makes the figure doubtful. False if the processes sleep
        // between the samples.
        bool needs_cpu = true;

        Samples all = {};
        Samples medians = {};  // of the rounds
        Samples late = {};
        Samples cpu = {};
        bool offered = true;  // false: impossible or not requested
    };

    // Measures only the items whose "size name" contains `only`, and the items that they are
    // compared with.
    Series(const Setup& setup, int rounds, int starts, std::string only = {})
        : setup_(setup), rounds_(rounds), starts_(starts), only_(std::move(only)) {}

    // Returns the number of the arm. Equal arms are added once.
    size_t add_arm(const Arm& arm);
    // The reference stays valid. Items of one test and size must be added one after the other.
    Item& add(Item item);
    // Adds the ratio of two items of the same test and size.
    void compare(const Item& item, const Item& yardstick, double target = kNone,
                 bool at_most = true, std::string name = {});

    // Throws Failure.
    std::vector<Figure> run();
    // Of the arms, after run(): Port::library().
    const std::set<std::string>& libraries() const { return libraries_; }

  private:
    struct Comparison {
        const Item* item;
        const Item* yardstick;
        double target;
        bool at_most;
        std::string name;  // empty: made from the names of the items
    };
    class Lateness;
    class Progress;
    using Pairs = std::vector<std::unique_ptr<Pair>>;

    void choose();
    Pairs start();
    void run_round(int round, Pairs& pairs, Lateness& lateness, Progress& progress);
    void measure(Item& item, Pair& pair, Lateness& lateness);
    Figure figure_of(const Item& item) const;
    static Figure figure_of(const Comparison& comparison);

    const Setup& setup_;
    const int rounds_;
    const int starts_;
    const std::string only_;
    std::vector<Arm> arms_;
    std::deque<Item> items_;
    std::vector<Comparison> comparisons_;
    std::set<std::string> libraries_;
};

}  // namespace bench
