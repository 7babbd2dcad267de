// SPDX-License-Identifier: BSD-3-Clause
// Long random traffic: every message arrives once, in order, and unchanged.
#include "traffic.h"

namespace uct_test {
namespace {

class OrderTest : public testing::Test {
  protected:
    Stream stream(uint64_t count, uint8_t id = 0) {
        Stream it;
        it.seed = seed_ + id;
        it.count = count;
        it.id = id;
        return it;
    }

    uint64_t seed_ = any_seed();
};

TEST_F(OrderTest, BothDirectionsAtOnce) {
    Entity a, b;
    Flow there(a, b, stream(100000, 0)), back(b, a, stream(100000, 2));
    EXPECT_TRUE(run({&there, &back}));
}

TEST_F(OrderTest, SmallMessagesOnly) {
    Entity a, b;
    Stream small = stream(200000);
    small.zcopies = false;
    small.most = 32;
    Flow flow(a, b, small);
    EXPECT_TRUE(run({&flow}));
}

TEST_F(OrderTest, LongMessagesOnly) {
    Entity a, b;
    Stream there = stream(5000), back = stream(5000, 2);
    there.shorts = back.shorts = false;
    there.typical = back.typical = UINT32_MAX;
    Flow one(a, b, there), other(b, a, back);
    EXPECT_TRUE(run({&one, &other}));
}

TEST_F(OrderTest, KindByKind) {
    for (const Kind kind : kKinds) {
        Entity a, b;
        Stream it = stream(20000, 3);
        it.shorts = kind == Kind::kShort;
        it.bcopies = kind == Kind::kBcopy;
        it.zcopies = kind == Kind::kZcopy;
        Flow flow(a, b, it);
        EXPECT_TRUE(run({&flow})) << name(kind);
    }
}

TEST_F(OrderTest, ToOneself) {
    Entity self;
    Flow flow(self, self, stream(20000));
    EXPECT_TRUE(run({&flow}));
}

// The messages of each endpoint are in order; there is no order between endpoints.
TEST_F(OrderTest, SeveralEndpointsToOneInterface) {
    Entity a, b;
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<Flow*> all;
    for (uint8_t i = 0; i < 4; ++i) {
        flows.push_back(std::make_unique<Flow>(a, b, stream(5000, static_cast<uint8_t>(2 * i))));
        all.push_back(flows.back().get());
    }
    EXPECT_TRUE(run(all));
}

TEST_F(OrderTest, EveryoneToEveryone) {
    constexpr std::size_t kEntities = 4;
    std::vector<std::unique_ptr<Entity>> entities;
    for (std::size_t i = 0; i < kEntities; ++i) entities.push_back(std::make_unique<Entity>());
    std::vector<std::unique_ptr<Flow>> flows;
    std::vector<Flow*> all;
    for (std::size_t from = 0; from < kEntities; ++from) {
        for (std::size_t to = 0; to < kEntities; ++to) {
            flows.push_back(std::make_unique<Flow>(*entities[from], *entities[to],
                                                   stream(3000, static_cast<uint8_t>(2 * from))));
            all.push_back(flows.back().get());
        }
    }
    EXPECT_TRUE(run(all));
}

// The receiver progresses seldom: the sender reaches every limit.
TEST_F(OrderTest, SlowReceiver) {
    Entity a, b;
    const Stream it = stream(3000);
    Flow flow(a, b, it);
    const auto end = Clock::now() + deadline();
    for (int round = 0; !flow.done() && Clock::now() < end; ++round) {
        while (flow.sender.step()) {
        }
        for (int i = 0; i < 20; ++i) a.progress();
        if (round % 5 == 0) b.progress();
    }
    EXPECT_TRUE(flow.done()) << flow.receiver.received();
    EXPECT_EQ(flow.receiver.wrong(), "");
}

TEST_F(OrderTest, TwoProcesses) {
    Team team;
    // Without blocks, a sender waits for the other process after at most 16 messages, which takes
    // seconds if others want the processors.
    const uint32_t count = writes_in_order() ? 50000 : 10000;
    const Stream there = stream(count, 0), back = stream(count, 2);
    for (int i = 0; i < 2; ++i) {
        team.spawn([](Link& link) {
            Entity self;
            link.send(self.address());
            const Endpoint ep = self.connect(link.receive<Address>());
            const auto out = link.receive<Stream>(), in = link.receive<Stream>();
            Receiver receiver(self, in, self.attr());
            link.send();
            link.receive();
            Sender sender(self, ep, out);
            EXPECT_TRUE(run({&self}, {&sender}, {&receiver}));
            // The peer may still need this side's progress.
            link.send();
            linger({&self}, milliseconds(200));
            link.receive();
        });
    }
    conformance::exchange<Address>(team[0], team[1]);
    team[0].send(there);
    team[0].send(back);
    team[1].send(back);
    team[1].send(there);
    conformance::exchange<char>(team[0], team[1]);
    conformance::exchange<char>(team[0], team[1]);
    team.finish();
}

}  // namespace
}  // namespace uct_test
