// SPDX-License-Identifier: BSD-3-Clause
// Things measured in turn, round after round, so that what disturbs the machine disturbs all of
// them; and compared with one another round by round.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/lateness.h"
#include "bench/softhca-bench/row.h"

namespace softhca::bench {

struct Session;

class Rounds {
  public:
    /// Samples of one round, in the unit of the item; none in the process that answers. Both
    /// processes call it at the same time.
    using Measure = std::function<Samples()>;

    struct Item {
        std::string label;
        const char* unit;
        Measure measure;
        const Item* yardstick = nullptr;  ///< what its ratio is to
        double target = kNone;
        double ratio_target = kNone;
        double model = kNone;

        Samples all = {};
        Samples medians = {};  ///< of the rounds
        Samples late = {};     ///< share of late operations in the rounds
    };

    explicit Rounds(Session& session) : session_(session) {}
    Rounds(const Rounds&) = delete;
    Rounds& operator=(const Rounds&) = delete;

    /// The item stays where it is, to be changed and to be a yardstick of others.
    Item& add(std::string label, const char* unit, Measure measure);
    /// Measures all and reports them in the order in which they were added.
    void run();

  private:
    void measure(Item& item);
    bool wanted(const Item& item) const;
    Row row_of(const Item& item) const;

    Session& session_;
    std::vector<std::unique_ptr<Item>> items_;
    LatenessWatch lateness_;
};

}  // namespace softhca::bench
