// SPDX-License-Identifier: BSD-3-Clause
// Peers that break the protocol of direct messages.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "direct_node.h"
#include "rogue_world.h"
#include "verbs_faults.h"
#include "xrc_way.h"

namespace tern::test {
namespace {

class DirectRogue : public testing::Test, protected RogueWorld<DirectNode> {
  protected:
    explicit DirectRogue(const TupleQSettings& settings = few_tuples())
        : RogueWorld<DirectNode>(settings) {}
    void SetUp() override {
        if (!has_xrc()) GTEST_SKIP() << "no XRC";
    }
    template <class Frame>
    void say(TupleControlId id, const Frame& frame) {
        rogue->send_control(static_cast<TransferId>(id), frame);
    }
    // Waits for the victim's next control frame with this id.
    template <class Frame>
    bool hear(TupleControlId id, Frame& frame) {
        const auto next = [this, id] {
            while (!rogue->controls.empty() &&
                   rogue->controls.front().id != static_cast<TransferId>(id))
                rogue->controls.pop_front();
            return !rogue->controls.empty();
        };
        if (!turn(next)) return false;
        frame = rogue->controls.front().as<Frame>();
        rogue->controls.pop_front();
        return true;
    }
    // Makes the victim the sender of a tag, to a queue that does not exist.
    void bind(WireBound& bound, const WireBind& frame = good_bind) {
        say(TupleControlId::kBind, frame);
        WireConnect wanted;
        ASSERT_TRUE(hear(TupleControlId::kConnect, wanted));
        say(TupleControlId::kConnected,
            WireConnected{.number = wanted.number, .qp_num = 0xfffffe, .mtu = IBV_MTU_1024});
        ASSERT_TRUE(hear(TupleControlId::kBound, bound));
        ASSERT_NE(bound.sender, WireBound::kRefused);
    }

    // Makes the victim ask the rogue for tag 1.
    void ask(WireBind& bind) {
        in = victim.engine->attach(rogue->address(), &victim, victim.reason);
        ASSERT_NE(in, nullptr);
        ASSERT_TRUE(turn([&] { return in->up(); }));
        ASSERT_TRUE(victim.tupleq->bind(*in, 1));
        ASSERT_TRUE(hear(TupleControlId::kBind, bind));
    }

    // Binds the victim's tuple; the rogue agrees, so that it gets the first grants.
    void receive(WireBind& bind) {
        ASSERT_NO_FATAL_FAILURE(ask(bind));
        say(TupleControlId::kBound, WireBound{.tuple = bind.tuple,
                                              .sender = 0,
                                              .address = address_of(rogue->window().data()),
                                              .rkey = rogue->window().rkey()});
        const auto* words = reinterpret_cast<const uint64_t*>(rogue->window().data());
        ASSERT_TRUE(turn([&] { return Grant::read(words + 1).permits(0, 1, 5); }));
    }

