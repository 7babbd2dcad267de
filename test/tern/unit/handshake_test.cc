// SPDX-License-Identifier: BSD-3-Clause
// The handshake, packet by packet.
#include "tern/connection/handshake.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace tern {
namespace {

using Actions = Handshake::Actions;
using State = Handshake::State;

constexpr HandshakeTimes kTimes{10, 80, 1000, 500};

PeerAddress address(uint16_t lid) {
    PeerAddress address;
    address.port.has_lid = true;
    address.port.lid = lid;
    address.interface = {lid, uint64_t{lid} << 8};
    return address;
}

Handshake side_a(uint32_t token = 100) {
    return {token, address(1), address(2), {1000 + token, 3, 1}, kTimes};
}
Handshake side_b(uint32_t token = 200) {
    return {token, address(2), address(1), {1000 + token, 4, 1}, kTimes};
}

Packet sent(const Actions& actions) {
    EXPECT_TRUE(actions.send);
    return actions.packet;
}

// A packet of an ended connection, from address 2 to address 1.
Packet stale(PacketType type, uint32_t token, uint32_t peer_token) {
    Packet packet;
    packet.type = type;
    packet.token = token;
    packet.peer_token = peer_token;
    packet.from = address(2);
    packet.to = address(1).interface;
    packet.qp = {77, 3, 1};
    return packet;
}

bool silent(const Actions& actions) {
    return !actions.connect_qp && !actions.send && !actions.established && !actions.drain &&
           !actions.closed;
}

// Ticks whenever a tick is due, up to `until`. Returns the actions of the last tick.
Actions pass(Handshake& side, uint64_t until) {
    Actions actions;
    while (side.deadline() <= until) actions = side.tick(side.deadline());
    return actions;
}

struct Pair {
    Handshake a = side_a();
    Handshake b = side_b();
};

// `lose_last`: B does not receive A's last packet.
Pair up(bool lose_last = false) {
    Pair pair;
    const Packet first = sent(pair.a.connect(0));
    const Packet second = sent(pair.b.receive(first, 0));
    const Packet third = sent(pair.a.receive(second, 0));
    if (!lose_last) pair.b.receive(third, 0);
    EXPECT_EQ(pair.a.state(), State::kUp);
    EXPECT_EQ(pair.b.state(), lose_last ? State::kReady : State::kUp);
    return pair;
}

// Queue pairs that answered the same attempt one after the other expect other packets.
TEST(Handshake, BothTokensDecideTheFirstPsn) {
    EXPECT_EQ(first_psn(1, 0), 0x85ebcau);
    EXPECT_EQ(first_psn(0, 1), 0x9e3779u);
    EXPECT_EQ(first_psn(1, 1), 0x242344u);
    for (uint32_t receiver = 1; receiver < 1000; ++receiver) {
        const uint32_t apart = (first_psn(7, receiver) - first_psn(7, 0)) & 0xffffff;
        EXPECT_GT(std::min(apart, 0x1000000 - apart), 4096u) << receiver;
    }
}

TEST(Handshake, TakesThreePacketsIfOneSideStarts) {
    Handshake a = side_a();
    Handshake b = side_b();
    const Packet first = sent(a.connect(0));
    EXPECT_EQ(first.type, PacketType::kConnect);
    EXPECT_EQ(first.token, 100u);
    EXPECT_EQ(first.peer_token, 0u);
    EXPECT_EQ(first.from, address(1));
    EXPECT_EQ(first.to, address(2).interface);
    EXPECT_FALSE(first.ready);
    EXPECT_TRUE(silent(a.connect(0))) << "it is under way";

    const Actions answer = b.receive(first, 0);
    EXPECT_TRUE(answer.connect_qp);
    EXPECT_FALSE(answer.established) << "A is not known to receive yet";
    EXPECT_EQ(b.peer(), (QpParameters{1100, 3, 1}));
    EXPECT_TRUE(answer.packet.ready);
    EXPECT_FALSE(answer.packet.knows_ready);
    EXPECT_EQ(answer.packet.peer_token, 100u);

    const Actions last = a.receive(sent(answer), 0);
    EXPECT_TRUE(last.connect_qp);
    EXPECT_TRUE(last.established);
    EXPECT_TRUE(last.packet.knows_ready);
    const Actions end = b.receive(sent(last), 0);
    EXPECT_TRUE(end.established);
    EXPECT_FALSE(end.send);
    EXPECT_EQ(a.deadline(), UINT64_MAX);
    EXPECT_EQ(b.deadline(), UINT64_MAX);
}

TEST(Handshake, NeedsNoTieBrokenIfBothStart) {
    Handshake a = side_a();
    Handshake b = side_b();
    const Packet from_a = sent(a.connect(0));
    const Packet from_b = sent(b.connect(0));
    const Packet a_ready = sent(a.receive(from_b, 0));
    const Packet b_ready = sent(b.receive(from_a, 0));
    const Packet a_up = sent(a.receive(b_ready, 0));
    const Packet b_up = sent(b.receive(a_ready, 0));
    EXPECT_TRUE(silent(a.receive(b_up, 0)));
    EXPECT_TRUE(silent(b.receive(a_up, 0)));
    EXPECT_EQ(a.state(), State::kUp);
    EXPECT_EQ(b.state(), State::kUp);
}

TEST(Handshake, RepeatsItselfEverMoreRarelyAndGivesUpInTime) {
    Handshake a = side_a();
    a.connect(5);
    std::vector<uint64_t> times;
    Actions actions;
    while (a.deadline() != UINT64_MAX) {
        const uint64_t now = a.deadline();
        EXPECT_TRUE(silent(a.tick(now - 1)));
        actions = a.tick(now);
        times.push_back(now);
        if (actions.closed) break;
        EXPECT_EQ(actions.packet.type, PacketType::kConnect);
    }
    EXPECT_EQ(times, (std::vector<uint64_t>{15, 35, 75, 155, 235, 315, 395, 475, 555, 635, 715, 795,
                                            875, 955, 1005}));
    EXPECT_TRUE(actions.timed_out);
    EXPECT_FALSE(actions.lost);
    EXPECT_FALSE(actions.send) << "to whom?";
    EXPECT_EQ(a.state(), State::kClosed);
}

// Otherwise packets of many connections that are lost together are repeated together.
TEST(Handshake, RetransmissionsOfManyConnectionsSpread) {
    HandshakeTimes times{1000, 8000, 100000, 500};
    times.jitter = 25;
    std::vector<uint64_t> first;
    for (uint32_t token = 1; token <= 1000; ++token) {
        Handshake side(token, address(1), address(2), {}, times);
        side.connect(0);
        first.push_back(side.deadline());
        side.tick(side.deadline());
        EXPECT_GE(side.deadline(), first.back() + 1500);
        EXPECT_LE(side.deadline(), first.back() + 2000);
    }
    EXPECT_GE(*std::ranges::min_element(first), 750u);
    EXPECT_LE(*std::ranges::max_element(first), 1000u);
    for (uint64_t from = 750; from < 1000; from += 50)
        EXPECT_GT(
            std::ranges::count_if(first, [&](uint64_t t) { return t >= from && t < from + 50; }),
            100);
}

TEST(Handshake, AnswerGivesThePeerItsFullTime) {
    Handshake a = side_a();
    Handshake b = side_b();
    a.connect(0);
    a.receive(sent(b.connect(0)), 990);
    EXPECT_EQ(a.deadline(), 1000u);
    EXPECT_TRUE(sent(a.tick(1000)).ready);
    EXPECT_FALSE(pass(a, 1989).closed);
    const Actions end = a.tick(1990);
    EXPECT_TRUE(end.timed_out);
    EXPECT_EQ(sent(end).type, PacketType::kGone) << "the peer may have come up";
}

TEST(Handshake, ASignOfLifeGivesThePeerMoreTime) {
    Packet alive = stale(PacketType::kAlive, 0, 100);
    Handshake a = side_a();
    EXPECT_TRUE(silent(a.receive(alive, 0)));
    EXPECT_EQ(a.deadline(), UINT64_MAX) << "it was not even asked";
    a.connect(0);
    EXPECT_TRUE(silent(a.receive(alive, 900)));
    alive.peer_token = 99;
    a.receive(alive, 950);
    uint64_t now = 0;
    while (!a.tick(now = a.deadline()).closed) EXPECT_LE(now, 1900u);
    EXPECT_EQ(now, 1900u) << "an older attempt's does not count";

    Pair pair = up();
    pair.a.disconnect(0, {});
    alive.peer_token = 100;
    pair.a.receive(alive, 400);
    EXPECT_FALSE(pass(pair.a, 899).closed);
    EXPECT_TRUE(pair.a.tick(900).closed);
}

// An attempt that its side does not want any more ends after the time of a disconnect.
TEST(Handshake, AnAttemptMayLoseItsUser) {
    Handshake a = side_a();
    a.connect(0);
    a.want(false, 100);
    Packet alive = stale(PacketType::kAlive, 0, 100);
    a.receive(alive, 200);
    EXPECT_FALSE(pass(a, 699).closed);
    EXPECT_TRUE(a.tick(700).timed_out);

    Handshake b = side_a();
    b.connect(0);
    b.want(false, 100);
    b.want(true, 400);
    EXPECT_FALSE(pass(b, 1399).closed);
    EXPECT_TRUE(b.tick(1400).timed_out);

    Handshake before = side_a();
    before.want(false, 0);
    EXPECT_EQ(before.deadline(), UINT64_MAX) << "it has not begun";

    Pair pair = up();
    pair.a.want(false, 0);
    EXPECT_EQ(pair.a.deadline(), UINT64_MAX);
}

// A process that computes sends no packets, so this time does not count towards the limit.
TEST(Handshake, TimeAwayDoesNotCount) {
    Handshake a = side_a();
    a.connect(0);
    EXPECT_FALSE(pass(a, 400).closed);
    const uint64_t due = a.deadline();
    EXPECT_EQ(sent(a.tick(due + 5000)).type, PacketType::kConnect);
    EXPECT_FALSE(pass(a, 5999).closed);
    EXPECT_TRUE(a.tick(6000).timed_out);
}

TEST(Handshake, DataSaysThatThePeerIsUp) {
    Pair pair = up(true);
    EXPECT_TRUE(pair.b.data_arrived(0).established);
    EXPECT_TRUE(silent(pair.b.data_arrived(0)));
    EXPECT_EQ(pair.b.deadline(), UINT64_MAX);
}

TEST(Handshake, RepeatsUntilThePeerIsKnownToBeUp) {
    Pair pair = up(true);
    const Packet again = sent(pair.b.tick(pair.b.deadline()));
    const Packet answer = sent(pair.a.receive(again, 50));
    EXPECT_TRUE(pair.b.receive(answer, 50).established);
}

TEST(Handshake, DuplicatesDoNoHarm) {
    Handshake a = side_a();
    Handshake b = side_b();
    const Packet first = sent(a.connect(0));
    const Packet second = sent(b.receive(first, 0));
    EXPECT_FALSE(b.receive(first, 1).connect_qp);
    const Packet third = sent(a.receive(second, 2));
    EXPECT_FALSE(a.receive(second, 3).established);
    b.receive(third, 4);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(silent(b.receive(third, 5)));
    const Actions answer = b.receive(first, 6);
    EXPECT_TRUE(answer.packet.knows_ready);
    EXPECT_FALSE(answer.closed);
}

TEST(Handshake, EndsWhenThePeerHasDrained) {
    Pair pair = up();
    const Packet asked = sent(pair.a.disconnect(0, {}));
    EXPECT_EQ(asked.type, PacketType::kDisconnect);
    EXPECT_TRUE(pair.b.receive(asked, 0).drain);
    EXPECT_EQ(pair.b.state(), State::kDraining);
    const Packet alive = sent(pair.b.receive(asked, 0));
    EXPECT_EQ(alive.type, PacketType::kAlive) << "there is no hurry";
    pair.a.receive(alive, 400);
    EXPECT_FALSE(pass(pair.a, 899).closed);

    const Actions drained = pair.b.drained({});
    EXPECT_TRUE(drained.closed);
    EXPECT_FALSE(drained.lost);
    const Actions end = pair.a.receive(sent(drained), 0);
    EXPECT_TRUE(end.closed);
    EXPECT_FALSE(end.lost);
    EXPECT_FALSE(end.send);
}

TEST(Handshake, AnEndNamesWhatEachSideHasSent) {
    Pair pair = up();
    EXPECT_FALSE(pair.b.peer_sent());
    const SentFrames by_a{.hot = 1, .cold = 2}, by_b{.hot = 3, .cold = 4};
    (void)pair.a.disconnect(0, by_a);
    pair.b.receive(sent(pair.a.tick(10)), 10);
    EXPECT_EQ(pair.b.peer_sent(), by_a) << "also if the first packet was lost";
    pair.a.receive(sent(pair.b.drained(by_b)), 20);
    EXPECT_EQ(pair.a.peer_sent(), by_b);

    Pair both = up();
    const Packet from_a = sent(both.a.disconnect(0, by_a));
    const Packet from_b = sent(both.b.disconnect(0, by_b));
    both.a.receive(from_b, 0);
    both.b.receive(from_a, 0);
    EXPECT_EQ(both.a.peer_sent(), by_b);
    EXPECT_EQ(both.b.peer_sent(), by_a);

    // A side that fails does not know what has arrived.
    Pair failing = up();
    failing.a.receive(sent(failing.b.abandon()), 0);
    EXPECT_EQ(failing.a.state(), State::kClosed);
    EXPECT_FALSE(failing.a.peer_sent());
}

TEST(Handshake, EndsAtOnceIfBothAsk) {
    Pair pair = up();
    const Packet from_a = sent(pair.a.disconnect(0, {}));
    const Packet from_b = sent(pair.b.disconnect(0, {}));
    for (const Actions& end : {pair.a.receive(from_b, 0), pair.b.receive(from_a, 0)}) {
        EXPECT_TRUE(end.closed);
        EXPECT_FALSE(end.lost);
        EXPECT_EQ(sent(end).type, PacketType::kGone);
    }
}

TEST(Handshake, MayEndBeforeOneSideKnewThatItWasUp) {
    Pair pair = up(true);
    const Actions actions = pair.b.receive(sent(pair.a.disconnect(0, {})), 0);
    EXPECT_TRUE(actions.drain) << "data may have come";
    EXPECT_FALSE(actions.established);
    EXPECT_TRUE(pair.a.receive(sent(pair.b.drained({})), 0).closed);
}

TEST(Handshake, SilenceIsTakenForConsent) {
    Pair pair = up();
    pair.a.disconnect(0, {});
    EXPECT_EQ(sent(pair.a.tick(10)).type, PacketType::kDisconnect);
    EXPECT_EQ(pair.a.deadline(), 30u);
    EXPECT_FALSE(pass(pair.a, 499).closed);
    const Actions end = pair.a.tick(500);
    EXPECT_TRUE(end.closed);
    EXPECT_FALSE(end.lost);
    EXPECT_FALSE(end.timed_out);
    EXPECT_TRUE(pair.b.receive(sent(end), 500).lost);
}

// Silence would lose what the peer sends on a connection that this side ended unasked.
TEST(Handshake, APatientSideGivesThePeerAsLongAsForAConnect) {
    Pair pair = up();
    pair.a.be_patient(true);
    (void)pair.a.disconnect(0, {});
    EXPECT_FALSE(pass(pair.a, 999).closed);
    EXPECT_TRUE(pass(pair.a, 1000).closed);
}

TEST(Handshake, ASpareIsOfThisConnectionWhileItIsUp) {
    Pair pair = up();
    Packet spare = pair.a.spare();
    EXPECT_TRUE(pair.b.is_spare(spare));
    EXPECT_TRUE(silent(pair.b.receive(spare, 0))) << "nothing changes by it";
    EXPECT_EQ(pair.b.state(), State::kUp);
    ++spare.token;
    EXPECT_FALSE(pair.b.is_spare(spare)) << "it is of another attempt";
    spare = pair.a.spare();
    (void)pair.b.disconnect(0, {});
    EXPECT_FALSE(pair.b.is_spare(spare));
}

TEST(Handshake, DisconnectIsForConnectionsThatAreUp) {
    Handshake a = side_a();
    a.connect(0);
    EXPECT_TRUE(silent(a.disconnect(0, {})));
    EXPECT_TRUE(silent(a.drained({})));
    EXPECT_TRUE(silent(a.data_arrived(0)));
    EXPECT_EQ(a.state(), State::kConnecting);
}

TEST(Handshake, AbandonTellsThePeer) {
    Pair pair = up();
    const Actions gone = pair.a.abandon();
    EXPECT_TRUE(gone.closed);
    const Actions end = pair.b.receive(sent(gone), 0);
    EXPECT_TRUE(end.closed);
    EXPECT_TRUE(end.lost);
    EXPECT_TRUE(silent(pair.a.abandon()));
    for (const auto type : {PacketType::kConnect, PacketType::kDisconnect, PacketType::kGone})
        EXPECT_TRUE(silent(pair.a.receive(stale(type, 200, 100), 0))) << "it is over";

    Handshake nobody = side_a();
    nobody.connect(0);
    EXPECT_FALSE(nobody.abandon().send) << "nobody has answered";
}

TEST(Handshake, ARefusalEndsTheAttempt) {
    Handshake a = side_a();
    const Packet first = sent(a.connect(0));
    const Packet refusal = refuse(first, address(2), Refusal::kResources);
    EXPECT_EQ(refusal.token, 0u) << "there is no connection";
    EXPECT_EQ(refusal.peer_token, 100u);
    EXPECT_EQ(refusal.to, address(1).interface);
    EXPECT_TRUE(silent(side_a(99).receive(refusal, 0))) << "of another attempt";
    const Actions end = a.receive(refusal, 0);
    EXPECT_TRUE(end.closed);
    EXPECT_EQ(end.refusal, Refusal::kResources);
    EXPECT_FALSE(end.send);
    EXPECT_FALSE(answer_stray(refusal, address(1)));
}

TEST(Handshake, ARefusalIsBelievedOfThePeerOnly) {
    Pair pair = up();
    Packet refusal = stale(PacketType::kGone, 0, 100);
    refusal.refusal = Refusal::kResources;
    EXPECT_TRUE(silent(pair.a.receive(refusal, 0))) << "the peer has a connection";
    EXPECT_EQ(pair.a.state(), State::kUp);
}

// A failure on the passive side only is reported to the peer, with its reason.
TEST(Handshake, WhoCannotConnectSaysWhy) {
    Handshake a = side_a();
    Handshake b = side_b();
    b.receive(sent(a.connect(0)), 0);
    const Actions gone = b.abandon(Refusal::kDevice);
    const Actions end = a.receive(sent(gone), 0);
    EXPECT_TRUE(end.closed);
    EXPECT_EQ(end.refusal, Refusal::kDevice);

    Pair pair = up();
    EXPECT_EQ(pair.b.receive(sent(pair.a.abandon()), 0).refusal, Refusal::kNone);
}

TEST(Handshake, LatePacketsOfAnOldConnectionAreToldApart) {
    Pair pair = up();
    for (const auto type : {PacketType::kConnect, PacketType::kDisconnect}) {
        const Actions answer = pair.a.receive(stale(type, 199, 99), 0);
        EXPECT_FALSE(answer.closed);
        EXPECT_EQ(sent(answer).type, PacketType::kGone);
        EXPECT_EQ(answer.packet.token, 99u);
        EXPECT_EQ(answer.packet.peer_token, 199u);
    }
    EXPECT_EQ(sent(pair.a.receive(stale(PacketType::kDisconnect, 199, 100), 0)).type,
              PacketType::kGone);
    EXPECT_TRUE(silent(pair.a.receive(stale(PacketType::kGone, 199, 100), 0)));
    EXPECT_TRUE(silent(pair.a.receive(stale(PacketType::kGone, 200, 99), 0)));
    EXPECT_TRUE(silent(pair.a.receive(stale(PacketType::kConnect, 199, 0), 0)))
        << "an attempt given up before this connection was made";
    EXPECT_EQ(pair.a.state(), State::kUp);
}

TEST(Handshake, AnAttemptAnsweredTooLateIsLost) {
    // B answers an attempt that A has given up, while A's next attempt is under way.
    Handshake a = side_a(101);
    Handshake b = side_b();
    Packet late = stale(PacketType::kConnect, 100, 0);
    late.from = address(1);
    late.to = address(2).interface;
    a.connect(0);
    const Actions answer = a.receive(sent(b.receive(late, 0)), 0);
    EXPECT_FALSE(answer.connect_qp);
    const Actions end = b.receive(sent(answer), 0);
    EXPECT_TRUE(end.closed);
    EXPECT_TRUE(end.lost);
}

TEST(Handshake, ANewAttemptOfThePeerEndsTheOldConnection) {
    for (const auto state : {State::kReady, State::kUp, State::kDraining, State::kClosing}) {
        Pair pair = up(true);
        if (state == State::kUp) pair.b.data_arrived(0);
        if (state == State::kDraining) pair.b.receive(sent(pair.a.disconnect(0, {})), 0);
        if (state == State::kClosing) {
            pair.b.data_arrived(0);
            pair.b.disconnect(0, {});
        }
        ASSERT_EQ(pair.b.state(), state);
        Handshake again = side_a(101);
        const Packet packet = sent(again.connect(0));
        const Actions end = pair.b.receive(packet, 0);
        EXPECT_TRUE(end.closed);
        EXPECT_EQ(end.lost, state != State::kClosing);
        EXPECT_FALSE(end.send);
        Handshake b = side_b(201);
        EXPECT_TRUE(again.receive(sent(b.receive(packet, 0)), 0).established);
    }
}

TEST(Handshake, TokensStartOverAfterTheLast) {
    Handshake b = side_b();
    Handshake old = side_a(UINT32_MAX);
    const Packet before = sent(old.connect(0));
    Handshake again = side_a(1);
    const Packet after = sent(again.connect(0));
    b.receive(after, 0);
    EXPECT_FALSE(b.receive(before, 0).closed);

    Handshake other = side_b(201);
    other.receive(before, 0);
    EXPECT_TRUE(other.receive(after, 0).closed);
}

TEST(Handshake, StraysAreAnsweredIfTheyAsk) {
    const PeerAddress self = address(1);
    const auto answer = answer_stray(stale(PacketType::kDisconnect, 7, 8), self);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->type, PacketType::kGone);
    EXPECT_EQ(answer->token, 8u);
    EXPECT_EQ(answer->peer_token, 7u);
    EXPECT_EQ(answer->from, self);
    EXPECT_EQ(answer->to, address(2).interface);
    EXPECT_TRUE(answer_stray(stale(PacketType::kConnect, 7, 8), self));
    EXPECT_FALSE(answer_stray(stale(PacketType::kConnect, 7, 0), self));
    EXPECT_FALSE(answer_stray(stale(PacketType::kGone, 7, 8), self));
    EXPECT_FALSE(answer_stray(stale(PacketType::kPing, 7, 8), self));
}

TEST(Handshake, WorksWithoutATimeLimit) {
    Handshake a(1, address(1), address(2), {1, 1, 1}, {10, UINT64_MAX, UINT64_MAX, UINT64_MAX});
    a.connect(1);
    uint64_t now = 0;
    for (int i = 0; i < 200 && a.deadline() != UINT64_MAX; ++i) {
        EXPECT_GT(a.deadline(), now);
        now = a.deadline();
        EXPECT_FALSE(a.tick(now).closed);
    }
}

}  // namespace
}  // namespace tern
