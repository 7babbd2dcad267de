// SPDX-License-Identifier: BSD-3-Clause
// What a peer may say of direct messages, and does not get away with.
#include <gtest/gtest.h>

#include <functional>

#include "direct_node.h"
#include "rogue_world.h"
#include "xrc_way.h"

namespace tern::test {
namespace {

class DirectRogue : public testing::Test, protected RogueWorld<DirectNode> {
  protected:
    void SetUp() override {
        if ((device().attributes.device_cap_flags & IBV_DEVICE_XRC) == 0) GTEST_SKIP() << "no XRC";
    }
    template <class Frame>
    void say(DirectId id, const Frame& frame) {
        rogue->send_control(static_cast<TransferId>(id), frame);
    }
    // The next control frame of the victim's with this id.
    template <class Frame>
    bool hear(DirectId id, Frame& frame) {
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
    // A victim that sends tag 1 to the rogue, to a queue that is not there.
    void bind(DirectBound& bound) {
        say(DirectId::kBind, good_bind);
        DirectConnect wanted;
        ASSERT_TRUE(hear(DirectId::kConnect, wanted));
        say(DirectId::kConnected,
            DirectConnected{.number = wanted.number, .qp_num = 0xfffffe, .mtu = IBV_MTU_1024});
        ASSERT_TRUE(hear(DirectId::kBound, bound));
        ASSERT_NE(bound.sender, DirectBound::kRefused);
    }

    // The victim would have tag 1 from the rogue.
    void ask(DirectBind& bind) {
        in = victim.engine->attach(rogue->address(), &victim, victim.reason);
        ASSERT_NE(in, nullptr);
        ASSERT_TRUE(turn([&] { return in->up(); }));
        ASSERT_TRUE(victim.direct->bind(*in, 1));
        ASSERT_TRUE(hear(DirectId::kBind, bind));
    }

    // It has; in good order, the rogue has the first grants.
    void receive(DirectBind& bind) {
        ASSERT_NO_FATAL_FAILURE(ask(bind));
        say(DirectId::kBound, DirectBound{.tuple = bind.tuple,
                                          .sender = 0,
                                          .address = address_of(rogue->window().data()),
                                          .rkey = rogue->window().rkey()});
        const auto* words = reinterpret_cast<const uint64_t*>(rogue->window().data());
        ASSERT_TRUE(turn([&] { return Grant::read(words + 1).permits(0, 1, 5); }));
    }

    Channel* in = nullptr;
    static constexpr DirectBind good_bind{
        .tag = 1, .mask = KeyMask::kFull, .node = 99, .queue = 12345, .tuple = 3, .depth = 2};
};

TEST_F(DirectRogue, WhatMakesNoSenseEndsTheConnection) {
    const DirectConnect good_connect{.number = 1, .qp_num = 77, .psn = 5, .mtu = IBV_MTU_1024};
    const auto bind_with = [&](auto field, auto value) {
        return [=, this] {
            DirectBind bind = good_bind;
            bind.*field = value;
            say(DirectId::kBind, bind);
        };
    };
    const auto connect_with = [&](auto field, auto value) {
        return [=, this] {
            DirectConnect connect = good_connect;
            connect.*field = value;
            say(DirectId::kConnect, connect);
        };
    };
    const std::vector<std::function<void()>> lies{
        [&] { say(DirectId::kBind, uint64_t{5}); },
        [&] { say(DirectId::kBound, uint64_t{5}); },
        [&] { say(DirectId::kClose, uint32_t{5}); },
        [&] { say(DirectId::kClosed, uint32_t{5}); },
        [&] { say(DirectId::kConnect, uint32_t{5}); },
        [&] { say(DirectId::kConnected, uint32_t{5}); },
        [&] { say(static_cast<DirectId>(30), uint32_t{5}); },
        bind_with(&DirectBind::mask, 0),
        bind_with(&DirectBind::mask, ~uint64_t{0x1f}),
        bind_with(&DirectBind::node, 0),
        bind_with(&DirectBind::queue, 0),
        [&] { say(DirectId::kClose, DirectClose{.sender = 0}); },
        [&] { say(DirectId::kClose, DirectClose{.sender = 60000}); },
        [&] { say(DirectId::kClose, DirectClose{.sender = 0, .flags = 2}); },
        [&] { say(DirectId::kBound, DirectBound{.tuple = 0}); },
        [&] { say(DirectId::kBound, DirectBound{.tuple = 0, .sender = 0, .address = 4096}); },
        [&] { say(DirectId::kBound, DirectBound{.tuple = 60000, .sender = 0, .address = 4096}); },
        [&] { say(DirectId::kBound, DirectBound{.tuple = 0, .sender = 0, .address = 4097}); },
        [&] { say(DirectId::kClosed, DirectClosed{.tuple = 0}); },
        [&] { say(DirectId::kClosed, DirectClosed{.tuple = 60000}); },
        [&] { say(DirectId::kClosed, DirectClosed{.tuple = 0, .flags = 4}); },
        connect_with(&DirectConnect::qp_num, 0),
        connect_with(&DirectConnect::qp_num, 0x1000000),
        connect_with(&DirectConnect::psn, 0x1000000),
        connect_with(&DirectConnect::mtu, 6),
        [&] { say(DirectId::kConnected, DirectConnected{.number = 1, .qp_num = 9, .mtu = 3}); },
    };
    for (size_t i = 0; i < lies.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(meet());
        lies[i]();
        EXPECT_TRUE(dropped()) << i;
    }
    EXPECT_EQ(victim.direct->queues_in_use(), 0u);
}

// In frames that are good otherwise.
TEST_F(DirectRogue, ReservedFieldsAreZero) {
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    say(DirectId::kClose, DirectClose{.sender = bound.sender, .reserved = 1});
    EXPECT_TRUE(dropped());

    ASSERT_NO_FATAL_FAILURE(meet());
    say(DirectId::kConnected, DirectConnected{.number = 1, .reserved = 1});
    EXPECT_TRUE(dropped());

    ASSERT_NO_FATAL_FAILURE(meet());
    DirectBind bind;
    ASSERT_NO_FATAL_FAILURE(ask(bind));
    say(DirectId::kBound, DirectBound{.tuple = bind.tuple, .reserved = 1});
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.direct->queues_in_use(), 0u);
}

TEST_F(DirectRogue, ConnectingAgainTakesTheOldOnesPlace) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint32_t i = 1; i <= 100; ++i) {
        say(DirectId::kConnect,
            DirectConnect{.number = i, .qp_num = 77, .psn = 5, .mtu = IBV_MTU_1024});
        DirectConnected answer;
        ASSERT_TRUE(hear(DirectId::kConnected, answer));
        EXPECT_EQ(answer.number, i);
        EXPECT_NE(answer.qp_num, 0u);
    }
}