    Channel* in = nullptr;
    static constexpr WireBind good_bind{
        .tag = 1, .mask = KeyMask::kFull, .node = 99, .queue = 12345, .tuple = 3, .depth = 2};
};

class DirectRogueWithFewHeld : public DirectRogue {
  protected:
    static TupleQSettings few_held() {
        TupleQSettings settings = few_tuples();
        settings.held = {.pause = 4096, .most = 64 << 10};
        settings.announced_limit = 3'600'000'000'000;
        return settings;
    }
    DirectRogueWithFewHeld() : DirectRogue(few_held()) {}
};

TEST_F(DirectRogue, WhatMakesNoSenseEndsTheConnection) {
    const WireConnect good_connect{.number = 1, .qp_num = 77, .psn = 5, .mtu = IBV_MTU_1024};
    const auto bind_with = [&](auto field, auto value) {
        return [=, this] {
            WireBind bind = good_bind;
            bind.*field = value;
            say(TupleControlId::kBind, bind);
        };
    };
    const auto connect_with = [&](auto field, auto value) {
        return [=, this] {
            WireConnect connect = good_connect;
            connect.*field = value;
            say(TupleControlId::kConnect, connect);
        };
    };
    const std::vector<std::function<void()>> lies{
        [&] { say(TupleControlId::kBind, uint64_t{5}); },
        [&] { say(TupleControlId::kBound, uint64_t{5}); },
        [&] { say(TupleControlId::kClose, uint32_t{5}); },
        [&] { say(TupleControlId::kClosed, uint32_t{5}); },
        [&] { say(TupleControlId::kConnect, uint32_t{5}); },
        [&] { say(TupleControlId::kConnected, uint32_t{5}); },
        [&] { say(static_cast<TupleControlId>(30), uint32_t{5}); },
        bind_with(&WireBind::mask, 0),
        bind_with(&WireBind::mask, ~uint64_t{0x1f}),
        bind_with(&WireBind::node, 0),
        bind_with(&WireBind::queue, 0),
        [&] { say(TupleControlId::kClose, WireClose{.sender = 0}); },
        [&] { say(TupleControlId::kClose, WireClose{.sender = 60000}); },
        [&] { say(TupleControlId::kClose, WireClose{.sender = 0, .flags = 2}); },
        [&] { say(TupleControlId::kBound, WireBound{.tuple = 0}); },
        [&] { say(TupleControlId::kBound, WireBound{.tuple = 0, .sender = 0, .address = 4096}); },
        [&] {
            say(TupleControlId::kBound, WireBound{.tuple = 60000, .sender = 0, .address = 4096});
        },
        [&] { say(TupleControlId::kBound, WireBound{.tuple = 0, .sender = 0, .address = 4097}); },
        [&] { say(TupleControlId::kClosed, WireClosed{.tuple = 0}); },
        [&] { say(TupleControlId::kClosed, WireClosed{.tuple = 60000}); },
        [&] { say(TupleControlId::kClosed, WireClosed{.tuple = 0, .flags = 4}); },
        connect_with(&WireConnect::qp_num, 0),
        connect_with(&WireConnect::qp_num, 0x1000000),
        connect_with(&WireConnect::psn, 0x1000000),
        connect_with(&WireConnect::mtu, 6),
        [&] { say(TupleControlId::kConnected, WireConnected{.number = 1, .qp_num = 9, .mtu = 3}); },
    };
    for (size_t i = 0; i < lies.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(meet());
        lies[i]();
        EXPECT_TRUE(dropped()) << i;
    }
    EXPECT_EQ(victim.tupleq->queues_in_use(), 0u);
}

// The frames are valid otherwise.
TEST_F(DirectRogue, ReservedFieldsAreZero) {
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    say(TupleControlId::kClose, WireClose{.sender = bound.sender, .reserved = 1});
    EXPECT_TRUE(dropped());

    ASSERT_NO_FATAL_FAILURE(meet());
    say(TupleControlId::kConnected, WireConnected{.number = 1, .flags = 2});
    EXPECT_TRUE(dropped());

    ASSERT_NO_FATAL_FAILURE(meet());
    WireBind bind;
    ASSERT_NO_FATAL_FAILURE(ask(bind));
    say(TupleControlId::kBound, WireBound{.tuple = bind.tuple, .reserved = 1});
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.tupleq->queues_in_use(), 0u);
}

TEST_F(DirectRogue, ConnectingAgainTakesTheOldOnesPlace) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint32_t i = 1; i <= 100; ++i) {
        say(TupleControlId::kConnect,
            WireConnect{.number = i, .qp_num = 77, .psn = 5, .mtu = IBV_MTU_1024});
        WireConnected answer;
        ASSERT_TRUE(hear(TupleControlId::kConnected, answer));
        EXPECT_EQ(answer.number, i);
        EXPECT_NE(answer.qp_num, 0u);
    }
}

