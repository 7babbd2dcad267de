// SPDX-License-Identifier: BSD-3-Clause

// A peer that sends invalid frames about large messages loses its connection, and no other peer is
// affected.

#include <sys/mman.h>

#include "transfer_rogue.h"

namespace tern::test {
namespace {

TEST_P(TransferRogueTest, AsksProperlyAndIsServed) {
    rogue->send_control(TransferId::kFetch, good_fetch());
    const auto* flag = reinterpret_cast<const uint64_t*>(rogue->window().data() + 4096);
    ASSERT_TRUE(turn([&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == flag_of(1, 0); }));
    expect_heard();
}

TEST_P(TransferRogueTest, FramesOfOtherLengths) {
    for (uint32_t id = 8; id <= 14; ++id)
        for (const size_t length : {0, 1, 7, 9, 15, 17, 31, 33, 55, 57, 79, 81, 200}) {
            rogue->send_frame(FrameKind::kControl, id, std::string(length, '\1'));
            expect_dropped();
            meet();
        }
}

TEST_P(TransferRogueTest, UnknownIds) {
    for (const uint32_t id : {4, 5, 6, 7, 15, 16, 31}) {
        rogue->send_frame(FrameKind::kControl, id, std::string(8, '\0'));
        expect_dropped();
        meet();
    }
}

TEST_P(TransferRogueTest, FetchesThatMakeNoSense) {
    std::vector<Fetch> bad(10, good_fetch());
    bad[0].ring.slots = WireRing::kMostSlots + 1;
    bad[1].ring.flags = 2;
    bad[2].ring.generation = UINT64_MAX;
    bad[3].ring.slots = 0;
    bad[4].part.upto = 0;
    bad[5].part.upto = 100001;
    bad[6].part.flags = 2;
    bad[7].part.upto = UINT64_MAX;
    bad[8].part = WirePart::announce(0);
    bad[9].part = WirePart::announce(100001);
    for (const Fetch& fetch : bad) {
        rogue->send_control(TransferId::kFetch, fetch);
        expect_dropped();
        meet();
    }
    expect_alive();
}

TEST_P(TransferRogueTest, WhatItHasNoRightToIsRefused) {
    std::vector<Fetch> bad(6, good_fetch());
    bad[0].key.generation ^= 1;
    bad[1].key.index = UINT32_MAX;
    bad[2].key = victim.key(victim.secret);
    bad[3].length = UINT64_MAX;
    bad[4].address -= 1;
    bad[5].length = 0;
    for (const Fetch& fetch : bad) {
        rogue->controls.clear();
        rogue->send_control(TransferId::kFetch, fetch);
        ASSERT_TRUE(turn([this] { return rogue->controls.size() == 1; }));
        EXPECT_EQ(rogue->controls[0].id, TransferId::kRefuse);
        EXPECT_EQ(rogue->controls[0].as<Refuse>().number, 1u);
        rogue->controls.clear();
        rogue->send_control(
            TransferId::kDeliver,
            Deliver{
                .sender = 77, .address = fetch.address, .length = fetch.length, .key = fetch.key});
        ASSERT_TRUE(turn([this] { return rogue->controls.size() == 1; }));
        EXPECT_EQ(rogue->controls[0].id, TransferId::kRefuse);
        EXPECT_EQ(rogue->controls[0].as<Refuse>().number, 77u);
    }
    expect_heard();
}

// The peer asks on and on, and takes no answers. The answers must not pile up.
TEST_P(TransferRogueTest, AsksForeverAndTakesNoAnswer) {
    Fetch bad = good_fetch();
    bad.key.generation ^= 1;
    rogue->deaf = true;
    for (uint32_t asked = 0; asked < 200'000 && !rogue->over(); ++asked) {
        rogue->send_control(TransferId::kFetch, bad);
        victim.poll();
        rogue->poll();
    }
    expect_dropped();
    expect_alive();
}

// A ring that may not be written to ends the connection over which the peer named it.
TEST_P(TransferRogueTest, WindowThatIsNone) {
    Fetch fetch = good_fetch();
    fetch.ring.rkey ^= 0x5555;
    rogue->send_control(TransferId::kFetch, fetch);
    expect_dropped();
    expect_alive();
}

TEST_P(TransferRogueTest, AnswersToNothing) {
    const Accept accept{.sender = 0, .receiver = 0, .ring = ring(), .part = {.upto = 1}};
    rogue->send_control(TransferId::kAccept, accept);
    expect_dropped();
    meet();
    rogue->send_control(TransferId::kAck, Ack{});
    expect_dropped();
    meet();
    rogue->send_control(TransferId::kFinish, Finish{});
    expect_dropped();
    meet();
    for (const uint32_t what : {Refuse::kFetch, Refuse::kDeliver, Refuse::kRest, 3u}) {
        rogue->send_control(TransferId::kRefuse, Refuse{.what = what, .number = 0});
        expect_dropped();
        meet();
    }
    rogue->write_to("", 0, 0, 0, 1);
    expect_dropped();
}

TEST_P(TransferRogueTest, AcknowledgesWhatWasNotSent) {
    for (const Ack bad :
         {Ack{.receiver = 1, .count = 1000000}, Ack{.receiver = 1, .count = 0, .flags = Ack::kEnd},
          Ack{.receiver = 2, .count = 1}}) {
        rogue->send_control(TransferId::kFetch, good_fetch());
        expect_heard();
        rogue->send_control(TransferId::kAck, bad);
        expect_dropped();
        meet();
    }
    expect_alive();
}

TEST_P(TransferRogueTest, Replies) {
    for (const size_t length : {0, 1, 17, 32}) {
        fetch_one();
        victim.replies.clear();
        send_reply({.receiver = 1, .count = 1, .flags = Ack::kEnd | Ack::kReply, .reply = 31},
                   length);
        expect_heard();
        ASSERT_EQ(victim.replies.size(), 1u);
        EXPECT_EQ(victim.replies[0], std::pair(31u, std::string(length, 'r')));
    }
}

TEST_P(TransferRogueTest, RepliesThatMakeNoSense) {
    const uint32_t good = Ack::kEnd | Ack::kReply;
    const struct {
        Ack ack;
        size_t length;
        const char* what;
    } bad[] = {
        {{.receiver = 1, .count = 1, .flags = Ack::kReply, .reply = 9}, 17, "before the end"},
        {{.receiver = 1, .count = 0, .flags = good, .reply = 9}, 17, "before all has come"},
        {{.receiver = 1, .count = 1, .flags = good | Ack::kFailed, .reply = 9}, 17, "failed"},
        {{.receiver = 1, .count = 1, .flags = good | 16, .reply = 9}, 17, "an unknown flag"},
        {{.receiver = 1, .count = 1, .flags = Ack::kEnd | 16}, 0, "an unknown flag, no reply"},
        {{.receiver = 1, .count = 1, .flags = Ack::kWaited}, 0, "waited, before the end"},
        {{.receiver = 1, .count = 1, .flags = good, .reply = 32}, 17, "an unknown id"},
        {{.receiver = 1, .count = 1, .flags = good, .reply = UINT32_MAX}, 17, "an unknown id"},
        {{.receiver = 1, .count = 1, .flags = good, .reply = 9}, 33, "too long"},
        {{.receiver = 1, .count = 1, .flags = good, .reply = 9}, 4000, "much too long"},
        {{.receiver = 1, .count = 1, .flags = Ack::kEnd, .reply = 9}, 17, "without the flag"},
        {{.receiver = 2, .count = 1, .flags = good, .reply = 9}, 17, "of no transfer"},
    };
    for (const auto& [ack, length, what] : bad) {
        SCOPED_TRACE(what);
        fetch_one();
        send_reply(ack, length);
        expect_dropped();
        meet();
    }
    fetch_one();
    const Ack cut{.receiver = 1, .count = 1, .flags = good, .reply = 9};
    rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(TransferId::kAck),
                      std::string(reinterpret_cast<const char*>(&cut), sizeof(cut) - 1));
    expect_dropped();
    meet();
    EXPECT_TRUE(victim.replies.empty());
    expect_alive();
}

TEST_P(TransferRogueTest, RepliesTwice) {
    fetch_one();
    const Ack ack{.receiver = 1, .count = 1, .flags = Ack::kEnd | Ack::kReply, .reply = 9};
    send_reply(ack, 17);
    expect_heard();
    send_reply(ack, 17);
    expect_dropped();
    EXPECT_EQ(victim.replies.size(), 1u);
}

TEST_P(TransferRogueTest, RepliesToAPut) {
    let_ask(false);
    const Deliver deliver = rogue->controls[0].as<Deliver>();
    const auto come = [&](uint64_t block) {
        const auto* flag = reinterpret_cast<const uint64_t*>(
            rogue->window().data() + block % 60 * SubBlocks::kSlot + SubBlocks::kSubBlock);
        return turn([&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == flag_of(1, block); });
    };
    const auto blocks = static_cast<uint32_t>(SubBlocks::count(deliver.length));
    ASSERT_GT(blocks, 60u);
    rogue->send_control(TransferId::kAccept, Accept{.sender = deliver.sender,
                                                    .receiver = 5,
                                                    .ring = ring(60),
                                                    .part = {.upto = deliver.length}});
    ASSERT_TRUE(come(59));
    rogue->send_control(TransferId::kAck, Ack{.receiver = 5, .count = 60});
    ASSERT_TRUE(come(blocks - 1));
    send_reply({.receiver = 5, .count = blocks, .flags = Ack::kEnd | Ack::kReply, .reply = 9}, 17);
    expect_failed();
    EXPECT_TRUE(victim.replies.empty());
}

TEST_P(TransferRogueTest, RepliesThoughTheRestIsRefused) {
    rogue->send_control(TransferId::kFetch, good_fetch());
    expect_heard();
    EXPECT_TRUE(undeclare());
    ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
    ASSERT_EQ(rogue->controls[0].id, TransferId::kRefuse);
    send_reply({.receiver = 1, .count = 1, .flags = Ack::kEnd | Ack::kReply, .reply = 9}, 17);
    expect_dropped();
    EXPECT_TRUE(victim.replies.empty());
    meet();
    expect_alive();
}

// Memory is undeclared while it is being read. The receiver must confirm that, once.
TEST_P(TransferRogueTest, RestIsRefused) {
    for (const Ack confirmation :
         {Ack{.receiver = 1, .count = 1, .flags = Ack::kEnd | Ack::kFailed},
          Ack{.receiver = 1, .count = 1000, .flags = Ack::kEnd}}) {
        const uint64_t chunks = victim.rendezvous->counters().chunks;
        rogue->send_control(TransferId::kFetch, good_fetch());
        expect_heard();
        // Something can be acknowledged.
        ASSERT_TRUE(turn([&] { return victim.rendezvous->counters().chunks != chunks; }));
        EXPECT_TRUE(undeclare());
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        ASSERT_EQ(rogue->controls[0].id, TransferId::kRefuse);
        EXPECT_EQ(rogue->controls[0].as<Refuse>().what, Refuse::kRest);
        EXPECT_EQ(rogue->controls[0].as<Refuse>().number, 1u);
        // This acknowledgement was under way.
        rogue->send_control(TransferId::kAck, Ack{.receiver = 1, .count = 1});
        expect_heard();
        rogue->send_control(TransferId::kAck, confirmation);
        if (confirmation.count <= 1) {
            expect_heard();
            rogue->send_control(TransferId::kAck, confirmation);
        }
        expect_dropped();
        meet();
    }
    expect_alive();
}

// Memory is undeclared while it is being written to: all sub-blocks are taken, but not copied.
TEST_P(TransferRogueTest, RestIsDropped) {
    constexpr uint64_t kLength = 100000;
    rogue->send_control(TransferId::kDeliver, Deliver{.sender = 7,
                                                      .address = victim.address(),
                                                      .length = kLength,
                                                      .key = victim.key(victim.open)});
    ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
    ASSERT_EQ(rogue->controls[0].id, TransferId::kAccept);
    const Accept accept = rogue->controls[0].as<Accept>();
    rogue->controls.clear();
    const uint64_t blocks = SubBlocks::count(kLength);
    ASSERT_LE(blocks, accept.ring.slots);
    const auto write = [&](uint64_t number) {
        const uint32_t bytes = SubBlocks::bytes(kLength, number);
        std::string block(bytes + sizeof(uint64_t), '\x55');
        const uint64_t flag = flag_of(accept.ring.generation, number);
        memcpy(block.data() + bytes, &flag, sizeof(flag));
        const bool notify = (accept.ring.flags & WireRing::kNotify) != 0;
        rogue->write_to(
            block.data(), block.size(),
            accept.ring.address + number * SubBlocks::kSlot + SubBlocks::in_slot(kLength, number),
            accept.ring.rkey, notify ? (accept.receiver & 0xffff) << 16 | 1 : 0);
    };
    write(0);
    ASSERT_TRUE(turn([this] { return victim.memory[0] == std::byte{0x55}; }));
    EXPECT_TRUE(undeclare());
    std::ranges::fill(victim.memory, std::byte{});
    for (uint64_t number = 1; number < blocks; ++number) write(number);
    const auto ended = [this] {
        for (; !rogue->controls.empty(); rogue->controls.pop_front())
            if ((rogue->controls[0].as<Ack>().flags & Ack::kEnd) != 0) return true;
        return false;
    };
    ASSERT_TRUE(turn(ended));
    EXPECT_EQ(rogue->controls[0].as<Ack>().flags, Ack::kEnd | Ack::kFailed);
    EXPECT_TRUE(
        std::ranges::all_of(victim.memory, [](std::byte byte) { return byte == std::byte{}; }));
    expect_heard();
    expect_alive();
}

TEST_P(TransferRogueTest, PartsOfNothing) {
    Fetch fetch = good_fetch();
    fetch.part.upto = 5000;
    for (const WirePart bad :
         {WirePart{.upto = 5000}, WirePart{.upto = 4999}, WirePart{.upto = 0},
          WirePart{.upto = 100001}, WirePart{.upto = 6000, .flags = 6}, WirePart::announce(6000)}) {
        rogue->send_control(TransferId::kFetch, fetch);
        expect_heard();
        rogue->send_control(TransferId::kPart, MorePart{.receiver = 1, .part = bad});
        expect_dropped();
        meet();
    }
    expect_alive();
}

// An announced placed part may come as a staged one, because pinning has failed.
TEST_P(TransferRogueTest, AnnouncedPartsNeedNotComeThatWay) {
    Fetch fetch = good_fetch();
    fetch.part = WirePart::announce(fetch.length);
    rogue->send_control(TransferId::kFetch, fetch);
    expect_heard();
    rogue->controls.clear();
    rogue->send_control(TransferId::kPart,
                        MorePart{.receiver = fetch.receiver, .part = {.upto = fetch.length}});
    expect_heard();
    expect_alive();
}

TEST_P(TransferRogueTest, AcceptsNonsense) {
    let_ask(false);
    ASSERT_EQ(rogue->controls[0].id, TransferId::kDeliver);
    const Deliver deliver = rogue->controls[0].as<Deliver>();
    EXPECT_EQ(deliver.length, RendezvousNode::kSize);
    rogue->send_control(TransferId::kAccept, Accept{.sender = deliver.sender,
                                                    .receiver = 5,
                                                    .ring = ring(),
                                                    .part = {.upto = deliver.length + 1}});
    expect_failed();
    expect_alive();
}

TEST_P(TransferRogueTest, AcceptsTwice) {
    let_ask(false);
    const Deliver deliver = rogue->controls[0].as<Deliver>();
    const Accept accept{
        .sender = deliver.sender, .receiver = 5, .ring = ring(), .part = {.upto = deliver.length}};
    rogue->send_control(TransferId::kAccept, accept);
    rogue->send_control(TransferId::kAccept, accept);
    expect_failed();
}

TEST_P(TransferRogueTest, EndsWhatHasNotCome) {
    let_ask(true);
    ASSERT_EQ(rogue->controls[0].id, TransferId::kFetch);
    rogue->send_control(TransferId::kFinish,
                        Finish{.receiver = rogue->controls[0].as<Fetch>().receiver});
    expect_failed();
}

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
                                         rogue->window().rkey(), {}, this),
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