// Each Bind has its answer; the next one may have better luck.
TEST_F(DirectRogue, LinkThatIsRefused) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint64_t tag = 1; tag <= 3; ++tag) {
        DirectBind bind = good_bind;
        bind.tag = tag;
        say(DirectId::kBind, bind);
        bind.tag += 10;
        say(DirectId::kBind, bind);
        for (int i = 0; i < 2; ++i) {
            DirectConnect wanted;
            ASSERT_TRUE(hear(DirectId::kConnect, wanted));
            EXPECT_EQ(wanted.number, 2 * tag - 1 + i) << "asked once for each";
            say(DirectId::kConnected,
                DirectConnected{.number = wanted.number, .qp_num = 0, .mtu = IBV_MTU_1024});
            DirectBound bound;
            ASSERT_TRUE(hear(DirectId::kBound, bound));
            EXPECT_EQ(bound.sender, DirectBound::kRefused);
        }
        EXPECT_TRUE(turn([this] { return victim.direct->arm() == Status::kOk; }));
    }
    EXPECT_EQ(victim.direct->counters().links, 0u);
    EXPECT_EQ(victim.direct->tuples_sent(), 0u);
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    EXPECT_EQ(victim.direct->tuples_sent(), 1u);
}

TEST_F(DirectRogue, TheSameTupleTwice) {
    ASSERT_NO_FATAL_FAILURE(meet());
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    say(DirectId::kBind, good_bind);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.direct->tuples_sent(), 0u);
}

TEST_F(DirectRogue, TuplesOfDifferentMasks) {
    ASSERT_NO_FATAL_FAILURE(meet());
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    DirectBind other = good_bind;
    other.tag = 1 << 4;
    other.mask = ~uint64_t{3};
    say(DirectId::kBind, other);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.direct->tuples_sent(), 0u);
}

TEST_F(DirectRogue, MoreTuplesThanThereIsRoomForAreRefused) {
    ASSERT_NO_FATAL_FAILURE(meet());
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    for (uint64_t tag = 2; tag <= 6; ++tag) {
        DirectBind more = good_bind;
        more.tag = tag;
        say(DirectId::kBind, more);
        ASSERT_TRUE(hear(DirectId::kBound, bound));
        EXPECT_EQ(bound.sender == DirectBound::kRefused, tag > 4);
    }
    DirectBind deep = good_bind;
    deep.tag = 7;
    deep.depth = 1024;
    say(DirectId::kBind, deep);
    ASSERT_TRUE(hear(DirectId::kBound, bound));
    EXPECT_EQ(bound.sender, DirectBound::kRefused);
}

// What is not answered yet is bounded.
TEST_F(DirectRogue, AFloodOfRequestsEndsTheConnection) {
    ASSERT_NO_FATAL_FAILURE(meet());
    for (uint64_t tag = 1; tag <= 5000 && !rogue->over(); ++tag) {
        DirectBind bind = good_bind;
        bind.tag = tag;
        say(DirectId::kBind, bind);
        if (tag % 8 != 0) continue;
        victim.poll();
        rogue->poll();
    }
    EXPECT_TRUE(dropped());
}

