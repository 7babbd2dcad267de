// SPDX-License-Identifier: BSD-3-Clause
// Measurements that take turns, and their ratios.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/series/figure.h"
#include "bench/series/worker.h"

namespace bench {

// Measurements take turns, round after round, so that what disturbs the machine disturbs all of
// them; their ratios are taken round by round. Every other round runs the turns of a test
// backwards. The rounds are spread over a few starts of all processes, because where their memory
// lies makes a difference too.
class Series {
  public:
    struct Item {
        std::string test;
        uint32_t size = 0;  // of messages; 0 where it says nothing
        std::string name;
        size_t arm = 0;
        Order order = {};
        std::string unit = "us";
        bool rate = false;  // messages, not time
        double target = kNone;
        bool at_most = true;
        double model = kNone;
        std::string x_text = {};  // empty: the size
        Item* first = nullptr;    // what gets the first sample of each order
        bool follows = false;     // it is such an item
        // Whether it is doubted where a process had no CPU; not where it sleeps for much of the
        // time, until the other one is there.
        bool needs_cpu = true;

        Samples all = {};
        Samples medians = {};  // of the rounds
        Samples late = {};
        Samples cpu = {};
        bool offered = true;  // false: cannot be done, or is not asked for
    };

    // Only items whose size and name have the text `only` in them are measured, and those that they
    // are compared with.
    Series(const Setup& setup, int rounds, int starts, std::string only = {})
        : setup_(setup), rounds_(rounds), starts_(starts), only_(std::move(only)) {}

    // An arm that is there already is not added again.
    size_t add_arm(const Arm& arm);
    // Stays where it is. Items of a test and size stand behind one another.
    Item& add(Item item);
    // Adds the ratio of two items of the same test and size.
    void compare(const Item& item, const Item& yardstick, double target = kNone,
                 bool at_most = true, std::string name = {});

    // Throws Failure.
    std::vector<Figure> run();

  private:
    struct Comparison {
        const Item* item;
        const Item* yardstick;
        double target;
        bool at_most;
        std::string name;  // empty: of the items
    };
    class Lateness;
    using Pairs = std::vector<std::unique_ptr<Pair>>;

    void choose();
    Pairs start();
    void run_round(int round, Pairs& pairs, Lateness& lateness);
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
};

}  // namespace bench
