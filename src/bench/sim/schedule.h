// SPDX-License-Identifier: BSD-3-Clause
// Who runs next in a simulation. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace bench::sim {

// A rank whose processor's clock has come to `time` ns.
struct Turn {
    uint64_t time;
    uint32_t rank;

    friend bool operator>(const Turn& one, const Turn& other) {
        return std::tie(one.time, one.rank) > std::tie(other.time, other.rank);
    }
};

// The ranks, each with the clock of its processor. The rank with the least clock runs: what others
// do later cannot change what it sees. Of several, that with the lowest number, so that runs are
// the same.
class Schedule {
  public:
    void add(const Turn& turn) { turns_.push(turn); }
    bool empty() const { return turns_.empty(); }
    // Takes the next turn. The caller adds the rank again when it has run.
    Turn take() {
        const Turn turn = turns_.top();
        turns_.pop();
        return turn;
    }

  private:
    std::priority_queue<Turn, std::vector<Turn>, std::greater<>> turns_;
};

}  // namespace bench::sim
