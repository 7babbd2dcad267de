// SPDX-License-Identifier: BSD-3-Clause
// Every order in which things can happen, for small numbers of them.
#include <gtest/gtest.h>

#include <memory>

#include "schedules.h"
#include "tuple_world.h"

namespace tern {
namespace {

// The digests that have been seen. Two words each; a false hit would take two billion billion.
class Seen {
  public:
    Seen() : slots_(1 << 16) {}

    // False if it is there already.
    bool insert(const std::array<uint64_t, 2>& digest) {
        if (2 * count_ >= slots_.size()) grow();
        const bool is_new = place(slots_, digest);
        count_ += is_new;
        return is_new;
    }
    uint64_t count() const { return count_; }

  private:
    using Digest = std::array<uint64_t, 2>;

    static bool place(std::vector<Digest>& slots, const Digest& digest) {
        size_t i = digest[0] & (slots.size() - 1);
        while (slots[i] != Digest{}) {
            if (slots[i] == digest) return false;
            i = (i + 1) & (slots.size() - 1);
        }
        slots[i] = digest;
        return true;
    }
    void grow() {
        std::vector<Digest> larger(slots_.size() * 4);
        for (const Digest& digest : slots_)
            if (digest != Digest{}) place(larger, digest);
        slots_.swap(larger);
    }

    std::vector<Digest> slots_;
    uint64_t count_ = 0;
};

class Search {
  public:
    Search(const TupleScenario& scenario, Sabotage sabotage)
        : scenario_(scenario), sabotage_(sabotage) {}

    // True if nothing goes wrong, ever.
    bool run() {
        TupleWorld world(scenario_, sabotage_);
        return visit(world);
    }
    std::string report() const {
        std::string text = wrong_;
        for (size_t i = path_.size(); i-- != 0;) text += "\n  " + path_[i].text();
        return text;
    }
    uint64_t states() const { return seen_.count(); }
    uint64_t moves() const { return moves_; }
    uint64_t ends() const { return ends_; }
    uint64_t direct() const { return direct_; }
    uint64_t most_direct() const { return most_direct_; }

  private:
    // Every move uses something up, so no state comes twice on a path and the depth is bounded: if
    // all ends are good, every state leads to a good end.
    bool visit(TupleWorld& world) {
        ++moves_;
        if (!seen_.insert(world.digest())) return true;
        TupleWorld::Moves moves;
        world.moves(moves);
        if (moves.empty()) {
            ++ends_;
            world.expect_end();
            most_direct_ = std::max<uint64_t>(most_direct_, world.direct_sends());
        }
        if (!world.wrong().empty()) {
            wrong_ = world.wrong();
            return false;
        }
        for (const TupleMove& move : moves) {
            TupleWorld next(world);
            next.apply(move);
            direct_ += move.kind == TupleMove::Kind::kDirect;
            wrong_ = next.wrong();
            if (wrong_.empty() && visit(next)) continue;
            path_.push_back(move);
            return false;
        }
        return true;
    }

    TupleScenario scenario_;
    Sabotage sabotage_;
    Seen seen_;
    uint64_t moves_ = 0;
    uint64_t ends_ = 0;
    uint64_t direct_ = 0;
    uint64_t most_direct_ = 0;
    std::string wrong_;
    std::vector<TupleMove> path_;
};

std::vector<TupleScenario> scenarios() {
    std::vector<TupleScenario> all;
    all.push_back({.name = "one tuple, long messages, cancels",
                   .sends = {4},
                   .posts = 4,
                   .cancels = 1,
                   .longest = 2,
                   .bound = {{0, 1}},
                   .sequence = 0xfffe,
                   .epoch = 0x7ffe});
    all.push_back({.name = "two tags, wildcards",
                   .tags = 2,
                   .queues = 2,
                   .sends = {3},
                   .posts = 3,
                   .wildcards = 1,
                   .cancels = 1,
                   .bound = {{0, 1}, {0, 2}}});
    all.push_back({.name = "one tuple, a wildcard",
                   .depth = 4,
                   .sends = {4},
                   .posts = 5,
                   .wildcards = 1,
                   .bound = {{0, 1}}});
    all.push_back({.name = "re-binding one queue",
                   .tags = 2,
                   .tuples = 1,
                   .sends = {3},
                   .posts = 3,
                   .binds = 2,
                   .unbinds = 1});
    all.push_back({.name = "a tag of two peers",
                   .peers = 2,
                   .sends = {2, 2},
                   .posts = 3,
                   .cancels = 1,
                   .bound = {{0, 1}}});
    all.push_back({.name = "held messages",
                   .peers = 2,
                   .tags = 2,
                   .queues = 2,
                   .sends = {2, 2},
                   .posts = 3,
                   .wildcards = 1,
                   .bound = {{0, 1}, {1, 2}}});
    all.push_back({.name = "held messages of a tuple",
                   .peers = 2,
                   .tags = 2,
                   .queues = 2,
                   .sends = {1, 3},
                   .posts = 3,
                   .bound = {{0, 1}, {1, 2}},
                   .only_tag = {1}});
    all.push_back({.name = "death",
                   .peers = 2,
                   .sends = {3, 1},
                   .posts = 3,
                   .cancels = 1,
                   .binds = 1,
                   .deaths = 1,
                   .bound = {{0, 1}}});
    return all;
}

TEST(TupleModel, EveryOrderOfEvents) {
    for (const TupleScenario& scenario : scenarios()) {
        Search search(scenario, Sabotage::kNone);
        EXPECT_TRUE(search.run()) << scenario.name << ": " << search.report();
        printf("%-36s %9lu states %9lu moves %7lu ends %9lu direct %lu\n", scenario.name,
               search.states(), search.moves(), search.ends(), search.direct(),
               search.most_direct());
    }
}

TEST(TupleModel, EveryRuleIsNeeded) {
    for (int i = 1; i < static_cast<int>(Sabotage::kCount); ++i) {
        const auto sabotage = static_cast<Sabotage>(i);
        std::string found;
        for (const TupleScenario& scenario : scenarios()) {
            Search search(scenario, sabotage);
            if (search.run()) continue;
            found = std::string(scenario.name) + ": " + search.report();
            break;
        }
        EXPECT_FALSE(found.empty()) << name_of(sabotage);
        if (number_from_environment("TERN_VERBOSE", 0))
            printf("%s: %s\n", name_of(sabotage), found.c_str());
    }
}

}  // namespace
}  // namespace tern