// A read puts bytes of the peer where the ring has flags. The next transfer through the ring must
// not take them for its own.
TEST_P(TransferRogueTest, PlantsTheFlagsOfTheNextTransfer) {
    const auto accept = [this] {
        rogue->controls.clear();
        rogue->send_control(TransferId::kDeliver, Deliver{.sender = 7,
                                                          .address = victim.address(),
                                                          .length = SubBlocks::kSubBlock,
                                                          .key = victim.key(victim.open)});
        EXPECT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        EXPECT_EQ(rogue->controls[0].id, TransferId::kAccept);
        const Accept frame = rogue->controls[0].as<Accept>();
        rogue->controls.clear();
        return frame;
    };
    const auto ended = [this] { return !rogue->controls.empty(); };
    const Accept first = accept();
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
                                     {1, 2}, rogue->window().rkey(), {}, this),
              Status::kInProgress);
    ASSERT_TRUE(turn([this] { return victim.completions.size() == 1; }));
    EXPECT_EQ(victim.completions[0], Status::kOk);
    const auto* flag = reinterpret_cast<const uint64_t*>(first.ring.address + SubBlocks::kSubBlock);
    ASSERT_EQ(*flag, planted) << "the read went through the ring";

    std::ranges::fill(victim.memory, std::byte{});
    const Accept second = accept();
    ASSERT_EQ(second.ring.address, first.ring.address);
    ASSERT_EQ(second.ring.generation, first.ring.generation + 1);
    expect_heard();
    EXPECT_FALSE(ended()) << "nothing has been written";
    EXPECT_EQ(victim.memory[0], std::byte{});
    write_block(second, SubBlocks::kSubBlock);
    ASSERT_TRUE(turn(ended));
    EXPECT_EQ(victim.memory[0], std::byte{0x55});
}

