// SPDX-License-Identifier: BSD-3-Clause
// All possible orders of events, for small numbers of events.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include "exhaustive.h"
#include "schedules.h"
#include "tuple_world.h"

namespace tern {
namespace {

class Search {
  public:
    Search(const TupleScenario& scenario, Sabotage sabotage)
        : scenario_(scenario), sabotage_(sabotage) {}

    // True if no order of events goes wrong.
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
    uint64_t most_direct() const { return most_direct_; }

  private:
    // If all ends are good and there is no cycle, every state leads to a good end.
    bool visit(TupleWorld& world) {
        ++moves_;
        const Digest digest = world.digest();
        if (!seen_.insert(digest)) {
            if (std::find(below_.begin(), below_.end(), digest) == below_.end()) return true;
            wrong_ = "a circle";
            return false;
        }
        below_.push_back(digest);
        const bool good = visit_moves(world);
        below_.pop_back();
        return good;
    }

    bool visit_moves(TupleWorld& world) {
        TupleWorld::Moves moves;
        world.moves(moves);
        if (moves.empty()) {
            ++ends_;
            world.expect_end();
            most_direct_ = std::max<uint64_t>(most_direct_, world.direct_sends());
        }
        if (sabotage_ == Sabotage::kNone) world.expect_short_holds();
        if (!world.wrong().empty()) {
            wrong_ = world.wrong();
            return false;
        }
        for (const TupleMove& move : moves) {
            TupleWorld next(world);
            next.apply(move);
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
    uint64_t most_direct_ = 0;
    std::string wrong_;
    std::vector<Digest> below_;    // on the path from the start to the current state
    std::vector<TupleMove> path_;  // to the failure, the last move first
};

// The scenarios searched. Each is as large as can be searched in some seconds.
const TupleScenario kScenarios[] = {
    {.name = "LongMessagesAndCancels",
     .sends = {4},
     .posts = 4,
     .cancels = 2,
     .longest = 2,
     .bound = {{0, 1}},
     .sequence = 0xfffe,
     .epoch = 0x7ffe},
    {.name = "SlowSenderAndCancels",
     .sends = {3},
     .posts = 4,
     .cancels = 2,
     .longest = 2,
     .slow = true,
     .bound = {{0, 1}}},
    {.name = "SlowSenders",
     .peers = 2,
     .sends = {2, 2},
     .posts = 3,
     .cancels = 1,
     .unbinds = 1,
     .slow = true,
     .bound = {{0, 1}}},
    {.name = "Wildcards",
     .tags = 2,
     .queues = 2,
     .sends = {4},
     .posts = 4,
     .wildcards = 1,
     .bound = {{0, 1}, {0, 2}}},
    {.name = "WildcardsAndCancels",
     .tags = 2,
     .sends = {3},
     .posts = 4,
     .wildcards = 1,
     .cancels = 1,
     .bound = {{0, 1}}},
    {.name = "DeepQueue", .depth = 4, .sends = {5}, .posts = 6, .wildcards = 2, .bound = {{0, 1}}},
    {.name = "Rebinding",
     .tags = 2,
     .tuples = 1,
     .sends = {3},
     .posts = 3,
     .binds = 3,
     .unbinds = 2},
    {.name = "TagOfTwoPeers",
     .peers = 2,
     .sends = {3, 2},
     .posts = 4,
     .cancels = 1,
     .binds = 1,
     .bound = {{0, 1}}},
    {.name = "HeldMessagesAndWildcards",
     .peers = 2,
     .tags = 2,
     .queues = 2,
     .sends = {2, 2},
     .posts = 3,
     .wildcards = 1,
     .bound = {{0, 1}, {1, 2}}},
    {.name = "HeldMessagesOfATuple",
     .peers = 2,
     .tags = 2,
     .queues = 2,
     .sends = {2, 3},
     .posts = 3,
     .bound = {{0, 1}, {1, 2}},
     .only_tag = {1}},
    {.name = "OpenBits",
     .sends = {3},
     .posts = 4,
     .wildcards = 1,
     .cancels = 1,
     .open = true,
     .exacts = 1,
     .bound = {{0, 1}}},
    {.name = "KeyMaskChanges",
     .sends = {3},
     .posts = 3,
     .binds = 2,
     .open = true,
     .exacts = 2,
     .key_changes = 2},
    {.name = "DoneLate",
     .sends = {4},
     .posts = 4,
     .wildcards = 1,
     .cancels = 1,
     .late = true,
     .bound = {{0, 1}}},
    {.name = "TagOfTwoPeersDoneLate",
     .peers = 2,
     .sends = {2, 2},
     .posts = 3,
     .cancels = 1,
     .deaths = 1,
     .late = true,
     .bound = {{0, 1}}},
    {.name = "Death",
     .peers = 2,
     .sends = {3, 1},
     .posts = 4,
     .cancels = 1,
     .binds = 1,
     .deaths = 1,
     .bound = {{0, 1}}},
};

class TupleModel : public testing::TestWithParam<TupleScenario> {};

TEST_P(TupleModel, EveryOrderOfEvents) {
#if defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP()
        << "takes minutes with the sanitizer, which sees the same code in random schedules";
#endif
    Search search(GetParam(), Sabotage::kNone);
    EXPECT_TRUE(search.run()) << search.report();
    // In some order of events all messages were direct.
    EXPECT_GE(search.most_direct(), GetParam().sends[0]);
    RecordProperty("states", std::to_string(search.states()));
    if (number_from_environment("TERN_VERBOSE", 0) != 0)
        printf("%s: %lu states, %lu moves, %lu ends\n", GetParam().name, search.states(),
               search.moves(), search.ends());
}

INSTANTIATE_TEST_SUITE_P(All, TupleModel, testing::ValuesIn(kScenarios),
                         [](const auto& each) { return std::string(each.param.name); });

// Each rule, with a scenario in which the search notices that the rule is left out, and what is
// then wrong.
struct Rule {
    Sabotage sabotage;
    const char* scenario;
    const char* wrong;
};

constexpr const char* kQueueEmpty = "a direct message finds the queue empty";
constexpr const char* kWrongReceive = "a direct message is in the wrong receive";

const Rule kRules[] = {
    {Sabotage::kEpochIgnored, "LongMessagesAndCancels", kQueueEmpty},
    {Sabotage::kSequenceIgnored, "LongMessagesAndCancels", kQueueEmpty},
    {Sabotage::kCapacityIgnored, "LongMessagesAndCancels",
     "a direct message is longer than its receive"},
    {Sabotage::kGrantsStay, "Rebinding", kQueueEmpty},
    {Sabotage::kPostAfterGrant, "DeepQueue", kQueueEmpty},
    {Sabotage::kWildcardsIgnored, "Wildcards", kWrongReceive},
    {Sabotage::kMarksIgnored, "DeepQueue", "an ordinary message is in the wrong receive"},
    {Sabotage::kClaimsIgnored, "DeepQueue", "an ordinary message is in the wrong receive"},
    {Sabotage::kVoidsNotDrained, "LongMessagesAndCancels", kWrongReceive},
    {Sabotage::kDrainsEarly, "LongMessagesAndCancels", kWrongReceive},
    {Sabotage::kNotRead, "LongMessagesAndCancels", kWrongReceive},
    {Sabotage::kReadEarly, "LongMessagesAndCancels", kQueueEmpty},
    {Sabotage::kNotAnnounced, "LongMessagesAndCancels", kWrongReceive},
    {Sabotage::kNotLookedAgain, "SlowSenderAndCancels", kWrongReceive},
    {Sabotage::kCancelAtOnce, "LongMessagesAndCancels", kWrongReceive},
    {Sabotage::kAnswerOvertakes, "Rebinding", "a message is not accepted"},
    {Sabotage::kUnbindOvertakes, "Rebinding", kQueueEmpty},
    {Sabotage::kConflictIgnored, "TagOfTwoPeers", "a receive is canceled that does not wait"},
    {Sabotage::kHeldIgnored, "HeldMessagesOfATuple", kWrongReceive},
    {Sabotage::kMarksHeld, "HeldMessagesAndWildcards", "Closed is not accepted"},
    {Sabotage::kTagIgnored, "OpenBits", "a direct message has the tag of another"},
    {Sabotage::kKeyChangesAtOnce, "KeyMaskChanges", kWrongReceive},
};

class TupleRule : public testing::TestWithParam<Rule> {};

TEST_P(TupleRule, IsMissedWhenItIsLeftOut) {
    const auto scenario = std::ranges::find_if(kScenarios, [](const TupleScenario& each) {
        return std::string(each.name) == GetParam().scenario;
    });
    ASSERT_NE(scenario, std::end(kScenarios));
    Search search(*scenario, GetParam().sabotage);
    EXPECT_FALSE(search.run());
    EXPECT_TRUE(search.report().starts_with(GetParam().wrong)) << search.report();
    if (number_from_environment("TERN_VERBOSE", 0) != 0)
        printf("%s: %s\n", name_of(GetParam().sabotage), search.report().c_str());
}

INSTANTIATE_TEST_SUITE_P(All, TupleRule, testing::ValuesIn(kRules), [](const auto& each) {
    return std::string(name_of(each.param.sabotage));
});

}  // namespace
}  // namespace tern
