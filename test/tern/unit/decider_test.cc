// SPDX-License-Identifier: BSD-3-Clause
// The choice of a message's scheme.
#include "tern/rendezvous/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "pipeline_run.h"
#include "schedules.h"

namespace tern {
namespace decider_test {

constexpr uint64_t kKB = 1024;
constexpr uint64_t kMB = 1024 * kKB;

constexpr BufferState kFresh = {};
constexpr BufferState kPinned = {.pinned = true};
constexpr BufferState kReturned = {.uses = 2};
constexpr BufferState kUsual = {.uses = 100'000};
constexpr BufferState kUnpinnable = {.can_pin = false};

Decider decider_of(std::string_view name, SchemeSetting scheme = SchemeSetting::kAuto) {
    return Decider(*find_costs(name), {.scheme = scheme});
}

// From 1 KB to 64 MB in steps of about 1.2, with odd lengths.
template <class Check>
void each_size(Check check) {
    for (uint64_t length = kKB; length < 64 * kMB; length = length * 6 / 5 + 1) check(length);
}

// The time that a plan takes if both buffers are seen for the first time.
double time_of(const Decider& decider, uint64_t length, const Decision& plan) {
    const CostModel& model = decider.model();
    return plan.staged() ? model.superpipeline(length, decider.staging(length))
                         : model.pinned_behind_wire(length, plan.piece);
}

double best_time(const Decider& decider, uint64_t length) {
    const CostModel& model = decider.model();
    const Staging staging = decider.staging(length);
    double best = model.superpipeline(length, staging);
    for (double piece = 4096; piece < 1.1 * static_cast<double>(length); piece *= 1.1)
        best = std::min(best, model.pinned_behind_wire(length, static_cast<uint64_t>(piece)));
    return best;
}

Decision receive(const Decider& decider, uint64_t length, const BufferState& own,
                 const BufferState& sender) {
    return decider.decide({.length = length, .sender = sender, .own = own});
}

void expect_plan(const Decision& plan, Scheme scheme) {
    EXPECT_EQ(name_of(plan.scheme), name_of(scheme));
}

TEST(Decider, ReadsGoInPlaceOnceTheirMemoryIsWorthAPin) {
    Costs costs = *find_costs("graphene");
    costs.registration.look = 100e-9;
    const Decider decider(costs, {});
    const auto in_place = [&](uint64_t length, BufferState own) {
        return decider.reads_in_place(length, length, own);
    };
    EXPECT_FALSE(in_place(8 * kKB, kFresh));
    EXPECT_FALSE(in_place(8 * kKB, kReturned)) << "a copy takes less than half a registration";
    EXPECT_TRUE(in_place(8 * kKB, kUsual));
    EXPECT_TRUE(in_place(8 * kKB, kPinned));
    EXPECT_FALSE(in_place(8, kPinned)) << "a copy takes less than a look";
    EXPECT_FALSE(in_place(8 * kKB, {.can_pin = false, .uses = 100'000}));
    EXPECT_FALSE(in_place(8 * kKB, {.uses = 100'000, .keeps = false}));
    EXPECT_FALSE(decider_of("graphene", SchemeSetting::kSuperpipeline)
                     .reads_in_place(8 * kKB, 8 * kKB, kUsual));
    uint32_t uses = 1;
    while (!in_place(4 * kKB, {.uses = uses})) ++uses;
    EXPECT_FALSE(decider.reads_in_place(4 * kKB, kMB, {.uses = uses})) << "more is to be pinned";
}

// For bytes that are sent only once, no registration pays for itself.
TEST(Decider, FreshBuffersAreStagedWhereCopiesAreFaster) {
    for (const char* name : {"graphene", "infini"}) {
        const Decider decider = decider_of(name);
        each_size([&](uint64_t length) {
            expect_plan(receive(decider, length, kFresh, kFresh), Scheme::kStaged);
        });
    }
}

TEST(Decider, IsWithinATwentiethOfTheBestScheme) {
    for (const char* name : {"graphene", "infini", "hdr200"}) {
        const Decider decider = decider_of(name);
        each_size([&](uint64_t length) {
            const Decision plan = receive(decider, length, kFresh, kFresh);
            EXPECT_LT(time_of(decider, length, plan) / best_time(decider, length), 1.05)
                << name << " " << length << " " << name_of(plan.scheme);
        });
    }
}

// The network is faster than copies, and the message long enough to pay for a registration.
TEST(Decider, LargeMessagesArePinnedWhereTheNetworkIsFaster) {
    const Decider decider = decider_of("hdr200");
    for (uint64_t length = 3 * kMB; length <= 64 * kMB; length *= 2) {
        ASSERT_LT(decider.model().ratio(length), 1);
        EXPECT_EQ(receive(decider, length, kFresh, kFresh).scheme, Scheme::kPlaced);
    }
    EXPECT_EQ(receive(decider, 64 * kKB, kFresh, kFresh).scheme, Scheme::kStaged)
        << "30 us of registration for 4 us of copies";
}

TEST(Decider, BuffersThatComeBackReachTheSpeedOfTheNetwork) {
    for (const char* name : {"graphene", "infini", "hdr200"}) {
        const Decider decider = decider_of(name);
        each_size([&](uint64_t length) {
            for (const BufferState& own : {kPinned, kUsual}) {
                for (const BufferState& sender : {kPinned, kReturned, kFresh, kUnpinnable})
                    expect_plan(receive(decider, length, own, sender), Scheme::kPlaced);
                EXPECT_FALSE(decider.decide_buffer({.length = length, .own = own}).staged());
            }
            // A long message pays for the registration at once.
            if (length > kMB)
                expect_plan(receive(decider, length, kReturned, kReturned), Scheme::kPlaced);
            // Both are pinned: nothing is left to pin, and the model knows no faster way.
            EXPECT_EQ(receive(decider, length, kPinned, kPinned).piece, 0u);
            EXPECT_EQ(decider.decide_buffer({.length = length, .own = kPinned}).piece, 0u);
        });
    }
}

TEST(Decider, ReuseIsASetting) {
    BufferState buffer = {.uses = 1};
    EXPECT_EQ(receive(decider_of("graphene"), kMB, buffer, kFresh).scheme, Scheme::kStaged);
    EXPECT_TRUE(decider_of("graphene").decide_buffer({.length = kMB, .own = buffer}).staged());
    const Decider reluctant(*find_costs("graphene"), {.worth_pinning = 10});
    buffer.uses = 9;
    EXPECT_EQ(receive(reluctant, kMB, buffer, kFresh).scheme, Scheme::kStaged);
    buffer.uses = 10;
    EXPECT_EQ(receive(reluctant, kMB, buffer, kFresh).scheme, Scheme::kPlaced);
}

TEST(Decider, WhatCannotBePinnedIsCopied) {
    BufferState unpinnable = {.can_pin = false, .uses = 100};
    for (const SchemeSetting setting :
         {SchemeSetting::kAuto, SchemeSetting::kSuperpipeline, SchemeSetting::kZeroCopy}) {
        for (const char* name : {"graphene", "hdr200"}) {
            const Decider decider = decider_of(name, setting);
            each_size([&](uint64_t length) {
                expect_plan(receive(decider, length, unpinnable, kPinned), Scheme::kStaged);
                EXPECT_TRUE(decider.decide_buffer({.length = length, .own = unpinnable}).staged());
            });
        }
    }
    // Pinned already, although no more memory can be pinned.
    const BufferState last = {.pinned = true, .can_pin = false};
    EXPECT_EQ(receive(decider_of("graphene"), kMB, last, last).scheme, Scheme::kPlaced);
    EXPECT_FALSE(decider_of("graphene").decide_buffer({.length = kMB, .own = last}).staged());
}

TEST(Decider, TheSenderGathersWhereThatIsFaster) {
    const Decider graphene = decider_of("graphene");
    const Decider hdr200 = decider_of("hdr200");
    each_size([&](uint64_t length) {
        EXPECT_TRUE(graphene.decide_buffer({.length = length, .own = kFresh}).staged());
    });
    EXPECT_TRUE(hdr200.decide_buffer({.length = 64 * kKB, .own = kFresh}).staged());
    EXPECT_FALSE(hdr200.decide_buffer({.length = 16 * kMB, .own = kFresh}).staged());
    EXPECT_GT(hdr200.decide_buffer({.length = 16 * kMB, .own = kFresh}).piece, 0u)
        << "behind the wire";
}

// Pinning at the receiver gains nothing if the sender must copy.
TEST(Decider, BothSidesCount) {
    const Decider hdr200 = decider_of("hdr200");
    EXPECT_EQ(receive(hdr200, 16 * kMB, kFresh, kFresh).scheme, Scheme::kPlaced);
    EXPECT_EQ(receive(hdr200, 16 * kMB, kFresh, kUnpinnable).scheme, Scheme::kStaged);
}

TEST(Decider, ASettingForcesAScheme) {
    for (const char* name : {"graphene", "hdr200"}) {
        each_size([&](uint64_t length) {
            const Decider staged = decider_of(name, SchemeSetting::kSuperpipeline);
            expect_plan(receive(staged, length, kPinned, kPinned), Scheme::kStaged);
            EXPECT_TRUE(staged.decide_buffer({.length = length, .own = kReturned}).staged());

            const Decider direct = decider_of(name, SchemeSetting::kZeroCopy);
            expect_plan(receive(direct, length, kFresh, kFresh), Scheme::kPlaced);
            EXPECT_FALSE(direct.decide_buffer({.length = length, .own = kFresh}).staged());
        });
    }
    EXPECT_STREQ(kSchemeSettings[static_cast<int>(SchemeSetting::kZeroCopy)], "zcopy");
    EXPECT_EQ(kSchemeSettings[3], nullptr);
    EXPECT_EQ(name_of(Scheme::kPlaced), "zcopy");
}

// A registration is worth what it saves, if the buffer is used as many times again.
TEST(Decider, ARegistrationPaysForItself) {
    const auto first_use = [](const Costs& costs, uint64_t length) {
        const Decider decider(costs, {});
        BufferState own = {.uses = 2};
        while (receive(decider, length, own, kPinned).staged()) ++own.uses;
        return own.uses;
    };
    Costs costs = *find_costs("graphene");
    EXPECT_EQ(first_use(costs, 2 * kMB), 2u);
    const uint32_t uses = first_use(costs, 64 * kKB);
    // Two copies at 20 GB/s, and a registration of 68 us and more.
    EXPECT_GT(uses, 71 / 7.5);
    EXPECT_LT(uses, 71 / 6.0);
    EXPECT_GT(first_use(costs, 16 * kKB), uses);
    costs.registration.release = 68e-6;
    EXPECT_NEAR(first_use(costs, 64 * kKB), 2 * uses, 2) << "it is also deregistered";
}

TEST(Decider, APinThatIsNotKeptIsNotWorthIt) {
    const Decider decider = decider_of("graphene");
    const BufferState lost = {.uses = 1000, .keeps = false};
    expect_plan(receive(decider, kMB, lost, lost), Scheme::kStaged);
    EXPECT_TRUE(decider.decide_buffer({.length = kMB, .own = lost}).staged());
    expect_plan(receive(decider_of("hdr200"), 16 * kMB, lost, lost), Scheme::kPlaced);
}

// Both sides copy, and both check their pins.
TEST(Decider, TheCostsOfBothSidesCount) {
    Costs costs;
    costs.network = {0.7e-6, 12e9, 100e-9, 100e-9, 2e-6};
    costs.copy = {13e9, 8e9, 2e6};
    costs.registration = {5e-6, 50e9, 0.5e-6};
    const auto plan = [&](uint64_t length) {
        return receive(Decider(costs, {}), length, kPinned, kPinned).scheme;
    };
    EXPECT_EQ(plan(8 * kKB), Scheme::kStaged);
    EXPECT_EQ(plan(64 * kKB), Scheme::kPlaced);
    costs.registration.look = 5e-6;
    EXPECT_EQ(plan(64 * kKB), Scheme::kStaged) << "both sides look for 5 us";
    costs.registration.look = 0.5e-6;
    costs.copy = {60e9, 60e9, 2e6};
    EXPECT_EQ(plan(64 * kKB), Scheme::kStaged) << "copies are cheap";
}

// Up to some length, the fixed cost of zero-copy is higher than the cost of the copies.
TEST(Decider, ShortMessagesAreStagedEvenBetweenPinnedBuffers) {
    Costs costs = *find_costs("graphene");
    costs.registration.look = 1.2e-6;
    costs.network.notice = 2e-6;
    const Decider decider(costs, {});
    bool in_place = false;
    each_size([&](uint64_t length) {
        const bool staged = receive(decider, length, kPinned, kPinned).staged();
        EXPECT_FALSE(in_place && staged) << length;
        in_place = !staged;
        EXPECT_TRUE(in_place || length <= 100 * kKB) << length;
    });
    EXPECT_EQ(receive(decider, 8 * kKB, kPinned, kPinned).scheme, Scheme::kStaged);
}

// Each piece is pinned while the piece before it is on the wire.
TEST(Decider, PiecesGrowWhereRegistrationIsFasterThanTheWire) {
    const Decider decider = decider_of("graphene", SchemeSetting::kZeroCopy);
    const CostModel& model = decider.model();
    uint64_t piece = receive(decider, 16 * kMB, kFresh, kFresh).piece;
    uint64_t pieces = 1;
    for (uint64_t pinned = piece; pinned < 16 * kMB; ++pieces) {
        const uint64_t next = decider.next_piece(piece);
        ASSERT_GE(next, piece);
        EXPECT_EQ(next % CostModel::kPage, 0u);
        EXPECT_LT(model.registration(static_cast<double>(next)),
                  static_cast<double>(piece) / model.costs().network.bandwidth);
        piece = next;
        pinned += piece;
    }
    EXPECT_GT(piece, kMB);
    EXPECT_LT(pieces, 14u);

    Costs slow = *find_costs("graphene");
    slow.registration.bandwidth = 1e9;
    const Decider equal(slow, {.scheme = SchemeSetting::kZeroCopy});
    EXPECT_EQ(equal.next_piece(64 * kKB), 64 * kKB) << "pinning lags behind whatever is done";
}

// However long the message: a call of progress registers no more at once.
TEST(Decider, APieceTakesLittleTime) {
    for (const char* name : {"graphene", "infini", "hdr200"}) {
        const Decider decider = decider_of(name, SchemeSetting::kZeroCopy);
        const uint64_t longest = decider.longest_piece();
        EXPECT_LT(decider.model().registration(static_cast<double>(longest)), 150e-6) << name;
        EXPECT_GE(longest, kMB) << name;
        for (uint64_t length = kMB; length <= 4096 * kMB; length = length * 2 + 4711)
            for (const BufferState& own : {kFresh, kReturned}) {
                const Decision plan = receive(decider, length, own, own);
                const auto pinned = static_cast<double>(plan.piece != 0 ? plan.piece : length);
                EXPECT_LE(plan.piece, longest) << name;
                EXPECT_LT(decider.model().registration(pinned), 175e-6) << name;
                const Decision source = decider.decide_buffer({.length = length, .own = own});
                const auto sent = static_cast<double>(source.piece != 0 ? source.piece : length);
                EXPECT_LE(source.piece, longest) << name;
                EXPECT_LT(decider.model().registration(sent), 175e-6) << name;
                EXPECT_LE(decider.next_piece(plan.piece), longest) << name;
            }
    }
    Costs slow = *find_costs("graphene");
    slow.registration = {.latency = 1, .bandwidth = 1e6};
    EXPECT_EQ(Decider(slow, {}).longest_piece(), 256 * kKB) << "but not nothing";
}

// So that a part of it is found again, too.
TEST(Decider, PiecesOfABufferThatIsUsedAgainHaveOneLength) {
    const Decider decider = decider_of("graphene");
    const Decision plan = receive(decider, 64 * kMB, kReturned, kFresh);
    EXPECT_TRUE(plan.reused);
    EXPECT_EQ(plan.piece, decider.longest_piece());
    EXPECT_EQ(receive(decider, 2 * kMB, kReturned, kFresh).piece, 0u) << "one pin";
    EXPECT_EQ(decider.decide_buffer({.length = 64 * kMB, .own = kReturned}).piece,
              decider.longest_piece());
}

TEST(Decider, PinsAllBeforeIfItMustNotOverlap) {
    const Decider decider(*find_costs("graphene"),
                          {.scheme = SchemeSetting::kZeroCopy, .overlap = false});
    EXPECT_EQ(receive(decider, 16 * kMB, kFresh, kFresh).piece, 0u);
    EXPECT_EQ(decider.decide_buffer({.length = 16 * kMB, .own = kFresh}).piece, 0u);
}

TEST(Decider, ChunksGrowNoFasterThanCopiesAllow) {
    const Decider graphene = decider_of("graphene");
    EXPECT_EQ(graphene.limits(64 * kKB, 192).q, 1.5);
    EXPECT_EQ(graphene.limits(64 * kKB, 192).first_bytes, 12 * kKB);
    EXPECT_EQ(graphene.limits(64 * kKB, 192).most, 64u);
    EXPECT_EQ(graphene.limits(64 * kKB, 96, 2).most, 48u);
    EXPECT_EQ(graphene.limits(64 * kKB, 4096).most, 64u) << "copied in 100 us";
    EXPECT_NEAR(graphene.limits(64 * kMB, 192).q, 2.65 / 2.0, 0.01);
    EXPECT_EQ(decider_of("hdr200").limits(64 * kMB, 192).q, 1);
}

// Equation 3, where q <= 1, and growing chunks elsewhere: as good as the best of a sweep, but for
// the first chunk of a message of few, which an early copy may hide or not.
TEST(Decider, ChunksAreThoseOfASweep) {
    constexpr double kGB = 1e9;
    for (const double wire : {2.0, 12.5, 25.0, 50.0})
        for (const double copy : {6.0, 10.0, 20.0}) {
            Costs costs{{1e-6, wire * kGB, 100e-9, 100e-9}, {copy * kGB, copy * kGB}, {}};
            const Decider decider(costs, {.staging = {.most = 21.0 * SubBlocks::kSubBlock}});
            const CostModel& model = decider.model();
            for (const uint64_t length : {512 * kKB, kMB, 16 * kMB})
                for (const bool early : {true, false}) {
                    Staging chosen = decider.staging(length);
                    chosen.early = early;
                    Staging each = chosen;
                    double best = model.superpipeline(length, chosen);
                    for (each.first = SubBlocks::kSubBlock; each.first <= each.most;
                         each.first += SubBlocks::kSubBlock)
                        for (each.q = 1; each.q <= 2; each.q += 0.125)
                            best = std::min(best, model.superpipeline(length, each));
                    EXPECT_LE(model.superpipeline(length, chosen), 1.03 * best)
                        << wire << " " << copy << " " << length << " " << early;
                }
        }
}

// A simulation with the decider's chunks: "overhead below 5 % from 64 KB up".
TEST(Decider, ItsSchedulesKeepTheWireBusy) {
    for (const char* name : {"graphene", "infini"}) {
        const Decider decider = decider_of(name);
        for (const uint32_t slots : {64u, 192u}) {
            each_size([&](uint64_t length) {
                if (length < 16 * kKB) return;
                PipelineRun run(decider.model(), length);
                run.stage(length, decider.limits(length, slots));
                EXPECT_LT(run.time() / decider.model().raw(length), length < 64 * kKB ? 1.15 : 1.05)
                    << name << " " << length;
            });
        }
    }
}

TEST(Decider, PlansAreSound) {
    const double odd[] = {0,    -1,    std::nan(""),
                          1e-6, 68e-6, 1e9,
                          20e9, 1e300, std::numeric_limits<double>::infinity()};
    const auto any = [&](Random& random) { return odd[random.below(std::size(odd))]; };
    each_schedule(20'000, [&](Random random) -> std::string {
        Costs costs;
        costs.network = {any(random), any(random), any(random), any(random), any(random)};
        costs.copy = {any(random), any(random), any(random)};
        costs.registration = {any(random), any(random), any(random)};
        Decider::Settings settings;
        settings.scheme = static_cast<SchemeSetting>(random.below(3));
        settings.margin = any(random);
        settings.staging.first = any(random);
        settings.staging.q = any(random);
        settings.staging.most = any(random);
        const Decider decider(costs, settings);
        const auto buffer = [&] {
            return BufferState{random.chance(30), random.chance(70),
                               static_cast<uint32_t>(random.below(4))};
        };
        const uint64_t length = random.chance(10) ? 0 : random() >> random.between(16, 63);
        const BufferState own = buffer();
        const Decision plan = receive(decider, length, own, buffer());
        if (plan.staged() && plan.piece != 0) return "staged, and pinned";
        if (!plan.staged() && length == 0) return "nothing, in place";
        if (plan.piece % 4096 != 0 || (plan.piece > 0 && plan.piece >= length)) return "piece";
        if (!plan.staged() && !own.pinned && !own.can_pin) return "pins what it cannot";
        if (own.pinned && plan.piece != 0) return "pins what is pinned";
        const BufferState source = buffer();
        const Decision send = decider.decide_buffer({.length = length, .own = source});
        if (!send.staged() && !source.pinned && !source.can_pin)
            return "gathers what it cannot pin";
        if (send.piece % 4096 != 0 || (send.piece > 0 && send.piece >= length)) return "its piece";
        const ScheduleLimits limits = decider.limits(length, 192);
        return limits.q >= 1 && limits.first_bytes > 0 ? "" : "limits";
    });
}

}  // namespace decider_test
}  // namespace tern
