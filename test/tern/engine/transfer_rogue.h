// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rendezvous_node.h"
#include "rogue_world.h"

namespace tern::test {

// Writes the only sub-block of a put that the victim has accepted.
inline void write_block(Rogue& rogue, const Accept& accept, uint64_t length) {
    std::string block(length + sizeof(uint64_t), '\x55');
    const uint64_t flag = flag_of(accept.ring.generation, 0);
    memcpy(block.data() + length, &flag, sizeof(flag));
    const bool notify = (accept.ring.flags & WireRing::kNotify) != 0;
    rogue.write_to(block.data(), block.size(), accept.ring.address + SubBlocks::in_slot(length, 0),
                   accept.ring.rkey, notify ? (accept.receiver & 0xffff) << 16 | 1 : 0);
}

// A victim with memory to put to and get from, and a rogue.
class TransferRogueTest : public testing::TestWithParam<PollMode>,
                          protected RogueWorld<RendezvousNode> {
  protected:
    TransferRogueTest() : RogueWorld(SchemeSetting::kSuperpipeline, GetParam()) { meet(); }

    void expect_dropped() {
        EXPECT_TRUE(dropped());
        expect_whole();
    }
    // The rogue's connection works as before.
    void expect_heard() {
        const size_t before = victim.messages;
        rogue->send_frame(FrameKind::kActiveMessage, 3, "good");
        EXPECT_TRUE(turn([&] { return victim.messages == before + 1; }));
        expect_whole();
    }
    // Memory of which the peer has no key is unchanged.
    void expect_whole() {
        EXPECT_TRUE(
            std::ranges::all_of(victim.hidden, [](std::byte byte) { return byte == std::byte{}; }));
    }
    void expect_alive() {
        RendezvousNode honest;
        std::string why;
        Channel* to = honest.engine->attach(victim.engine->address(), this, why);
        ASSERT_TRUE(to) << why;
        const auto both = [&] {
            victim.poll();
            honest.poll();
        };
        const Buffers::Piece piece{honest.hidden.data(), honest.hidden.size()};
        Status status = Status::kNoResource;
        for (const bool get : {false, true}) {
            std::ranges::fill(get ? victim.memory : honest.hidden, std::byte{get});
            honest.completions.clear();
            status = Status::kNoResource;
            const auto attempt = [&] {
                status = get ? honest.rendezvous->get(*to, {&piece, 1}, victim.address(),
                                                      victim.key(victim.open), 0, {}, {this})
                             : honest.rendezvous->put(*to, {&piece, 1}, victim.address(),
                                                      victim.key(victim.open), 0, {this});
                both();
            };
            ASSERT_TRUE(until(attempt, [&] { return status == Status::kInProgress; }));
            ASSERT_TRUE(until(both, [&] { return honest.completions.size() == 1; }));
            EXPECT_EQ(honest.completions[0], Status::kOk);
            EXPECT_EQ(honest.hidden, victim.memory);
        }
        honest.engine->leave(to, this);
        (void)until(both, [&] { return honest.engine->connections() == 0; });
    }
    // The victim puts to the rogue or gets from it, for the test as user. Returns when the rogue
    // has the request.
    void let_ask(bool get) {
        std::string why;
        channel = victim.engine->attach(rogue->address(), &victim, why);
        ASSERT_TRUE(channel) << why;
        const Buffers::Piece piece{victim.memory.data(), victim.memory.size()};
        Status status = Status::kNoResource;
        const auto attempt = [&] {
            status =
                get ? victim.rendezvous->get(*channel, {&piece, 1}, 4096, {1, 2}, 0, {},
                                             {this, this})
                    : victim.rendezvous->put(*channel, {&piece, 1}, 4096, {1, 2}, 0, {this, this});
            victim.poll();
            rogue->poll();
        };
        ASSERT_TRUE(until(attempt, [&] { return status == Status::kInProgress; }));
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
    }
    // Sends an acknowledgement, followed by `length` bytes.
    void send_reply(const Ack& ack, size_t length) {
        rogue->send_frame(FrameKind::kControl, static_cast<uint32_t>(TransferId::kAck),
                          std::string(reinterpret_cast<const char*>(&ack), sizeof(ack)) +
                              std::string(length, 'r'));
    }
    // Undeclares the memory of which peers have keys, and declares it again. True: a transfer was
    // under way.
    bool undeclare() {
        const bool used = victim.regions.undeclare(victim.open);
        victim.open = victim.regions.declare(victim.memory.data(), victim.memory.size(),
                                             kLocalRead | kLocalWrite | kRemoteAll);
        return used;
    }
    void write_block(const Accept& accept, uint64_t length) {
        test::write_block(*rogue, accept, length);
    }
    void expect_failed() {
        expect_dropped();
        ASSERT_EQ(victim.completions.size(), 1u);
        EXPECT_NE(victim.completions[0], Status::kOk);
    }

    WireRing ring(uint16_t slots = 15) const {
        return {.address = reinterpret_cast<uint64_t>(rogue->window().data()),
                .rkey = rogue->window().rkey(),
                .slots = slots,
                .flags = 0,
                .generation = 1};
    }
    Fetch good_fetch() const {
        return {.receiver = 1,
                .address = victim.address(),
                .length = 100000,
                .key = victim.key(victim.open),
                .ring = ring(),
                .part = {.upto = 100000}};
    }

    // Asks to put `length` bytes, and takes the victim's answer.
    void offer(uint64_t length, Accept& accept) {
        rogue->controls.clear();
        rogue->send_control(TransferId::kDeliver, Deliver{.sender = 7,
                                                          .address = victim.address(),
                                                          .length = length,
                                                          .key = victim.key(victim.open)});
        ASSERT_TRUE(turn([this] { return !rogue->controls.empty(); }));
        ASSERT_EQ(rogue->controls[0].id, TransferId::kAccept);
        accept = rogue->controls[0].as<Accept>();
        rogue->controls.pop_front();
    }
    // Fetches one sub-block, and waits for it.
    void fetch_one() {
        memset(rogue->window().data(), 0, SubBlocks::kSlot);
        Fetch fetch = good_fetch();
        fetch.length = fetch.part.upto = SubBlocks::kSubBlock;
        rogue->send_control(TransferId::kFetch, fetch);
        const auto* flag =
            reinterpret_cast<const uint64_t*>(rogue->window().data() + SubBlocks::kSubBlock);
        ASSERT_TRUE(turn([&] { return __atomic_load_n(flag, __ATOMIC_ACQUIRE) == flag_of(1, 0); }));
    }

    Channel* channel = nullptr;
};

}  // namespace tern::test
