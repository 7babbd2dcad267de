// SPDX-License-Identifier: BSD-3-Clause
// The choice of a scheme by what the schemes have achieved, on simulated machines.
#include "tern/rendezvous/cost_model.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "common/seed.h"
#include "schedules.h"
#include "tern/rendezvous/decision.h"

namespace tern {
namespace scheme_timings_test {

using Way = SchemeTimings::Way;
using Offer = SchemeTimings::Offer;

constexpr uint64_t kKB = 1024;

// A machine on which the ways take other times than the model says.
class Machine {
  public:
    Machine(std::array<double, 3> factors, double noise, uint64_t seed)
        : factors_(factors), noise_(noise), random_(seed) {}

    double truth(const Offer& offer) const { return offer.time * factor(offer.way); }
    // Most messages are a little late, some much.
    double measure(const Offer& offer) {
        const double late = random_.chance(3) ? 30 : 1;
        const double share = static_cast<double>(random_.below(1000)) / 1000;
        return truth(offer) * (1 + noise_ * share) * (noise_ > 0 ? late : 1);
    }
    Random& random() { return random_; }

  private:
    double factor(Way way) const { return factors_[static_cast<size_t>(way)]; }

    std::array<double, 3> factors_;
    double noise_;
    Random random_;
};

struct Score {
    unsigned faster = 0;
    unsigned messages = 0;
    unsigned changes = 0;  // of the way
    double time = 0;       // all that the messages have taken
    double best = 0;       // the same by the faster way
};

// `count` messages; `offers(random, length)` returns the model's view of both ways.
template <class Offers>
Score run(SchemeTimings& timings, Machine& machine, unsigned count, Offers&& offers) {
    Score score;
    bool before = false;
    for (unsigned i = 0; i < count; ++i) {
        uint64_t length = 0;
        const std::array<Offer, 2> both = offers(machine.random(), length);
        const bool second = timings.choose(length, both[0], both[1], true);
        const Offer& chosen = both[second];
        timings.took(length, chosen.way, chosen.time, machine.measure(chosen));
        const double here = machine.truth(chosen) + chosen.work;
        const double other = machine.truth(both[!second]) + both[!second].work;
        score.time += here;
        score.best += std::min(here, other);
        ++score.messages;
        score.faster += here <= other;
        score.changes += i != 0 && second != before;
        before = second;
    }
    return score;
}

// Both ways of the model at one length.
auto at(uint64_t where, double staged, double other, Way way) {
    return [=](Random&, uint64_t& length) -> std::array<Offer, 2> {
        length = where;
        return {Offer{Way::kStaged, staged, 0}, Offer{way, other, 0}};
    };
}

double share(const Score& score) {
    return static_cast<double>(score.faster) / score.messages;
}

// The model may be wrong by three times about either way, or about both.
TEST(SchemeTimings, FindsTheFasterWay) {
    constexpr unsigned kLearning = 1500;
    const uint32_t seed = tern::test::any_seed();
    for (const Way way : {Way::kPlaced, Way::kPinning})
        for (const double noise : {0.0, 0.3})
            for (const double wrong_staged : {1 / 3.0, 1.0, 3.0})
                for (const double wrong_other : {1 / 3.0, 1.0, 3.0})
                    for (const double ratio : {0.5, 0.8, 1.25, 2.0}) {
                        // By the model, the other way takes `ratio` of the time.
                        const double true_ratio = ratio * wrong_other / wrong_staged;
                        if (std::abs(std::log(true_ratio)) < std::log(1.2)) continue;
                        std::array<double, 3> factors{wrong_staged, 1, 1};
                        factors[static_cast<size_t>(way)] = wrong_other;
                        Machine machine(factors, noise, seed);
                        SchemeTimings timings;
                        const auto offers = at(100 * kKB, 20e-6, 20e-6 * ratio, way);
                        (void)run(timings, machine, kLearning, offers);
                        const Score score = run(timings, machine, 4000, offers);
                        EXPECT_GE(share(score), 0.95)
                            << "model " << ratio << " truth " << true_ratio << " noise " << noise;
                    }
}

// The model of real costs, with messages of all lengths, on a machine whose copies are three times
// as slow as measured, or whose network is.
TEST(SchemeTimings, CorrectsTheDecider) {
    const uint32_t seed = tern::test::any_seed();
    for (const char* name : {"graphene", "infini", "hdr200"})
        for (const std::array<double, 3> factors :
             {std::array{1.0, 1.0, 1.0}, std::array{3.0, 1.0, 1.0}, std::array{1.0, 3.0, 3.0},
              std::array{1 / 3.0, 1.0, 1.0}, std::array{1.0, 1 / 3.0, 1 / 3.0}})
            for (const bool again : {false, true}) {
                const Decider decider(*find_costs(name), {});
                const BufferState buffer{.pinned = again};
                const auto offers = [&](Random& random, uint64_t& length) -> std::array<Offer, 2> {
                    length = random.between(8 * kKB, 16 * kKB) << random.below(12);
                    return {decider.staged(length), decider.placed(length, buffer, buffer)};
                };
                Machine machine(factors, 0.2, seed);
                SchemeTimings timings;
                (void)run(timings, machine, 20'000, offers);
                const Score score = run(timings, machine, 20'000, offers);
                EXPECT_LT(score.time / score.best, 1.05)
                    << name << " " << factors[0] << " " << factors[1] << " " << again;
            }
}

// Two ways that are equally fast: the one that is used is kept.
TEST(SchemeTimings, NoiseChangesNothing) {
    const uint32_t seed = tern::test::any_seed();
    for (const double ratio : {0.98, 1.02}) {
        Machine machine({1, 1, 1}, 0.3, seed);
        SchemeTimings timings;
        const unsigned count = 20'000;
        const Score score =
            run(timings, machine, count, at(100 * kKB, 20e-6, 20e-6 * ratio, Way::kPlaced));
        // Each try is two changes.
        EXPECT_LE(score.changes, 2 * (count / SchemeTimings::kRarely) + 10);
    }
}

// However bad the other way is.
TEST(SchemeTimings, TriesCostLittle) {
    for (const double worse : {1.2, 2.0, 4.0, 4.9, 20.0}) {
        Machine machine({1, 1, 1}, 0, 1);
        SchemeTimings timings;
        const Score score =
            run(timings, machine, 20'000, at(100 * kKB, 20e-6, 20e-6 * worse, Way::kPinning));
        EXPECT_LT(score.time / score.best, 1.02) << worse;
        EXPECT_EQ(score.faster == score.messages, worse > 5) << worse << " is tried";
    }
}

TEST(SchemeTimings, TriesOnlyWhenNothingElseIsUnderWay) {
    SchemeTimings timings;
    for (int i = 0; i < 1000; ++i)
        EXPECT_FALSE(timings.choose(kKB, {Way::kStaged, 1e-6}, {Way::kPlaced, 2e-6}, false));
}

// A peer that computes does not change what is known of the schemes.
TEST(SchemeTimings, LatePeersCountForNothing) {
    SchemeTimings timings;
    for (int i = 0; i < 100; ++i) timings.took(64 * kKB, Way::kStaged, 10e-6, 1e-3);
    EXPECT_EQ(timings.factor(64 * kKB, Way::kStaged), 1);
}

TEST(SchemeTimings, AFewSlowMessagesAreNotBelieved) {
    SchemeTimings timings;
    for (int i = 0; i < 5; ++i) timings.took(64 * kKB, Way::kStaged, 10e-6, 30e-6);
    EXPECT_EQ(timings.factor(64 * kKB, Way::kStaged), 1);
    for (int i = 0; i < 50; ++i) timings.took(64 * kKB, Way::kStaged, 10e-6, 30e-6);
    EXPECT_NEAR(timings.factor(64 * kKB, Way::kStaged), 3, 0.1);
    EXPECT_EQ(timings.factor(64 * kKB, Way::kPlaced), 1) << "another way";
    EXPECT_EQ(timings.factor(256 * kKB, Way::kStaged), 1) << "another length";
}

TEST(SchemeTimings, TimesThatMakeNoSense) {
    SchemeTimings timings;
    const double odd[] = {0, -1, std::nan(""), 1e-300, 1e300, INFINITY};
    for (const double expected : odd)
        for (const double time : odd) timings.took(kKB, Way::kStaged, expected, time);
    EXPECT_GT(timings.factor(kKB, Way::kStaged), 0);
    EXPECT_TRUE(std::isfinite(timings.factor(kKB, Way::kStaged)));
    for (const double one : odd)
        for (const double other : odd)
            (void)timings.choose(UINT64_MAX, {Way::kStaged, one, other}, {Way::kPlaced, other, one},
                                 true);
}

}  // namespace scheme_timings_test
}  // namespace tern
