// SPDX-License-Identifier: BSD-3-Clause

// Rings and places of a victim, which a peer takes, keeps, or prepares for later transfers.

#include <sys/mman.h>

#include <chrono>
#include <thread>

#include "transfer_rogue.h"

#include "tern/base/tunables.h"

namespace tern::test {
namespace {

// The victim reads, so it has asked for nothing that could be refused. The refusal is handled
// before the completions of the reads.
TEST_P(TransferRogueTest, RefusesWhatIsBeingRead) {
    std::string why;
    channel = victim.engine->attach(rogue->address(), &victim, why);
    ASSERT_TRUE(channel) << why;
    ASSERT_TRUE(turn([this] { return channel->up(); }));
    const auto read = [this] {
        const Buffers::Piece piece{victim.memory.data(), victim.memory.size()};
        ASSERT_EQ(victim.rendezvous->get(*channel, {&piece, 1},
                                         reinterpret_cast<uint64_t>(rogue->window().data()), {1, 2},
                                         rogue->window().rkey(), {}, {this}),
                  Status::kInProgress);
    };
    // So that the second read finds a ring, and begins at once.
    ASSERT_NO_FATAL_FAILURE(read());
    ASSERT_TRUE(turn([this] { return victim.completions.size() == 1; }));
    EXPECT_EQ(victim.completions[0], Status::kOk);
    victim.completions.clear();
    const uint32_t number = TransferTable<Incoming>::kMost;  // the first place, for the second time
    rogue->send_control(TransferId::kRefuse, Refuse{.what = Refuse::kFetch, .number = number});
    ASSERT_NO_FATAL_FAILURE(read());
    expect_failed();
    expect_alive();
}

// The refusal comes before the notifications of what was written earlier, as from a block it does.
// The ring is lent again when they have come, and not before.
TEST_P(TransferRogueTest, RefusesBeforeItsWritesAreKnown) {
    constexpr uint32_t kBlocks = 3;
    for (const uint32_t what : {Refuse::kRest, Refuse::kFetch}) {
        rogue->controls.clear();
        victim.completions.clear();
        ASSERT_NO_FATAL_FAILURE(let_ask(true));
        ASSERT_EQ(rogue->controls[0].id, TransferId::kFetch);
        const auto fetch = rogue->controls[0].as<Fetch>();
        rogue->controls.clear();
        // Flags are seen in any case.
        const bool notified = (fetch.ring.flags & WireRing::kNotify) != 0;
        rogue->send_control(TransferId::kRefuse,
                            Refuse{.what = what, .number = fetch.receiver, .blocks = kBlocks});
        expect_heard();
        if (notified) {
            EXPECT_TRUE(victim.completions.empty());
            EXPECT_TRUE(rogue->controls.empty());
        }
        const std::string block(SubBlocks::kSubBlock, '\x55');
        for (uint32_t i = 0; notified && i != kBlocks; ++i)
            rogue->write_to(block.data(), block.size(), fetch.ring.address + i * SubBlocks::kSlot,
                            fetch.ring.rkey, (fetch.receiver & 0xffff) << 16 | 1);
        ASSERT_TRUE(turn([this] { return victim.completions.size() == 1; }));
        EXPECT_EQ(victim.completions[0], Status::kRemoteAccess);
        expect_heard();
        if (what == Refuse::kRest) {
            EXPECT_TRUE(turn([this] { return rogue->controls.size() == 1; })) << "no confirmation";
        } else {
            EXPECT_TRUE(rogue->controls.empty());
        }
    }
    expect_alive();
}

// A read puts bytes of the peer where the ring has flags. The next transfer through the ring must
// not take them for its own.
TEST_P(TransferRogueTest, PlantsTheFlagsOfTheNextTransfer) {
    const auto ended = [this] { return !rogue->controls.empty(); };
    Accept first, second;
    ASSERT_NO_FATAL_FAILURE(offer(SubBlocks::kSubBlock, first));
    write_block(first, SubBlocks::kSubBlock);
    ASSERT_TRUE(turn(ended));
    if ((first.ring.flags & WireRing::kNotify) != 0) GTEST_SKIP() << "flags are not used";

    const uint64_t planted = flag_of(first.ring.generation + 1, 0);
    auto* const window = reinterpret_cast<uint64_t*>(rogue->window().data());
    std::fill_n(window, victim.memory.size() / sizeof(planted), planted);
    std::string why;
    channel = victim.engine->attach(rogue->address(), &victim, why);
    ASSERT_TRUE(channel) << why;
    const Buffers::Piece piece{victim.memory.data(), victim.memory.size()};
    ASSERT_EQ(victim.rendezvous->get(*channel, {&piece, 1}, reinterpret_cast<uint64_t>(window),
                                     {1, 2}, rogue->window().rkey(), {}, {this}),
              Status::kInProgress);
    ASSERT_TRUE(turn([this] { return victim.completions.size() == 1; }));
    EXPECT_EQ(victim.completions[0], Status::kOk);
    const auto* flag = reinterpret_cast<const uint64_t*>(first.ring.address + SubBlocks::kSubBlock);
    ASSERT_EQ(*flag, planted) << "the read went through the ring";

    std::ranges::fill(victim.memory, std::byte{});
    ASSERT_NO_FATAL_FAILURE(offer(SubBlocks::kSubBlock, second));
    ASSERT_EQ(second.ring.address, first.ring.address);
    ASSERT_EQ(second.ring.generation, first.ring.generation + 1);
    expect_heard();
    EXPECT_FALSE(ended()) << "nothing has been written";
    EXPECT_EQ(victim.memory[0], std::byte{});
    write_block(second, SubBlocks::kSubBlock);
    ASSERT_TRUE(turn(ended));
    EXPECT_EQ(victim.memory[0], std::byte{0x55});
}

// A connection ends during a transfer, and the ring is free for others. What the peer writes late
// does not arrive.
TEST_P(TransferRogueTest, WritesWhenItsConnectionIsOver) {
    Accept accept;
    ASSERT_NO_FATAL_FAILURE(offer(SubBlocks::kSubBlock, accept));
    const std::string_view ring(reinterpret_cast<const char*>(accept.ring.address),
                                SubBlocks::kSlot);
    const std::string before(ring);
    std::string why;
    channel = victim.engine->attach(rogue->address(), &victim, why);
    ASSERT_TRUE(channel) << why;
    victim.engine->fail(*channel, Status::kConnectionReset, "the test wants it");
    // The rogue does not notice.
    ASSERT_TRUE(until([this] { victim.poll(); }, [this] { return victim.closures == 1; }));
    write_block(accept, SubBlocks::kSubBlock);
    EXPECT_EQ(ring, before);
    expect_alive();
}

// Places for transfers that one peer may take: twice as many as it leaves to others.
constexpr uint32_t kShare = TransferTable<Incoming>::kMost / 3 * 2 + 1;

// More puts than there are places for transfers are served later.
TEST_P(TransferRogueTest, PutsForWhichThereIsNoPlace) {
    constexpr uint32_t kMore = 20;
    const Deliver deliver{
        .sender = 7, .address = victim.address(), .length = 64, .key = victim.key(victim.open)};
    for (uint32_t i = 0; i != kShare + kMore; ++i) {
        rogue->send_control(TransferId::kDeliver, deliver);
        if (i % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    const auto served = [this] { return victim.rendezvous->counters().served; };
    ASSERT_TRUE(turn([&] { return served() == kShare; }));
    expect_heard();
    EXPECT_EQ(served(), kShare);
    EXPECT_EQ(victim.rendezvous->counters().refused, 0u);
    // Each put that ends makes room for one.
    for (uint32_t ended = 0; ended != kMore;) {
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        const auto control = rogue->controls.front();
        rogue->controls.pop_front();
        ASSERT_NE(control.id, TransferId::kRefuse);
        if (control.id == TransferId::kAccept)
            write_block(control.as<Accept>(), deliver.length);
        else
            ended += control.id == TransferId::kAck;
    }
    EXPECT_TRUE(turn([&] { return served() == kShare + kMore; })) << served();
}

// A peer that puts more than there are places for, and makes no progress, leaves places to others.
TEST_P(TransferRogueTest, PlacesOfAPeerThatDoesNothing) {
    const Deliver deliver{
        .sender = 7, .address = victim.address(), .length = 64, .key = victim.key(victim.open)};
    for (uint32_t i = 0; i != TransferTable<Incoming>::kMost + 20; ++i) {
        rogue->send_control(TransferId::kDeliver, deliver);
        if (i % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    expect_heard();
    EXPECT_EQ(victim.rendezvous->counters().served, kShare);
    EXPECT_EQ(victim.rendezvous->counters().refused, 0u);
    expect_alive();
}

// When its transfers do without rings, all of them pin their memory; others need not wait for that.
TEST_P(TransferRogueTest, ManyTransfersThatDoWithoutRings) {
    const Deliver deliver{
        .sender = 7, .address = victim.address(), .length = 64, .key = victim.key(victim.open)};
    for (uint32_t i = 0; i != kShare; ++i) {
        rogue->send_control(TransferId::kDeliver, deliver);
        if (i % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    ASSERT_TRUE(turn([&] { return victim.rendezvous->counters().served == kShare; }));
    const auto zero_copy = [&] { return victim.rendezvous->counters().zero_copy; };
    for (uint32_t i = 0; i != 2 * kIdleCalls && zero_copy() == 0; ++i) victim.poll();
    ASSERT_NE(zero_copy(), 0u);
    const uint64_t before = zero_copy();
    expect_alive();
    EXPECT_LT(zero_copy() - before, kShare / 2);
}

// A side that makes few calls of progress waits no longer for a ring: it shares its processor with
// others, or computes between its calls.
TEST(TransferRogueRingsTest, FewCallsAreEnoughToDoWithoutRings) {
    RendezvousSettings hurried;
    hurried.ring_patience = std::chrono::milliseconds(20);
    RogueWorld<RendezvousNode> world(SchemeSetting::kSuperpipeline, PollMode::kMemory, 1u,
                                     *find_costs("graphene"), MonitorKind::kNone, hurried);
    ASSERT_NO_FATAL_FAILURE(world.meet());
    RendezvousNode& victim = world.victim;
    for (uint32_t i = 0; i != 2; ++i)
        world.rogue->send_control(TransferId::kDeliver, Deliver{.sender = i,
                                                                .address = victim.address(),
                                                                .length = 64,
                                                                .key = victim.key(victim.open)});
    ASSERT_TRUE(world.turn([&] { return victim.rendezvous->counters().ring_waits != 0; }));
    for (int i = 0; i != 1000 && victim.rendezvous->counters().zero_copy == 0; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        victim.poll();
    }
    EXPECT_NE(victim.rendezvous->counters().zero_copy, 0u);
}

// A peer that asks for transfers and makes no progress leaves rings to the others.
TEST_P(TransferRogueTest, RingsOfAPeerThatDoesNothing) {
    const uint32_t rings = RendezvousSettings().rings;
    for (uint32_t i = 0; i != 2 * rings; ++i)
        rogue->send_control(TransferId::kDeliver, Deliver{.sender = i,
                                                          .address = victim.address(),
                                                          .length = 100000,
                                                          .key = victim.key(victim.open)});
    ASSERT_TRUE(turn([&] { return rogue->controls.size() > rings / 2; }));
    for (int i = 0; i != 1000; ++i) {
        victim.poll();
        rogue->poll();
    }
    EXPECT_LT(rogue->controls.size(), rings);
    // In time, the rogue's own transfers do without rings.
    const uint64_t before = victim.rendezvous->counters().superpipeline;
    expect_alive();
    EXPECT_GT(victim.rendezvous->counters().superpipeline, before);
}

// Each write to them takes a receive, beside cold messages.
TEST_P(TransferRogueTest, RingsThatAreNotifiedHaveReceives) {
    const auto receives = [this] { return victim.engine->usage().receive_buffers; };
    const uint32_t before = receives();
    for (uint32_t i = 0; i != 16; ++i)
        rogue->send_control(TransferId::kDeliver, Deliver{.sender = i,
                                                          .address = victim.address(),
                                                          .length = RendezvousNode::kSize,
                                                          .key = victim.key(victim.open)});
    ASSERT_TRUE(turn([&] { return rogue->controls.size() > 8; }));
    const uint32_t writes = rogue->controls[0].as<Accept>().ring.slots;
    ASSERT_GT(writes * 9, before / 2) << "there are enough in any case";
    if (GetParam() == PollMode::kCq)
        EXPECT_GE(receives(), 2 * 9 * writes);
    else
        EXPECT_EQ(receives(), before);
}

// Pages that cannot be registered until they may be written to.
struct Locked {
    static constexpr size_t kSize = 64 * 1024;

    ~Locked() { munmap(data, kSize); }
    void unlock() { ASSERT_EQ(mprotect(data, kSize, PROT_READ | PROT_WRITE), 0); }

    void* data = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

// A read whose memory cannot be registered needs a ring, and is not overtaken by later transfers
// for ever.
TEST(TransferRogueReadTest, ReadThatLosesItsPinGetsARing) {
    RogueWorld<RendezvousNode> world(SchemeSetting::kZeroCopy, PollMode::kMemory, 1u);
    ASSERT_NO_FATAL_FAILURE(world.meet());
    Locked to_put, to_read;
    ASSERT_NE(to_put.data, MAP_FAILED);
    ASSERT_NE(to_read.data, MAP_FAILED);
    RendezvousNode& victim = world.victim;
    Rogue& rogue = *world.rogue;
    Region* const region =
        victim.regions.declare(to_put.data, Locked::kSize, kLocalRead | kLocalWrite | kRemoteAll);
    const auto put = [&](uint32_t sender) {
        rogue.send_control(TransferId::kDeliver,
                           Deliver{.sender = sender,
                                   .address = reinterpret_cast<uint64_t>(to_put.data),
                                   .length = 64,
                                   .key = victim.key(region)});
    };
    // Finds the next accept; true if it answers that put.
    const auto accepted = [&](uint32_t sender, Accept& accept) {
        const auto come = [&] {
            while (!rogue.controls.empty() && rogue.controls[0].id != TransferId::kAccept)
                rogue.controls.pop_front();
            return !rogue.controls.empty();
        };
        if (!world.turn(come)) return false;
        accept = rogue.controls[0].as<Accept>();
        rogue.controls.pop_front();
        return accept.sender == sender;
    };
    std::string why;
    Channel* to = victim.engine->attach(rogue.address(), &victim, why);
    ASSERT_TRUE(world.turn([&] { return to->up(); }));
    Accept first, second, third;
    put(1);
    ASSERT_TRUE(accepted(1, first));
    put(2);
    for (int i = 0; i != 100; ++i) victim.poll();
    const uint64_t fallbacks = victim.rendezvous->counters().fallbacks;
    const Buffers::Piece piece{static_cast<std::byte*>(to_read.data), Locked::kSize};
    ASSERT_EQ(
        victim.rendezvous->get(*to, {&piece, 1}, reinterpret_cast<uint64_t>(rogue.window().data()),
                               {1, 2}, rogue.window().rkey(), {}, {&victim}),
        Status::kInProgress);
    ASSERT_TRUE(
        world.turn([&] { return victim.rendezvous->counters().fallbacks == fallbacks + 1; }));
    put(3);
    for (int i = 0; i != 100; ++i) victim.poll();
    to_put.unlock();
    to_read.unlock();
    memset(rogue.window().data(), 0x77, Locked::kSize);
    write_block(rogue, first, 64);
    ASSERT_TRUE(accepted(2, second));
    write_block(rogue, second, 64);
    EXPECT_TRUE(world.turn([&] { return victim.completions.size() == 1; })) << "the read starves";
    EXPECT_EQ(static_cast<char*>(to_read.data)[Locked::kSize - 1], 0x77);
    ASSERT_TRUE(accepted(3, third));
    write_block(rogue, third, 64);
    EXPECT_TRUE(world.turn([&] { return !rogue.controls.empty(); }));
    (void)victim.regions.undeclare(region);
}

// A read that is to do without a ring, and cannot, waits for one again.
TEST(TransferRogueReadTest, ReadThatCannotDoWithoutARingGetsOne) {
    RendezvousSettings hurried;
    hurried.ring_patience = std::chrono::milliseconds(20);
    RogueWorld<RendezvousNode> world(SchemeSetting::kSuperpipeline, PollMode::kMemory, 1u,
                                     *find_costs("graphene"), MonitorKind::kNone, hurried);
    ASSERT_NO_FATAL_FAILURE(world.meet());
    RendezvousNode& victim = world.victim;
    Rogue& rogue = *world.rogue;
    std::string why;
    Channel* to = victim.engine->attach(rogue.address(), &victim, why);
    ASSERT_TRUE(world.turn([&] { return to->up(); }));
    rogue.send_control(TransferId::kDeliver, Deliver{.sender = 1,
                                                     .address = victim.address(),
                                                     .length = 64,
                                                     .key = victim.key(victim.open)});
    const auto accepted = [&] {
        while (!rogue.controls.empty() && rogue.controls[0].id != TransferId::kAccept)
            rogue.controls.pop_front();
        return !rogue.controls.empty();
    };
    ASSERT_TRUE(world.turn(accepted));
    const Accept holder = rogue.controls[0].as<Accept>();
    Locked to_read;
    ASSERT_NE(to_read.data, MAP_FAILED);
    const Buffers::Piece piece{static_cast<std::byte*>(to_read.data), Locked::kSize};
    ASSERT_EQ(
        victim.rendezvous->get(*to, {&piece, 1}, reinterpret_cast<uint64_t>(rogue.window().data()),
                               {1, 2}, rogue.window().rkey(), {}, {&victim}),
        Status::kInProgress);
    const uint64_t before = victim.rendezvous->counters().fallbacks;
    for (int i = 0; i != 1000 && victim.rendezvous->counters().fallbacks == before; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        victim.poll();
    }
    ASSERT_EQ(victim.rendezvous->counters().fallbacks, before + 1);
    to_read.unlock();
    memset(rogue.window().data(), 0x77, Locked::kSize);
    write_block(rogue, holder, 64);
    EXPECT_TRUE(world.turn([&] { return victim.completions.size() == 1; })) << "the read starves";
    EXPECT_EQ(static_cast<char*>(to_read.data)[Locked::kSize - 1], 0x77);
}

}  // namespace
}  // namespace tern::test
