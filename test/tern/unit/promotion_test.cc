// SPDX-License-Identifier: BSD-3-Clause
// Which peers get a block.
#include "tern/veloblock/promotion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "schedules.h"

namespace tern {
namespace {

using Promoted = Promotion::Decision;  // `Decision` is also of the rendezvous

// An owner that follows the decisions, at once or some time later.
class Owner {
  public:
    Owner(const Promotion::Limits& limits, size_t count) : promotion(limits), peers(count) {}

    Promoted message(Promotion::Peer& peer) {
        if (promotion.count(peer))
            promotion.end_window([&](Promotion::Peer& idle) { leaving.push_back(&idle); });
        if (peer.hot) return Promoted::kStay;
        Promotion::Peer* victim = nullptr;
        const Promoted decision = promotion.decide(peer, victim);
        if (decision == Promoted::kPromote) promotion.promoted(peer);
        if (decision == Promoted::kReplace) leaving.push_back(victim);
        return decision;
    }
    unsigned messages(Promotion::Peer& peer, unsigned count) {
        unsigned promoted = 0;
        while (count-- > 0) promoted += message(peer) == Promoted::kPromote;
        return promoted;
    }
    // All revoked blocks have been released.
    void let_go() {
        for (Promotion::Peer* peer : leaving)
            if (peer->hot) promotion.demoted(*peer);
        leaving.clear();
    }
    size_t hot() const { return std::ranges::count(peers, true, &Promotion::Peer::hot); }