// Each Bind is answered, and a later one may succeed.
TEST_F(DirectRogue, LinkThatIsRefused) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint64_t tag = 1; tag <= 3; ++tag) {
        WireBind bind = good_bind;
        bind.tag = tag;
        say(TupleControlId::kBind, bind);
        bind.tag += 10;
        say(TupleControlId::kBind, bind);
        for (int i = 0; i < 2; ++i) {
            WireConnect wanted;
            ASSERT_TRUE(hear(TupleControlId::kConnect, wanted));
            EXPECT_EQ(wanted.number, 2 * tag - 1 + i) << "asked once for each";
            say(TupleControlId::kConnected,
                WireConnected{.number = wanted.number, .qp_num = 0, .mtu = IBV_MTU_1024});
            WireBound bound;
            ASSERT_TRUE(hear(TupleControlId::kBound, bound));
            EXPECT_EQ(bound.sender, WireBound::kRefused);
        }
        EXPECT_TRUE(turn([this] { return victim.tupleq->arm() == Status::kOk; }));
    }
    EXPECT_EQ(victim.tupleq->counters().links, 0u);
    EXPECT_EQ(victim.tupleq->sender().tuples_sent(), 0u);
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    EXPECT_EQ(victim.tupleq->sender().tuples_sent(), 1u);
}

TEST_F(DirectRogue, TheSameTupleTwice) {
    ASSERT_NO_FATAL_FAILURE(meet());
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    say(TupleControlId::kBind, good_bind);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.tupleq->sender().tuples_sent(), 0u);
}

TEST_F(DirectRogue, TuplesOfDifferentMasks) {
    ASSERT_NO_FATAL_FAILURE(meet());
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    WireBind other = good_bind;
    other.tag = 1 << 4;
    other.mask = ~uint64_t{3};
    say(TupleControlId::kBind, other);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.tupleq->sender().tuples_sent(), 0u);
}

TEST_F(DirectRogue, MoreTuplesThanThereIsRoomForAreRefused) {
    ASSERT_NO_FATAL_FAILURE(meet());
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    for (uint64_t tag = 2; tag <= 6; ++tag) {
        WireBind more = good_bind;
        more.tag = tag;
        say(TupleControlId::kBind, more);
        ASSERT_TRUE(hear(TupleControlId::kBound, bound));
        EXPECT_EQ(bound.sender == WireBound::kRefused, tag > 4);
    }
    WireBind deep = good_bind;
    deep.tag = 7;
    deep.depth = 1024;
    say(TupleControlId::kBind, deep);
    ASSERT_TRUE(hear(TupleControlId::kBound, bound));
    EXPECT_EQ(bound.sender, WireBound::kRefused);
}

// The number of unanswered requests is limited.
TEST_F(DirectRogue, AFloodOfRequestsEndsTheConnection) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint64_t tag = 1; tag <= 5000 && !rogue->over(); ++tag) {
        WireBind bind = good_bind;
        bind.tag = tag;
        say(TupleControlId::kBind, bind);
        if (tag % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    EXPECT_TRUE(dropped());
}

TEST_F(DirectRogue, GrantForAQueueThatIsNotThere) {
    ASSERT_NO_FATAL_FAILURE(meet());
    WireBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    Channel* channel = victim.engine->attach(rogue->address(), &victim, victim.reason);
    ASSERT_TRUE(turn([&] { return channel->up(); }));
    const uint64_t word = Grant(0, 1, 4096).raw();
    rogue->write_to(&word, sizeof(word), bound.address + uint64_t{bound.slot + 1} * 8, bound.rkey,
                    0);
    TupleQ::Tuple* tuple = victim.tupleq->sender().find(*channel, 1);
    ASSERT_NE(tuple, nullptr);
    ASSERT_TRUE(turn([&] { return victim.tupleq->sender().may_send(*tuple, 1, 5); }));
    ASSERT_EQ(victim.tupleq->sender().send(*channel, *tuple, "hello", 5), Status::kOk);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.tupleq->counters().links_lost, 1u);
    // The victim works as before.
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_NO_FATAL_FAILURE(bind(bound));
}