// More puts than there are places for transfers are served later.
TEST_P(TransferRogueTest, PutsForWhichThereIsNoPlace) {
    constexpr uint32_t kMore = 20;
    constexpr uint32_t kPlaces = TransferTable<Incoming>::kMost;
    const Deliver deliver{
        .sender = 7, .address = victim.address(), .length = 64, .key = victim.key(victim.open)};
    for (uint32_t i = 0; i != kPlaces + kMore; ++i) {
        rogue->send_control(TransferId::kDeliver, deliver);
        if (i % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    const auto served = [this] { return victim.rendezvous->counters().served; };
    ASSERT_TRUE(turn([&] { return served() == kPlaces; }));
    expect_heard();
    EXPECT_EQ(served(), kPlaces);
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
    EXPECT_TRUE(turn([&] { return served() == kPlaces + kMore; })) << served();
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

TEST_P(TransferRogueTest, NotifiesOfTooMuch) {
    let_ask(true);
    const Fetch fetch = rogue->controls[0].as<Fetch>();
    EXPECT_EQ(fetch.ring.flags, GetParam() == PollMode::kCq ? WireRing::kNotify : 0);
    const uint32_t blocks = fetch.ring.slots + 1u;
    rogue->write_to("", 0, 0, 0, (fetch.receiver & 0xffff) << 16 | blocks);
    expect_failed();
    expect_alive();
}

// Valid flags, and garbage that looks like flags: it arrives, but in no other memory.
TEST_P(TransferRogueTest, FillsTheRingWithGarbage) {
    let_ask(true);
    const Fetch fetch = rogue->controls[0].as<Fetch>();
    const size_t bytes = size_t{fetch.ring.slots} * SubBlocks::kSlot;
    std::vector<uint64_t> garbage(1024);
    for (size_t at = 0; at < bytes; at += 8192) {
        for (uint64_t& word : garbage) word = flag_of(fetch.ring.generation, word + at);
        rogue->write_to(garbage.data(), std::min<size_t>(8192, bytes - at), fetch.ring.address + at,
                        fetch.ring.rkey, 0);
    }
    for (uint64_t index = 0; index < fetch.ring.slots; ++index) {
        const uint64_t flag = flag_of(fetch.ring.generation, index);
        rogue->write_to(&flag, sizeof(flag),
                        fetch.ring.address + index * SubBlocks::kSlot + SubBlocks::kSubBlock,
                        fetch.ring.rkey, 0);
    }
    expect_heard();
    // Memory behind the ring cannot be written to.
    rogue->write_to(garbage.data(), 64, fetch.ring.address + bytes + (1 << 20), fetch.ring.rkey, 0);
    expect_failed();
    expect_alive();
}

// Pages that cannot be registered until they may be written to.
struct Locked {
    static constexpr size_t kSize = 64 * 1024;

    ~Locked() { munmap(data, kSize); }
    void unlock() { ASSERT_EQ(mprotect(data, kSize, PROT_READ | PROT_WRITE), 0); }

    void* data = mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

INSTANTIATE_TEST_SUITE_P(Polls, TransferRogueTest,
                         testing::Values(PollMode::kMemory, PollMode::kCq), [](const auto& test) {
                             return test.param == PollMode::kCq ? "cq" : "memory";
                         });

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
                               {1, 2}, rogue.window().rkey(), {}, &victim),
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

}  // namespace
}  // namespace tern::test
