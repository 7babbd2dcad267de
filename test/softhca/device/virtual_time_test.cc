// SPDX-License-Identifier: BSD-3-Clause
// Virtual time: the clock, the order of events, and the ports of members.
#include <chrono>
#include <thread>
#include <vector>

#include "virtual_fabric.h"

namespace conformance::softhca {
namespace virtual_time_test {

TEST_F(VirtualTimeTest, AWriteIsThereAtTheTimeOfTheModel) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        clock().post = 30;
        clock().request = 20;
        const uint64_t start = clock().now;
        way.write(1, 8);
        EXPECT_EQ(clock().now, start + 50) << "the post takes the processor's time";
        const uint64_t arrival = start + 50 + kLatency + 8;
        run(clock().now);
        EXPECT_EQ(next(), arrival);
        run(arrival - 1);
        EXPECT_EQ(look(b.memory.word(0)), 0U);
        run(arrival);
        EXPECT_EQ(look(b.memory.word(0)), 1U);
        EXPECT_EQ(next(), arrival + kLatency + kCompletion) << "the completion can be seen";
        clock().now = arrival + kLatency + kCompletion - 1;
        EXPECT_EQ(polled(way.one.send_cq), 0) << "the acknowledgement must come back";
        clock().now = arrival + kLatency + kCompletion;
        EXPECT_EQ(polled(way.one.send_cq), 1);
        run(clock().now);
        EXPECT_EQ(next(), kNoEvent);
    });
}

TEST_F(VirtualTimeTest, TheMachinesTimeDoesNothing) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        way.write(1, 8, 8192);
        way.send(2, 8);
        std::this_thread::sleep_for(kQuiet);
        EXPECT_EQ(polled(way.one.send_cq), 0);
        EXPECT_EQ(polled(way.other.recv_cq), 0);
        EXPECT_EQ(look(b.memory.word(1024)), 0U);
    });
}

TEST_F(VirtualTimeTest, AMessageIsCompleteAtTheTimeOfTheModel) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        const uint64_t start = clock().now;
        way.send(1, 64);
        const uint64_t end = start + kLatency + 64 + kCompletion;
        run(end);
        clock().poll = 10;
        clock().completion = 5;
        clock().now = end - 11;
        EXPECT_EQ(polled(way.other.recv_cq), 0);
        EXPECT_EQ(clock().now, end - 1) << "a poll takes the processor's time";
        EXPECT_EQ(polled(way.other.recv_cq), 1);
        EXPECT_EQ(clock().now, end + 14);
        EXPECT_EQ(clock().polls, 2U);
    });
}

// The device does not wait for the processor, which posts, works for long, and posts again.
TEST_F(VirtualTimeTest, AMessageArrivesWhileItsSenderWorks) {
    alone([] {
        Member a(0), b(1);
        const Way way(a, b);
        a.memory.word(0) = 1;
        const uint64_t start = clock().now;
        way.send(1, 64);
        way.write(2, 8, 512);
        clock().now = start + 100 * kLatency;
        way.send(3, 64);
        const uint64_t end = start + kLatency + 64 + kCompletion;
        clock().now = end;
        EXPECT_EQ(look(b.memory.word(64)), 0U) << "nothing is there before it has arrived";
        run(end);
        EXPECT_EQ(polled(way.other.recv_cq), 1);
    });
}

TEST_F(VirtualTimeTest, EachMemberHasAPortOfItsOwn) {
    alone([] {
        Member a(0), b(1), c(2), d(3);
        const Way one(a, b), other(c, d);
        for (Member* sender : {&a, &c}) sender->memory.word(0) = 1;
        const uint64_t arrival = clock().now + kLatency + 4096;
        one.write(1, 4096);
        other.write(2, 4096);
        run(arrival - 1);
        EXPECT_EQ(look(b.memory.word(0)) + look(d.memory.word(0)), 0U);
        run(arrival);
        EXPECT_EQ(look(b.memory.word(0)) + look(d.memory.word(0)), 2U)
            << "neither waits for the other";
    });
}