// A message in a queue must be the one that the receive is granted to, whichever peer sent it.
TEST_F(DirectRogue, MessageInAQueueThatIsNotForIt) {
    std::string why;
    const auto domain = verbs::XrcDomain::open(device(), why);
    ASSERT_TRUE(domain) << why;
    verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
    XrcWay way(*domain, cq.get());
    const std::vector<std::function<std::optional<uint32_t>(uint32_t)>> names{
        [](uint32_t) { return std::optional<uint32_t>(); },
        [](uint32_t nonce) { return to_immediate(nonce, 2); },
        [](uint32_t nonce) { return to_immediate(nonce, 0); },
        [](uint32_t nonce) { return to_immediate(nonce, 0x80000001); },
        [](uint32_t nonce) { return to_immediate(nonce + 1, 1); },
        [](uint32_t nonce) { return to_immediate(nonce, kDrainName); },
    };
    for (size_t i = 0; i < names.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(meet());
        auto& first = victim.post(1);
        auto& second = victim.post(1);
        WireBind bind;
        ASSERT_NO_FATAL_FAILURE(receive(bind));
        // Another connection of the victim does not suffer.
        DirectNode other;
        Channel* channel = victim.attach(other);
        ASSERT_TRUE(until([&] { victim.poll(), other.poll(); }, [&] { return channel->up(); }));
        victim.reason.clear();
        way.send(1, bind.queue, "wrong", names[i](bind.nonce));
        // The right message comes too late: the device would place it in the wrong receive.
        way.send(2, bind.queue, "right", to_immediate(bind.nonce, 1));
        ibv_wc completion{};
        for (int sent = 0; sent != 2; ++sent)
            ASSERT_TRUE(until([] {}, [&] { return ibv_poll_cq(cq.get(), 1, &completion) == 1; }));
        ASSERT_TRUE(turn([&] { return rogue->over() && victim.ends == 2 * i + 1; })) << i;
        EXPECT_FALSE(first.done || second.done) << i;
        EXPECT_TRUE(first.posted && second.posted) << i;
        EXPECT_NE(victim.reason, "") << i;
        EXPECT_EQ(victim.tupleq->queues_in_use(), 0u);
        EXPECT_TRUE(channel->up());
        victim.posted.remove(first);
        victim.posted.remove(second);
        victim.engine->leave(channel, &victim);
        ASSERT_TRUE(
            until([&] { victim.poll(), other.poll(); }, [&] { return victim.ends == 2 * i + 2; }));
    }
}

// A message of an earlier bind arrives in the queue of a later one, as after the device has given
// the number of a destroyed queue to the new one. Tuple and number of the message are the same.
TEST_F(DirectRogue, MessageOfAnEarlierBind) {
    std::string why;
    const auto domain = verbs::XrcDomain::open(device(), why);
    ASSERT_TRUE(domain) << why;
    verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
    XrcWay way(*domain, cq.get());
    ASSERT_NO_FATAL_FAILURE(meet());
    auto& receive = victim.post(1);
    WireBind earlier;
    ASSERT_NO_FATAL_FAILURE(this->receive(earlier));
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_TRUE(turn([this] { return victim.ends == 1; }));
    WireBind later;
    ASSERT_NO_FATAL_FAILURE(this->receive(later));
    ASSERT_EQ(later.tuple, earlier.tuple);
    way.send(1, later.queue, "late", to_immediate(earlier.nonce, 1));
    EXPECT_TRUE(turn([this] { return victim.ends == 2; })) << "the message was accepted";
    EXPECT_FALSE(receive.done) << receive.text;
    EXPECT_TRUE(turn([this] { return victim.tupleq->queues_in_use() == 0; }));
    victim.posted.remove(receive);
}