    Promotion promotion;
    std::vector<Promotion::Peer> peers;
    std::vector<Promotion::Peer*> leaving;
};

TEST(Promotion, IsForThoseThatTalk) {
    Owner owner({.after = 4, .most = 2, .window = 100, .keep = 4}, 3);
    EXPECT_EQ(owner.messages(owner.peers[0], 3), 0u);
    EXPECT_EQ(owner.message(owner.peers[0]), Promoted::kPromote);
    EXPECT_TRUE(owner.peers[0].hot);
    EXPECT_EQ(owner.messages(owner.peers[1], 3), 0u) << "every peer counts for itself";
}

TEST(Promotion, ForgetsAtTheEndOfAWindow) {
    Owner owner({.after = 4, .most = 2, .window = 10, .keep = 1}, 3);
    for (int window = 0; window < 5; ++window) {
        EXPECT_EQ(owner.messages(owner.peers[0], 3), 0u);
        owner.messages(owner.peers[1], 7);
    }
    EXPECT_FALSE(owner.peers[0].hot);
}

TEST(Promotion, TakesAwayWhatIsNotUsed) {
    Owner owner({.after = 2, .most = 2, .window = 20, .keep = 5}, 3);
    owner.messages(owner.peers[0], 6);
    owner.messages(owner.peers[1], 4);
    EXPECT_EQ(owner.hot(), 2u);
    owner.messages(owner.peers[2], 9);
    EXPECT_TRUE(owner.leaving.empty());
    owner.messages(owner.peers[0], 1);
    ASSERT_EQ(owner.leaving, std::vector{&owner.peers[1]}) << "4 messages of 20";
    owner.let_go();
    EXPECT_EQ(owner.messages(owner.peers[2], 2), 1u) << "room again";
}

TEST(Promotion, WhatAPeerHasSentInAnOlderWindowIsForgotten) {
    Owner owner({.after = 4, .most = 1, .window = 20, .keep = 0}, 3);
    owner.messages(owner.peers[0], 20);
    owner.messages(owner.peers[1], 20);
    EXPECT_TRUE(owner.leaving.empty()) << "20 messages to 20";
    owner.messages(owner.peers[2], 3);
    EXPECT_EQ(owner.message(owner.peers[2]), Promoted::kReplace) << "silent for a window";
    EXPECT_EQ(owner.leaving, std::vector{&owner.peers[0]});
}

TEST(Promotion, ABurstAtTheStartOfAWindowReplacesNoBusyPeer) {
    Owner owner({.after = 4, .most = 2, .window = 200, .keep = 4}, 3);
    owner.messages(owner.peers[0], 100);
    owner.messages(owner.peers[1], 100);
    ASSERT_EQ(owner.hot(), 2u);
    for (int window = 0; window < 10; ++window) {
        owner.messages(owner.peers[2], 40);
        owner.messages(owner.peers[0], 80);
        owner.messages(owner.peers[1], 80);
        ASSERT_TRUE(owner.leaving.empty()) << window;
    }
    EXPECT_EQ(owner.messages(owner.peers[2], 200), 0u);
    EXPECT_FALSE(owner.leaving.empty()) << "more than a burst";
}

TEST(Promotion, APeerThatHasLostItsPlaceBeginsAnew) {
    Owner owner({.after = 4, .most = 1, .window = 100, .keep = 40}, 2);
    owner.messages(owner.peers[0], 70);
    owner.messages(owner.peers[1], 30);
    owner.messages(owner.peers[1], 100);
    ASSERT_EQ(owner.leaving, std::vector{&owner.peers[0]});
    owner.let_go();
    EXPECT_EQ(owner.messages(owner.peers[1], 4), 1u);
    owner.messages(owner.peers[0], 8);
    EXPECT_TRUE(owner.leaving.empty()) << "8 messages to 100";
}

TEST(Promotion, AHotPeerNeedsNoVerdict) {
    Owner owner({.after = 1, .most = 4, .window = 100, .keep = 0}, 1);
    owner.messages(owner.peers[0], 3);
    Promotion::Peer* victim = nullptr;
    EXPECT_EQ(owner.promotion.decide(owner.peers[0], victim), Promoted::kStay);
}

TEST(Promotion, ReplacesThePeerThatTalksLeast) {
    Owner owner({.after = 4, .most = 2, .window = 1000, .keep = 0}, 3);
    owner.messages(owner.peers[0], 20);
    owner.messages(owner.peers[1], 6);
    EXPECT_EQ(owner.messages(owner.peers[2], 15), 0u);
    EXPECT_TRUE(owner.leaving.size() == 0 || owner.leaving.back() == &owner.peers[1]);
    EXPECT_EQ(owner.message(owner.peers[2]), Promoted::kReplace);
    EXPECT_EQ(owner.leaving.back(), &owner.peers[1]);
    EXPECT_EQ(owner.hot(), 2u);
    owner.let_go();
    EXPECT_EQ(owner.message(owner.peers[2]), Promoted::kPromote);
}

TEST(Promotion, DoesNotReplaceAmongEquals) {
    Owner owner({.after = 4, .most = 2, .window = 100'000, .keep = 0}, 3);
    for (int round = 0; round < 1000; ++round)
        for (Promotion::Peer& peer : owner.peers) owner.message(peer);
    EXPECT_TRUE(owner.leaving.empty());
    EXPECT_FALSE(owner.peers[2].hot);
}

TEST(Promotion, MayBeTurnedOff) {
    Owner owner({.after = 1, .most = 0, .window = 10, .keep = 0}, 1);
    EXPECT_EQ(owner.messages(owner.peers[0], 100), 0u);
}

TEST(Promotion, HoldsUnderRandomTraffic) {
    each_schedule(5'000, [](Random random) -> std::string {
        Promotion::Limits limits;
        limits.after = static_cast<uint32_t>(random.between(1, 16));
        limits.most = static_cast<uint32_t>(random.below(8));
        limits.window = static_cast<uint32_t>(random.between(1, 200));
        limits.keep = static_cast<uint32_t>(random.below(32));
        Owner owner(limits, random.between(1, 16));
        std::vector<uint32_t> sent(owner.peers.size());
        for (int step = 0; step < 500; ++step) {
            const size_t talker =
                random.below(owner.peers.size() / (step / 100 + 1) + 1) % owner.peers.size();
            Promotion::Peer& peer = owner.peers[talker];
            const bool was_hot = peer.hot;
            const size_t leaving = owner.leaving.size();
            const Promoted decision = owner.message(peer);
            if (owner.hot() > limits.most) return "more hot peers than there may be";
            if (owner.hot() != owner.promotion.hot()) return "it has lost count";
            if (was_hot && decision != Promoted::kStay) return "a hot peer is promoted";
            for (size_t i = leaving; i < owner.leaving.size(); ++i)
                if (!owner.leaving[i]->hot) return "a cold peer is demoted";
            if (decision == Promoted::kReplace && owner.leaving.back() == &peer)
                return "a peer replaces itself";
            if (random.chance(20)) owner.let_go();
        }
        return {};
    });
}

}  // namespace
}  // namespace tern