TEST_F(VirtualTimeTest, WhatOneMemberSendsSharesItsPort) {
    alone([] {
        Member a(0), b(1), c(2);
        const Way one(a, b), other(a, c);
        a.memory.word(0) = 1;
        const uint64_t start = clock().now;
        one.write(1, 4096);
        other.write(2, 4096);
        run(start + 4096 + kGap + kLatency + 4096 - 1);
        EXPECT_EQ(look(b.memory.word(0)), 1U);
        EXPECT_EQ(look(c.memory.word(0)), 0U);
        run(start + 4096 + kGap + kLatency + 4096);
        EXPECT_EQ(look(c.memory.word(0)), 1U);
    });
}

// Two members send at a time, or receive, on one node or on two.
void expect_shared_ports(const char* of_first, const char* of_second, bool sending) {
    set("NODE", of_first);
    Member a(0);
    set("NODE", of_second);
    Member b(1);
    set("NODE", "");
    Member c(2), d(3);
    const Way one(sending ? a : c, sending ? c : a);
    const Way other(sending ? b : d, sending ? d : b);
    one.from.memory.word(0) = other.from.memory.word(0) = 1;
    const uint64_t first = clock().now + kLatency + 4096;
    const uint64_t second = first + (std::string(of_first) == of_second ? kGap + 4096 : 0);
    one.write(1, 4096);
    other.write(2, 4096);
    run(first - 1);
    EXPECT_EQ(look(one.to.memory.word(0)), 0U);
    run(first);
    EXPECT_EQ(look(one.to.memory.word(0)), 1U);
    run(second - 1);
    EXPECT_EQ(look(other.to.memory.word(0)), second == first ? 1U : 0U);
    run(second);
    EXPECT_EQ(look(other.to.memory.word(0)), 1U);
}

TEST_F(VirtualTimeTest, ProcessesOfANodeShareItsPort) {
    for (const bool sending : {true, false})
        alone([=] { expect_shared_ports("left", "left", sending); });
}

TEST_F(VirtualTimeTest, ProcessesOfSeveralNodesDoNot) {
    for (const bool sending : {true, false})
        alone([=] { expect_shared_ports("left", "right", sending); });
}

TEST_F(VirtualTimeTest, ARegistrationTakesTheTimeOfTheModelAndNoneOfTheMachine) {
    set("MODEL", "reg-latency=1000s");
    alone([] {
        Member a(0);
        const uint64_t start = clock().now;
        const Region more(a.pd.get(), 4096);
        EXPECT_EQ(clock().now - start, uint64_t{1000} * 1'000'000'000);
    });
}

TEST_F(VirtualTimeTest, RunsAreTheSame) {
    alone([] {
        // Numbers of objects would differ if they depended on the process's.
        Member a(0), b(1);
        const Way way(a, b);
        EXPECT_EQ(way.one.qp->qp_num >> 24, 0U);
        EXPECT_LT(way.one.qp->qp_num, way.other.qp->qp_num);
    });
}

TEST_F(VirtualTimeTest, AFabricWithVirtualTimeHasOneProcess) {
    Team team;
    const int first = team.spawn([](Link& link) {
        const Member a(0);
        link.send();
        link.receive();
    });
    std::vector<int> others;
    for (const char* kind : {"virtual", "real"}) {
        others.push_back(team.spawn([kind](Link& link) {
            link.receive();
            set("CLOCK", kind);
            int devices = 1;
            ibv_device** list = ibv_get_device_list(&devices);
            if (list != nullptr) ibv_free_device_list(list);
            link.send(devices);
        }));
    }
    team[first].receive();
    for (const int other : others) {
        team[other].send();
        EXPECT_EQ(team[other].receive<int>(), 0);
    }
    team[first].send();
    team.finish();
}

TEST_F(VirtualTimeTest, WithoutItTheClockIsTheMachines) {
    set("CLOCK", "real");
    alone([] {
        const Hca hca;
        EXPECT_EQ(function<softhca_virtual_clock_function>("softhca_virtual_clock")(), nullptr);
        EXPECT_NE(function<softhca_virtual_member_function>("softhca_virtual_member")(1), 0);
    });
}

}  // namespace virtual_time_test
}  // namespace conformance::softhca