// The device reports for which queue a message was too long.
TEST_F(DirectRogue, MessageLongerThanItsReceive) {
    ASSERT_NO_FATAL_FAILURE(meet());
    std::string why;
    const auto domain = verbs::XrcDomain::open(device(), why);
    ASSERT_TRUE(domain) << why;
    verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
    XrcWay way(*domain, cq.get());
    auto& receive = victim.post(1, 8);
    WireBind bind;
    ASSERT_NO_FATAL_FAILURE(this->receive(bind));
    way.send(1, bind.queue, "longer than eight", to_immediate(bind.nonce, 1));
    EXPECT_TRUE(dropped());
    EXPECT_TRUE(turn([&] { return victim.tupleq->queues_in_use() == 0; }));
    EXPECT_FALSE(receive.done);
}

// Messages wait for one that another peer has announced. Their sender is asked to pause, and does
// not: what it can make the victim hold is limited.
TEST_F(DirectRogueWithFewHeld, SenderThatDoesNotPause) {
    ASSERT_NO_FATAL_FAILURE(meet());
    DirectNode other;
    Channel* const to_victim = other.attach(victim);
    Channel* const to_other = victim.attach(other);
    const auto both = [&] { victim.poll(), other.poll(); };
    ASSERT_TRUE(until(both, [&] { return to_victim->up() && to_other->up(); }));
    auto& receive = victim.post(1);
    ASSERT_TRUE(victim.tupleq->bind(*to_other, 1));
    TupleQ::Tuple* tuple = nullptr;
    ASSERT_TRUE(until(both, [&] {
        tuple = other.tupleq->sender().find(*to_victim, 1);
        return tuple != nullptr && other.tupleq->sender().may_send(*tuple, 1, 0);
    }));
    tuple->sender.announce();
    std::string frame(sizeof(DirectNode::Header) + 1000, 'x');
    const DirectNode::Header header{.tag = 1, .marked = 0, .mark = {}};
    memcpy(frame.data(), &header, sizeof(header));
    const auto asked_to_pause = [&] {
        return std::ranges::any_of(rogue->controls, [](const Rogue::Control& control) {
            return static_cast<uint32_t>(control.id) ==
                       static_cast<uint32_t>(TagControlId::kPause) &&
                   control.as<TagPause>().pause == 1;
        });
    };
    bool asked = false;
    unsigned sent = 0;
    for (; sent < 200 && !rogue->cut_off(); ++sent) {
        rogue->send_frame(FrameKind::kTag, 0, frame);
        for (int i = 0; i < 20; ++i) both(), rogue->poll();
        asked = asked || asked_to_pause();
    }
    EXPECT_TRUE(asked);
    EXPECT_TRUE(turn([&] { return rogue->over() && victim.ends == 1; }));
    EXPECT_LT(sent, 100u);
    EXPECT_TRUE(to_other->up()) << "the other peer has done nothing wrong";
    EXPECT_FALSE(receive.done);
    // The message comes after all, as an ordinary one.
    ASSERT_TRUE(until(both, [&] { return other.send(*to_victim, 1, "late"); }));
    ASSERT_TRUE(until(both, [&] { return receive.done; }));
    EXPECT_EQ(receive.text, "late");
}

// A device that cannot enlarge a completion queue.
struct FixedQueues {
    PoorDevice poor{UINT32_MAX, false};
};
class DirectFixedQueues : private FixedQueues, public DirectRogue {};

// The completion queue has room for links to many nodes from the start.
TEST_F(DirectFixedQueues, LinksToManyNodes) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint16_t i = 0; i < few_tuples().tuples; ++i) {
        WireBind bind = good_bind;
        bind.tag += i;
        bind.node += i;
        bind.tuple = i;
        WireBound bound;
        ASSERT_NO_FATAL_FAILURE(this->bind(bound, bind)) << i;
    }
}

}  // namespace
}  // namespace tern::test
