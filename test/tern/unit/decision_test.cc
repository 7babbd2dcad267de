// SPDX-License-Identifier: BSD-3-Clause
// Tables of what is decided, and why.
#include "tern/rendezvous/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "tern/rendezvous/decision.h"

namespace tern {
namespace decision_test {

constexpr uint64_t kKB = 1024;
constexpr uint64_t kMB = 1024 * kKB;

constexpr BufferState kFresh = {.uses = 1};
constexpr BufferState kPinned = {.pinned = true, .uses = 2};
constexpr BufferState kUsed = {.uses = 100'000};
constexpr BufferState kSeldom = {.uses = 2};
constexpr BufferState kTooLong = {.can_pin = false, .uses = 100'000};
constexpr BufferState kOfDevice = {.pinned = true, .of_device = true};
constexpr BufferState kNotKept = {.uses = 100'000, .keeps = false};

constexpr SchemeSetting kAuto = SchemeSetting::kAuto;
constexpr SchemeSetting kSuperpipeline = SchemeSetting::kSuperpipeline;
constexpr SchemeSetting kZeroCopy = SchemeSetting::kZeroCopy;

// Copies are faster than the network, and registrations slow; or the other way round.
const char* const kSlowNetwork = "graphene";
const char* const kFastNetwork = "hdr200";

struct Row {
    const char* name;
    const char* costs;
    SchemeSetting setting;
    DecisionInputs inputs;
    Scheme scheme;
    Reason reason;
    bool in_pieces = false;
    bool reused = false;
};

const Row kRows[] = {
    // The processor may not touch the receiver's memory: no setting and no cost counts.
    {"of a device",
     kSlowNetwork,
     kSuperpipeline,
     {.length = 1, .own = kOfDevice},
     Scheme::kPlaced,
     Reason::kPinned},
    {"of a device, longer",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .own = kOfDevice},
     Scheme::kPlaced,
     Reason::kPinned},
    {"of a device, readable",
     kSlowNetwork,
     kSuperpipeline,
     {.length = 1, .readable = true, .own = kOfDevice},
     Scheme::kRead,
     Reason::kReused},
    // A message with an rkey.
    {"readable, used buffer",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .readable = true, .own = kUsed},
     Scheme::kRead,
     Reason::kReused},
    {"readable, second use",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .readable = true, .own = kSeldom},
     Scheme::kRead,
     Reason::kReused},
    {"readable, fresh buffer",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .sender = kPinned, .readable = true, .own = kFresh},
     Scheme::kStaged,
     Reason::kFaster},
    {"readable, too long",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .readable = true, .own = kTooLong},
     Scheme::kStaged,
     Reason::kCannotPin},
    {"readable, pins not kept",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .readable = true, .own = kNotKept},
     Scheme::kStaged,
     Reason::kFaster},
    {"readable, staging is set",
     kSlowNetwork,
     kSuperpipeline,
     {.length = kMB, .readable = true, .own = kUsed},
     Scheme::kStaged,
     Reason::kSetting},
    {"readable, zero-copy is set",
     kSlowNetwork,
     kZeroCopy,
     {.length = kMB, .readable = true, .own = kUsed},
     Scheme::kRead,
     Reason::kReused},
    {"readable, several pieces",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .readable = true, .one_piece = false},
     Scheme::kStaged,
     Reason::kSeveralPieces},
    // What has been tried.
    {"no ring",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .rings_taken = true},
     Scheme::kPlaced,
     Reason::kRingsTaken,
     false,
     true},
    {"no ring, long",
     kSlowNetwork,
     kAuto,
     {.length = 64 * kMB, .rings_taken = true},
     Scheme::kPlaced,
     Reason::kRingsTaken,
     true,
     true},
    {"no ring, staging is set",
     kSlowNetwork,
     kSuperpipeline,
     {.length = kMB, .rings_taken = true},
     Scheme::kPlaced,
     Reason::kRingsTaken,
     false,
     true},
    {"no pin",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .own = kUsed, .pin_failed = true},
     Scheme::kStaged,
     Reason::kPinFailed},
    {"no pin, zero-copy is set",
     kSlowNetwork,
     kZeroCopy,
     {.length = kMB, .pin_failed = true},
     Scheme::kStaged,
     Reason::kPinFailed},
    // What cannot be pinned.
    {"several pieces",
     kFastNetwork,
     kZeroCopy,
     {.length = kMB, .own = kPinned, .one_piece = false},
     Scheme::kStaged,
     Reason::kSeveralPieces},
    {"too long",
     kFastNetwork,
     kAuto,
     {.length = kMB, .sender = kPinned, .own = kTooLong},
     Scheme::kStaged,
     Reason::kCannotPin},
    {"too long, zero-copy is set",
     kFastNetwork,
     kZeroCopy,
     {.length = kMB, .own = kTooLong},
     Scheme::kStaged,
     Reason::kCannotPin},
    {"empty", kFastNetwork, kZeroCopy, {.own = kPinned}, Scheme::kStaged, Reason::kCannotPin},
    // Settings.
    {"staging is set",
     kFastNetwork,
     kSuperpipeline,
     {.length = 64 * kMB, .sender = kPinned, .own = kPinned},
     Scheme::kStaged,
     Reason::kSetting},
    {"zero-copy is set",
     kSlowNetwork,
     kZeroCopy,
     {.length = 16 * kMB, .own = kFresh},
     Scheme::kPlaced,
     Reason::kSetting,
     true},
    {"zero-copy is set, pinned",
     kSlowNetwork,
     kZeroCopy,
     {.length = 16 * kMB, .own = kPinned},
     Scheme::kPlaced,
     Reason::kSetting},
    {"zero-copy is set, used",
     kSlowNetwork,
     kZeroCopy,
     {.length = 64 * kMB, .own = kUsed},
     Scheme::kPlaced,
     Reason::kSetting,
     true,
     true},
    // Costs.
    {"fresh, slow network",
     kSlowNetwork,
     kAuto,
     {.length = 16 * kMB, .own = kFresh},
     Scheme::kStaged,
     Reason::kFaster},
    {"fresh, fast network",
     kFastNetwork,
     kAuto,
     {.length = 16 * kMB, .own = kFresh},
     Scheme::kPlaced,
     Reason::kFaster,
     true},
    {"fresh and short, fast network",
     kFastNetwork,
     kAuto,
     {.length = 64 * kKB, .own = kFresh},
     Scheme::kStaged,
     Reason::kFaster},
    {"fresh, the sender copies",
     kFastNetwork,
     kAuto,
     {.length = 16 * kMB, .sender = kTooLong, .own = kFresh},
     Scheme::kStaged,
     Reason::kFaster},
    {"pinned",
     kSlowNetwork,
     kAuto,
     {.length = 64 * kKB, .sender = kPinned, .own = kPinned},
     Scheme::kPlaced,
     Reason::kFaster},
    {"used",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .sender = kFresh, .own = kUsed},
     Scheme::kPlaced,
     Reason::kFaster,
     false,
     true},
    {"used and long",
     kSlowNetwork,
     kAuto,
     {.length = 64 * kMB, .own = kUsed},
     Scheme::kPlaced,
     Reason::kFaster,
     true,
     true},
    {"used, pins not kept",
     kSlowNetwork,
     kAuto,
     {.length = kMB, .own = kNotKept},
     Scheme::kStaged,
     Reason::kFaster},
    {"second use, short",
     kSlowNetwork,
     kAuto,
     {.length = 64 * kKB, .own = kSeldom},
     Scheme::kStaged,
     Reason::kFaster},
    {"second use, long",
     kSlowNetwork,
     kAuto,
     {.length = 2 * kMB, .own = kSeldom},
     Scheme::kPlaced,
     Reason::kFaster,
     false,
     true},
};

