// SPDX-License-Identifier: BSD-3-Clause
// Virtual time: all members of a fabric in one process, and nothing happens before the process says
// that it is time.
#include <dlfcn.h>

#include <chrono>
#include <thread>
#include <vector>

#include "../../src/softhca/core/virtual_time.h"
#include "fabric.h"

namespace conformance::softhca {
namespace virtual_time_test {

// 1 us, 1 byte a ns, 7 ns between messages; a completion 100 ns after its data.
constexpr char kModel[] =
    "latency=1us,bandwidth=1,gap=7ns,completion=100ns,reg-latency=5us,reg-bandwidth=2";
constexpr uint64_t kLatency = 1000;
constexpr uint64_t kCompletion = 100;
constexpr uint64_t kGap = 7;

template <typename Function>
Function* function(const char* name) {
    void* found = dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) fail(std::string("the device has no ") + name);
    return reinterpret_cast<Function*>(found);
}

softhca_virtual_time& clock() {
    auto* now = function<softhca_virtual_clock_function>("softhca_virtual_clock")();
    if (now == nullptr) fail("the device's time is real");
    return *now;
}
uint64_t next() {
    return function<softhca_virtual_next_function>("softhca_virtual_next")();
}
void run(uint64_t time) {
    function<softhca_virtual_run_function>("softhca_virtual_run")(time);
}

// A member of the fabric.
struct Member {
    explicit Member(uint32_t number)
        : hca(open(number)), pd(hca.make_pd()), memory(pd.get(), 1 << 16) {}
    static Hca open(uint32_t number) {
        if (function<softhca_virtual_member_function>("softhca_virtual_member")(number) != 0)
            fail("no such member");
        return {};
    }
    Hca hca;
    Pd pd;
    Region memory;
};

// A connection from one member to another.
struct Way {
    Way(Member& sender, Member& receiver)
        : from(sender), to(receiver), one(from.hca, from.pd.get()), other(to.hca, to.pd.get()) {
        bring_up(from.hca, one.qp.get(), {}, as_peer(to.hca, other.qp.get(), {}));
        bring_up(to.hca, other.qp.get(), {}, as_peer(from.hca, one.qp.get(), {}));
    }
    void write(uint64_t id, std::size_t length, std::size_t offset = 0) const {
        SendWr wr(IBV_WR_RDMA_WRITE, id);
        wr.sge(from.memory.sge(0, length)).remote(to.memory.addr(offset), to.memory.rkey());
        if (wr.post(one.qp) != 0) fail("the post is refused");
    }
    void send(uint64_t id, std::size_t length) const {
        if (RecvWr(id).sge(to.memory.sge()).post(other.qp) != 0) fail("the receive is refused");
        SendWr wr(IBV_WR_SEND, id);
        if (wr.sge(from.memory.sge(0, length)).post(one.qp) != 0) fail("the post is refused");
    }
    Member& from;
    Member& to;
    Endpoint one;
    Endpoint other;
};

int polled(const Cq& cq) {
    ibv_wc completion{};
    return ibv_poll_cq(cq.get(), 1, &completion);
}

class VirtualTimeTest : public FabricTest {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("CLOCK", "virtual");
        set("MODEL", kModel);
    }
};

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
        EXPECT_EQ(next(), SOFTHCA_NO_EVENT);
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
