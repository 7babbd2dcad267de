// SPDX-License-Identifier: BSD-3-Clause

// A peer that is told of a message with an early copy, and fetches something else.

#include "transfer_rogue.h"

namespace tern::test {
namespace {

class EarlyCopyRogueTest : public TransferRogueTest {
  protected:
    static constexpr std::byte kCopied{0x11};  // the memory when the message is announced
    static constexpr std::byte kNow{0x77};     // and afterwards

    void SetUp() override {
        std::string why;
        channel = victim.engine->attach(rogue->address(), &victim, why);
        ASSERT_TRUE(channel) << why;
        // This registers staging memory, which the early copy needs.
        Fetch first = fetch(100);
        (void)byte_of(first);
        rogue->send_control(TransferId::kAck,
                            Ack{.receiver = first.receiver, .count = 1, .flags = Ack::kEnd});
        expect_heard();
        announce();
    }
    void announce() {
        std::ranges::fill(victim.memory, kCopied);
        number = victim.rendezvous->make_early_copy(*channel, {.region = victim.open,
                                                               .packing = victim.open->pack(),
                                                               .address = victim.address(),
                                                               .length = good_fetch().length});
        EXPECT_NE(number, 0u);
        std::ranges::fill(victim.memory, kNow);
    }
    // A fetch with a new number and a new generation.
    Fetch fetch(uint64_t length) {
        Fetch frame = good_fetch();
        frame.receiver = ++fetches;
        frame.ring.generation = fetches;
        frame.length = frame.part.upto = length;
        return frame;
    }
    // Fetches, and returns the first byte that comes.
    std::byte byte_of(const Fetch& frame) {
        rogue->send_control(TransferId::kFetch, frame);
        const std::byte* const slot = rogue->window().data();
        const auto* flag = reinterpret_cast<const uint64_t*>(slot + SubBlocks::kSubBlock);
        const uint64_t there = flag_of(frame.ring.generation, 0);
        EXPECT_TRUE(turn([&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == there; }));
        return slot[SubBlocks::in_slot(frame.part.upto, 0)];
    }
    void expect_counted(uint64_t staged, uint64_t used, uint64_t dropped) {
        const RendezvousCounters& counters = victim.rendezvous->counters();
        EXPECT_EQ(counters.early_copies_made, staged);
        EXPECT_EQ(counters.early_copies_used, used);
        EXPECT_EQ(counters.early_copies_dropped, dropped);
    }

    uint64_t number = 0;
    uint32_t fetches = 0;
};

TEST_P(EarlyCopyRogueTest, OnlyTheMessageItselfIsServedByIt) {
    Fetch elsewhere = fetch(100000);
    elsewhere.address += 8;
    EXPECT_EQ(byte_of(fetch(99999)), kNow);
    EXPECT_EQ(byte_of(elsewhere), kNow);
    Fetch stale = fetch(100000);
    stale.key.generation ^= 1;
    rogue->controls.clear();
    rogue->send_control(TransferId::kFetch, stale);
    ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
    EXPECT_EQ(rogue->controls[0].id, TransferId::kRefuse);
    expect_counted(1, 0, 0);
    EXPECT_EQ(byte_of(fetch(100000)), kCopied);
    EXPECT_EQ(byte_of(fetch(100000)), kNow) << "once";
    expect_counted(1, 1, 0);
    victim.rendezvous->drop_early_copy(number);
    expect_counted(1, 1, 0);
    expect_heard();
}

// Another peer does not get the early copy.
TEST_P(EarlyCopyRogueTest, ItIsForOnePeer) {
    std::vector<std::byte> got(100000);
    RendezvousNode honest;
    std::string why;
    Channel* to = honest.engine->attach(victim.engine->address(), this, why);
    ASSERT_TRUE(to) << why;
    const Buffers::Piece piece{got.data(), got.size()};
    Status status = Status::kNoResource;
    const auto both = [&] {
        victim.poll();
        honest.poll();
        if (status == Status::kNoResource)
            status = honest.rendezvous->get(*to, {&piece, 1}, victim.address(),
                                            victim.key(victim.open), 0, {}, {this});
    };
    ASSERT_TRUE(until(both, [&] { return honest.completions.size() == 1; }));
    EXPECT_TRUE(std::ranges::all_of(got, [](std::byte byte) { return byte == kNow; }));
    expect_counted(1, 0, 0);
    honest.engine->leave(to, this);
    (void)until(both, [&] { return honest.engine->connections() == 0; });
}

TEST_P(EarlyCopyRogueTest, ItGoesIfTheReceiverWantsItInPlace) {
    Fetch frame = fetch(100000);
    frame.part = WirePart::announce(frame.length);
    rogue->send_control(TransferId::kFetch, frame);
    expect_heard();
    expect_counted(1, 0, 1);
    announce();
    frame = fetch(100000);
    frame.part = WirePart::of({.upto = frame.length,
                               .address = frame.ring.address,
                               .rkey = frame.ring.rkey,
                               .placed = true});
    frame.part.upto = 4096;
    rogue->send_control(TransferId::kFetch, frame);
    expect_heard();
    expect_counted(2, 0, 2);
    expect_alive();
}

TEST_P(EarlyCopyRogueTest, ItGoesWithTheConnection) {
    rogue->send_frame(FrameKind::kControl, 7, "");
    expect_dropped();
    expect_counted(1, 0, 1);
    victim.rendezvous->drop_early_copy(number);
    expect_counted(1, 0, 1);
    expect_alive();
}

TEST_P(EarlyCopyRogueTest, WhatIsAskedForWithItMakesNoSense) {
    std::vector<Fetch> bad(4, fetch(100000));
    bad[0].part.upto = 0;
    bad[1].part.upto = 100001;
    bad[2].part.upto = UINT64_MAX;
    bad[3].ring.slots = 0;
    for (const Fetch& frame : bad) {
        rogue->send_control(TransferId::kFetch, frame);
        expect_dropped();
        const RendezvousCounters& counters = victim.rendezvous->counters();
        EXPECT_EQ(counters.early_copies_used + counters.early_copies_dropped,
                  counters.early_copies_made);
        meet();
        SetUp();
    }
    expect_alive();
}

INSTANTIATE_TEST_SUITE_P(Polls, EarlyCopyRogueTest,
                         testing::Values(PollMode::kMemory, PollMode::kCq), [](const auto& test) {
                             return test.param == PollMode::kCq ? "cq" : "memory";
                         });

}  // namespace
}  // namespace tern::test
