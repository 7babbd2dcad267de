// SPDX-License-Identifier: BSD-3-Clause

// A peer that sends invalid frames about large messages loses its connection, and no other peer is
// affected.

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
        {{.receiver = 1, .count = 1, .flags = Ack::kEnd | 8}, 0, "a flag of earlier versions"},
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

// A sender that gives up a put names what it has written, and gets one confirmation.
TEST_P(TransferRogueTest, RestOfAPutIsRefused) {
    constexpr uint64_t kLength = 100000;
    for (const uint32_t written : {0u, 1u}) {
        Accept accept;
        ASSERT_NO_FATAL_FAILURE(offer(kLength, accept));
        const uint32_t bytes = SubBlocks::bytes(kLength, 0);
        if (written != 0) write_block(accept, bytes);
        rogue->controls.clear();
        rogue->send_control(
            TransferId::kRefuse,
            Refuse{.what = Refuse::kRest, .number = accept.receiver, .blocks = written});
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        ASSERT_EQ(rogue->controls[0].id, TransferId::kAck);
        EXPECT_EQ(rogue->controls[0].as<Ack>().flags, Ack::kEnd | Ack::kFailed);
        expect_heard();
        EXPECT_EQ(rogue->controls.size(), 1u);
    }
    expect_alive();
}

// The victim's user ends by force: before the rogue accepts a put, and when its ring is full.
TEST_P(TransferRogueTest, PutIsDropped) {
    for (const bool accepts : {false, true}) {
        rogue->controls.clear();
        victim.completions.clear();
        ASSERT_NO_FATAL_FAILURE(let_ask(false));
        const Accept accept{.sender = rogue->controls[0].as<Deliver>().sender,
                            .receiver = 5,
                            .ring = ring(),
                            .part = {.upto = victim.memory.size()}};
        rogue->controls.clear();
        const uint64_t chunks = victim.rendezvous->counters().chunks;
        if (accepts) {
            rogue->send_control(TransferId::kAccept, accept);
            ASSERT_TRUE(turn([&] { return victim.rendezvous->counters().chunks != chunks; }));
            expect_heard();
        }
        EXPECT_EQ(victim.rendezvous->flush_by_force(*channel, {&victim, this}),
                  Status::kInProgress);
        EXPECT_TRUE(victim.completions.empty());
        ASSERT_TRUE(turn([this] { return victim.completions.size() == 2; }));
        EXPECT_EQ(victim.completions[0], Status::kCanceled);
        EXPECT_TRUE(victim.rendezvous->idle());
        if (!accepts) {
            EXPECT_TRUE(rogue->controls.empty());
            rogue->send_control(TransferId::kAccept, accept);
        }
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        ASSERT_EQ(rogue->controls[0].id, TransferId::kRefuse);
        const auto refusal = rogue->controls[0].as<Refuse>();
        EXPECT_EQ(refusal.what, Refuse::kRest);
        EXPECT_EQ(refusal.number, accept.receiver);
        EXPECT_EQ(refusal.blocks != 0, accepts);
        // This acknowledgement was under way.
        rogue->send_control(TransferId::kAck,
                            Ack{.receiver = accept.receiver, .count = refusal.blocks});
        expect_heard();
        rogue->send_control(TransferId::kAck, Ack{.receiver = accept.receiver,
                                                  .count = refusal.blocks,
                                                  .flags = Ack::kEnd | Ack::kFailed});
        expect_heard();
        EXPECT_EQ(victim.completions.size(), 2u);
    }
    expect_alive();
}

// Memory is undeclared while it is being written to: all sub-blocks are taken, but not copied.
TEST_P(TransferRogueTest, RestIsDropped) {
    constexpr uint64_t kLength = 100000;
    Accept accept;
    ASSERT_NO_FATAL_FAILURE(offer(kLength, accept));
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

INSTANTIATE_TEST_SUITE_P(Polls, TransferRogueTest,
                         testing::Values(PollMode::kMemory, PollMode::kCq), [](const auto& test) {
                             return test.param == PollMode::kCq ? "cq" : "memory";
                         });

}  // namespace
}  // namespace tern::test
