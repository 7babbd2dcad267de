// SPDX-License-Identifier: BSD-3-Clause

// A peer that breaks the protocol loses its connection, and no other peer is affected.

#include "rogue.h"

#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "common/seed.h"
#include "node.h"

namespace tern::test {
namespace {

class RogueTest : public testing::Test {
  protected:
    RogueTest() { EXPECT_TRUE(connect(rogue)); }

    bool connect(Rogue& peer) {
        return peer.begin(victim.engine->address()) && turn(peer, [&] { return peer.up(); });
    }
    // Polls the victim and a peer until done(). False: too late.
    bool turn(Rogue& peer, const std::function<bool()>& done) {
        return until(
            [&] {
                victim.poll();
                peer.poll();
            },
            done);
    }
    bool turn(const std::function<bool()>& done) { return turn(rogue, done); }
    // Sends until the victim grants the peer a block.
    bool ask_for_block(Rogue& peer) {
        return turn(peer, [&] {
            if (!peer.grant()) peer.send_frame(FrameKind::kActiveMessage, 1, "hello");
            return peer.grant().has_value();
        });
    }
    void get_block() {
        ASSERT_TRUE(ask_for_block(rogue));
        ASSERT_EQ(victim.engine->usage().hot_peers, 1u);
    }
    void write_tail(Word word) { rogue.write(&word, sizeof(word), rogue.grant()->size - 8); }
    // The victim drops the connection, tells the peer, and still serves an honest peer.
    void expect_dropped() {
        EXPECT_TRUE(turn([this] { return victim.engine->connections() == 0; }));
        EXPECT_TRUE(turn([this] { return rogue.over(); })) << "the peer is not told";
        expect_alive();
    }
    // The victim drops the connection of another peer that sends this control frame.
    void expect_refused(ControlId id, const std::string& payload) {
        Rogue other;
        ASSERT_TRUE(connect(other));
        other.send_frame(FrameKind::kControl, static_cast<uint32_t>(id), payload);
        EXPECT_TRUE(turn(other, [&] { return other.over(); }));
    }
    void expect_alive() {
        Node honest;
        std::string why;
        Channel* channel = honest.engine->attach(victim.engine->address(), this, why);
        ASSERT_TRUE(channel) << why;
        victim.messages.clear();
        for (int i = 0; i < 40; ++i)
            ASSERT_TRUE(honest.send(*channel, 5, std::to_string(i), victim));
        ASSERT_TRUE(until([&] { victim.poll(); }, [&] { return victim.messages.size() == 40; }));
        for (int i = 0; i < 40; ++i)
            EXPECT_EQ(victim.messages[static_cast<size_t>(i)].data, std::to_string(i));
    }