Decider decider_of(const char* costs, SchemeSetting setting) {
    return Decider(*find_costs(costs), {.scheme = setting});
}

TEST(Decision, OfAReceiver) {
    for (const Row& row : kRows) {
        const Decider decider = decider_of(row.costs, row.setting);
        const Decision decision = decider.decide(row.inputs);
        EXPECT_EQ(name_of(decision.scheme), name_of(row.scheme)) << row.name;
        EXPECT_STREQ(text_of(decision.reason), text_of(row.reason)) << row.name;
        EXPECT_EQ(decision.piece != 0, row.in_pieces) << row.name;
        EXPECT_EQ(decision.reused, row.reused) << row.name;
    }
}

// Each reason that a receiver may have is in the table, except for open memory, of which decide()
// does not hear.
TEST(Decision, TheTableHasAllReasons) {
    std::set<Reason> reasons{Reason::kOpenMemory};
    for (const Row& row : kRows) reasons.insert(row.reason);
    EXPECT_EQ(reasons.size(), 9u);
}

TEST(Decision, OfABuffer) {
    const struct {
        const char* name;
        const char* costs;
        SchemeSetting setting;
        uint64_t length;
        BufferState own;
        bool in_place;
        Reason reason;
        bool in_pieces = false;
    } rows[] = {
        {"pinned", kSlowNetwork, kAuto, kMB, kPinned, true, Reason::kPinned},
        {"pinned, staging is set", kSlowNetwork, kSuperpipeline, kMB, kPinned, true,
         Reason::kPinned},
        {"used", kSlowNetwork, kAuto, kMB, kUsed, true, Reason::kReused},
        {"used and long", kSlowNetwork, kAuto, 64 * kMB, kUsed, true, Reason::kReused, true},
        {"used, staging is set", kSlowNetwork, kSuperpipeline, kMB, kUsed, false, Reason::kSetting},
        {"fresh, slow network", kSlowNetwork, kAuto, kMB, kFresh, false, Reason::kFaster},
        {"fresh, fast network", kFastNetwork, kAuto, 16 * kMB, kFresh, true, Reason::kFaster, true},
        {"fresh and short", kFastNetwork, kAuto, 64 * kKB, kFresh, false, Reason::kFaster},
        {"fresh, zero-copy is set", kSlowNetwork, kZeroCopy, 16 * kMB, kFresh, true,
         Reason::kSetting, true},
        {"too long", kFastNetwork, kZeroCopy, kMB, kTooLong, false, Reason::kCannotPin},
        {"pins not kept", kSlowNetwork, kAuto, kMB, kNotKept, false, Reason::kFaster},
        {"empty", kFastNetwork, kZeroCopy, 0, kFresh, false, Reason::kCannotPin},
    };
    for (const auto& row : rows) {
        const Decider decider = decider_of(row.costs, row.setting);
        const Decision source = decider.decide_buffer({.length = row.length, .own = row.own});
        EXPECT_EQ(source.scheme, row.in_place ? Scheme::kPlaced : Scheme::kStaged) << row.name;
        EXPECT_STREQ(text_of(source.reason), text_of(row.reason)) << row.name;
        EXPECT_EQ(source.piece != 0, row.in_pieces) << row.name;
    }
}

}  // namespace decision_test
}  // namespace tern
