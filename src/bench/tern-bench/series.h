// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/lateness.h"
#include "bench/tern-bench/arm.h"
#include "bench/tern-bench/figure.h"
#include "bench/tern-bench/pair.h"

namespace bench {

// Measurements that take turns, round after round, so that what disturbs the machine disturbs all
// of them; and their ratios, taken round by round. Every other round runs the turns of a test
// backwards. The rounds are spread over a few starts of all processes, because where their memory
// lies makes a difference too.
class Series {
  public:
    struct Item {
        std::string test;
        uint32_t size = 0;
        std::string name;
        size_t arm = 0;
        Order order;
        bool rate = false;  // of a stream: messages, not time
        std::string unit;
        Item* first = nullptr;  // what gets the first sample of each order
        bool follows = false;   // it is such an item

        Samples all = {};
        Samples medians = {};  // of the rounds
        Samples late = {};
        Samples cpu = {};
        bool offered = true;  // false: cannot be done
    };

    Series(const Setup& setup, int rounds, int starts)
        : setup_(setup), rounds_(rounds), starts_(starts) {}

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
    using Pairs = std::vector<std::unique_ptr<Pair>>;

    Pairs start();
    void run_round(int round, Pairs& pairs, LatenessWatch& lateness);
    void measure_item(Item& item, Pair& pair, LatenessWatch& lateness);
    static void note(Item& item, const Samples& samples, double cpu, double late);
    Figure figure_of(const Item& item) const;
    Figure figure_of(const Comparison& comparison) const;
    std::vector<std::string> doubts(const Item& item) const;

    const Setup& setup_;
    const int rounds_;
    const int starts_;
    std::vector<Arm> arms_;
    std::deque<Item> items_;
    std::vector<Comparison> comparisons_;
};

std::string size_text(uint32_t size);

}  // namespace bench