    Node victim{memory_settings()};
    Rogue rogue;
};

TEST_F(RogueTest, SpeaksProperlyAndIsHeard) {
    rogue.send_frame(FrameKind::kActiveMessage, 3, "good");
    ASSERT_TRUE(turn([this] { return victim.messages.size() == 1; }));
    EXPECT_EQ(victim.messages[0].id, 3u);
    EXPECT_EQ(victim.messages[0].data, "good");
}

// The first words of blocks in the same line of all pages would be in the same set of the cache.
TEST_F(RogueTest, BlocksOfPeersEndInDifferentLines) {
    constexpr size_t kPeers = 16;
    std::vector<std::unique_ptr<Rogue>> peers;
    std::map<uint64_t, unsigned> lines;
    for (size_t i = 0; i < kPeers; ++i) {
        Rogue& peer = *peers.emplace_back(std::make_unique<Rogue>());
        ASSERT_TRUE(connect(peer));
        ASSERT_TRUE(ask_for_block(peer));
        const BlockOffer& grant = *peer.grant();
        EXPECT_TRUE(grant.valid());
        EXPECT_GT(grant.size, 3500u);
        ++lines[(grant.address + grant.size - 1) % 4096 / 64];
    }
    for (const auto& [line, count] : lines) EXPECT_LE(count, kPeers / 4) << line;
}

TEST_F(RogueTest, EmptyFrame) {
    rogue.send("", 0);
    expect_dropped();
}

TEST_F(RogueTest, FrameShorterThanAWord) {
    rogue.send("1234567", 7);
    expect_dropped();
}

TEST_F(RogueTest, WordOfZeros) {
    rogue.send("\0\0\0\0\0\0\0", 8);
    expect_dropped();
}

TEST_F(RogueTest, LengthThatIsNotTheFrames) {
    const Word word(FrameKind::kActiveMessage, 1, 9, 0, 0);
    rogue.send(&word, sizeof(word));
    expect_dropped();
}

TEST_F(RogueTest, FrameLongerThanTheBuffers) {
    rogue.send(std::string(60000, 'x').data(), 60000);
    expect_dropped();
}

TEST_F(RogueTest, WrapOutsideABlock) {
    rogue.send_frame(FrameKind::kWrap, 0, "");
    expect_dropped();
}

TEST_F(RogueTest, ClaimsFramesInABlockItHasNot) {
    rogue.send_frame(FrameKind::kActiveMessage, 1, "after", 1);
    expect_dropped();
    EXPECT_TRUE(victim.messages.size() == 40);
}

TEST_F(RogueTest, UnknownControl) {
    rogue.send_frame(FrameKind::kControl, 9, "");
    expect_dropped();
}

TEST_F(RogueTest, TaggedMessageForWhoMatchesNone) {
    rogue.send_frame(FrameKind::kTag, 0, "01234567");
    expect_dropped();
}

TEST_F(RogueTest, CreditWithAPayload) {
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kCredit), "surprise");
    expect_dropped();
}

TEST_F(RogueTest, ReleaseOfNothing) {
    const Release release;
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kRelease),
                     std::string(reinterpret_cast<const char*>(&release), sizeof(release)));
    expect_dropped();
}

TEST_F(RogueTest, RevokeOfNothingIsLate) {
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kRevoke), "");
    rogue.send_frame(FrameKind::kActiveMessage, 1, "still here");
    EXPECT_TRUE(turn([this] { return victim.messages.size() == 1; }));
}

template <class Frame>
std::string packed(const Frame& frame) {
    return {reinterpret_cast<const char*>(&frame), sizeof(frame)};
}

TEST_F(RogueTest, GrantsThatMakeNoSense) {
    const BlockOffer good{.address = 4096, .rkey = 1, .size = 4096, .most = 4096, .flags = 0};
    BlockOffer bad[6] = {good, good, good, good, good, good};
    bad[0].address = 0;
    bad[1].address = 4096 + kStep / 2;
    bad[2].size = 0;
    bad[3].size = 4096 - kStep / 2;
    bad[4].size = UINT32_MAX & ~7u;
    bad[5].flags = 2;
    for (const BlockOffer& grant : bad) expect_refused(ControlId::kOffer, packed(grant));
}

TEST_F(RogueTest, AllowancesThatMakeNoSense) {
    constexpr uint32_t kFirst = allowance::kFirst;
    const AllowanceFrame bad[] = {{.limit = kFirst - 1, .reserved = 0},
                                  {.limit = kFirst + allowance::kMostAhead + 1, .reserved = 0},
                                  {.limit = 1 << 16 | kFirst, .reserved = 0},
                                  {.limit = kFirst, .reserved = 1}};
    for (const AllowanceFrame& frame : bad) {
        SCOPED_TRACE(frame.limit);
        expect_refused(ControlId::kAllowance, packed(frame));
    }
}

TEST_F(RogueTest, SecondGrant) {
    const BlockOffer good{.address = 4096, .rkey = 1, .size = 4096, .most = 4096, .flags = 0};
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kOffer), packed(good));
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kOffer), packed(good));
    expect_dropped();
}