TEST_F(DirectRogue, GrantForAQueueThatIsNotThere) {
    ASSERT_NO_FATAL_FAILURE(meet());
    DirectBound bound;
    ASSERT_NO_FATAL_FAILURE(bind(bound));
    Channel* channel = victim.engine->attach(rogue->address(), &victim, victim.reason);
    ASSERT_TRUE(turn([&] { return channel->up(); }));
    const uint64_t word = Grant(0, 1, 4096).raw();
    rogue->write_to(&word, sizeof(word), bound.address + uint64_t{bound.slot + 1} * 8, bound.rkey,
                    0);
    Direct::Tuple* tuple = victim.direct->find(*channel, 1);
    ASSERT_NE(tuple, nullptr);
    ASSERT_TRUE(turn([&] { return victim.direct->may_send(*tuple, 1, 5); }));
    ASSERT_EQ(victim.direct->send(*channel, *tuple, "hello", 5), Status::kOk);
    EXPECT_TRUE(dropped());
    EXPECT_EQ(victim.direct->counters().links_lost, 1u);
    // The victim is as good as before.
    ASSERT_NO_FATAL_FAILURE(meet());
    ASSERT_NO_FATAL_FAILURE(bind(bound));
}

// What comes into a queue must be the message that the receive is granted to, whoever sends it.
TEST_F(DirectRogue, MessageInAQueueThatIsNotForIt) {
    std::string why;
    const auto domain = verbs::XrcDomain::open(device(), why);
    ASSERT_TRUE(domain) << why;
    verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
    XrcWay way(*domain, cq.get());
    const std::vector<std::function<std::optional<uint32_t>(uint32_t)>> names{
        [](uint32_t) { return std::optional<uint32_t>(); },
        [](uint32_t tuple) { return tuple << 16 | 2; },
        [](uint32_t tuple) { return tuple << 16; },
        [](uint32_t tuple) { return (tuple + 1) << 16 | 1; },
        [](uint32_t) { return 0xffffffff; },
    };
    for (size_t i = 0; i < names.size(); ++i) {
        ASSERT_NO_FATAL_FAILURE(meet());
        auto& first = victim.post(1);
        auto& second = victim.post(1);
        DirectBind bind;
        ASSERT_NO_FATAL_FAILURE(receive(bind));
        // Another connection of the victim's is none the worse.
        DirectNode other;
        Channel* channel = victim.attach(other);
        ASSERT_TRUE(until([&] { victim.poll(), other.poll(); }, [&] { return channel->up(); }));
        victim.reason.clear();
        way.send(1, bind.queue, "wrong", names[i](bind.tuple));
        // What is right comes too late: it would be in the wrong receive.
        way.send(2, bind.queue, "right", uint32_t{bind.tuple} << 16 | 1);
        ibv_wc completion{};
        for (int sent = 0; sent != 2; ++sent)
            ASSERT_TRUE(until([] {}, [&] { return ibv_poll_cq(cq.get(), 1, &completion) == 1; }));
        ASSERT_TRUE(turn([&] { return rogue->over() && victim.ends == 2 * i + 1; })) << i;
        EXPECT_FALSE(first.done || second.done) << i;
        EXPECT_TRUE(first.posted && second.posted) << i;
        EXPECT_NE(victim.reason, "") << i;
        EXPECT_EQ(victim.direct->queues_in_use(), 0u);
        EXPECT_TRUE(channel->up());
        victim.posted.remove(first);
        victim.posted.remove(second);
        victim.engine->leave(channel, &victim);
        ASSERT_TRUE(
            until([&] { victim.poll(), other.poll(); }, [&] { return victim.ends == 2 * i + 2; }));
    }
}

// The device says of a message that is too long which queue it was for.
TEST_F(DirectRogue, MessageLongerThanItsReceive) {
    ASSERT_NO_FATAL_FAILURE(meet());
    std::string why;
    const auto domain = verbs::XrcDomain::open(device(), why);
    ASSERT_TRUE(domain) << why;
    verbs::CompletionQueue cq(ibv_create_cq(port().context, 16, nullptr, nullptr, 0));
    XrcWay way(*domain, cq.get());
    auto& receive = victim.post(1, 8);
    DirectBind bind;
    ASSERT_NO_FATAL_FAILURE(this->receive(bind));
    way.send(1, bind.queue, "longer than eight", uint32_t{bind.tuple} << 16 | 1);
    EXPECT_TRUE(dropped());
    EXPECT_TRUE(turn([&] { return victim.direct->queues_in_use() == 0; }));
    EXPECT_FALSE(receive.done);
}

}  // namespace
}  // namespace tern::test