TEST_F(RogueTest, MoreCreditThanWasUsed) {
    const BlockOffer good{.address = 4096, .rkey = 1, .size = 4096, .most = 4096, .flags = 0};
    rogue.send_frame(FrameKind::kControl, static_cast<uint32_t>(ControlId::kOffer), packed(good));
    rogue.send_frame(FrameKind::kActiveMessage, 1, "", 0, 5);
    expect_dropped();
}

TEST_F(RogueTest, TailLongerThanTheBlock) {
    get_block();
    write_tail(Word(FrameKind::kActiveMessage, 1, 60000, 0, rogue.cold()));
    expect_dropped();
}

TEST_F(RogueTest, TailOfAnUnknownKind) {
    get_block();
    write_tail(Word(static_cast<FrameKind>(5), 1, 8, 0, rogue.cold()));
    expect_dropped();
}

TEST_F(RogueTest, TaggedMessageInABlockForWhoMatchesNone) {
    get_block();
    write_tail(Word(FrameKind::kTag, 0, 0, 0, rogue.cold()));
    expect_dropped();
}

TEST_F(RogueTest, ControlInABlock) {
    get_block();
    write_tail(
        Word(FrameKind::kControl, static_cast<uint32_t>(ControlId::kRevoke), 0, 0, rogue.cold()));
    expect_dropped();
}

TEST_F(RogueTest, WrapAtTheTop) {
    get_block();
    write_tail(Word(FrameKind::kWrap, 0, 0, 0, rogue.cold()));
    expect_dropped();
}

TEST_F(RogueTest, FrameOfAnotherRound) {
    get_block();
    write_tail(Word(FrameKind::kActiveMessage, 1, 0, 0, rogue.cold()).in_round(1));
    expect_dropped();
}

TEST_F(RogueTest, FrameOfThePast) {
    get_block();
    write_tail(Word(FrameKind::kActiveMessage, 1, 0, 0, static_cast<uint16_t>(rogue.cold() - 1)));
    expect_dropped();
}

// A frame that claims to follow cold frames that have not come only waits.
TEST_F(RogueTest, FrameOfTheFutureWaits) {
    get_block();
    victim.messages.clear();
    write_tail(Word(FrameKind::kActiveMessage, 1, 0, 0, static_cast<uint16_t>(rogue.cold() + 1)));
    for (int i = 0; i < 1000; ++i) victim.poll();
    EXPECT_TRUE(victim.messages.empty());
    rogue.send_frame(FrameKind::kActiveMessage, 2, "first");
    ASSERT_TRUE(turn([this] { return victim.messages.size() == 2; }));
    EXPECT_EQ(victim.messages[0].id, 2u);
    EXPECT_EQ(victim.messages[1].id, 1u);
}

TEST_F(RogueTest, NamesFramesThatNeverCome) {
    rogue.named = {.hot = 3, .cold = 5};
    rogue.leave();
    EXPECT_TRUE(turn([this] { return victim.engine->table().size() == 0; }));
}

TEST_F(RogueTest, RandomBytes) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    for (int round = 0; round < 60; ++round) {
        Rogue other;
        ASSERT_TRUE(connect(other));
        if (round % 2 == 0) {
            ASSERT_TRUE(ask_for_block(other));
        }
        for (int i = 0; i < 30 && !other.over(); ++i) {
            uint64_t words[8];
            for (uint64_t& word : words) {
                word = uint64_t{random()} << 32 | random();
                // Half of the words look valid at first sight.
                if (random() % 2 == 0)
                    word = (word & ~(uint64_t{0xff} << 56)) | uint64_t{0x80} << 56;
                if (random() % 2 == 0) word &= ~uint64_t{0xe0fff0};
            }
            if (other.grant() && random() % 2 == 0)
                other.write(words, sizeof(words), other.grant()->size - uint32_t{sizeof(words)});
            else
                other.send(words, 8 * (1 + random() % 8));
            victim.poll();
            other.poll();
        }
    }
    expect_alive();
}

}  // namespace
}  // namespace tern::test
