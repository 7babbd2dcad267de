// SPDX-License-Identifier: BSD-3-Clause
// Connections: made when they are needed, one for each pair of interfaces, closed with their last
// endpoint.
#include <memory>
#include <random>

#include "traffic.h"

namespace uct_test {
namespace {

class ConnectionTest : public TernTest {
  protected:
    // Sends one message and waits until it has come.
    static void touch(Entity& from, const Endpoint& ep, Entity& to) {
        std::size_t received = 0;
        to.handle(31, [&](Bytes) { ++received; });
        ASSERT_TRUE(accepted({&from, &to}, [&] { return am_short(ep, 31, pattern(0, 8)); }));
        ASSERT_TRUE(eventually({&from, &to}, [&] { return received == 1; }));
        to.forget(31);
    }
};

TEST_F(ConnectionTest, UnusedEndpointsOwnNothing) {
    Entity a, b;
    const uint64_t queue_pairs = objects("queue_pairs"), regions = objects("memory_regions");
    std::vector<Endpoint> eps;
    for (int i = 0; i < 50; ++i) {
        eps.push_back(a.connect(b));
        eps.push_back(b.connect(a));
    }
    linger({&a, &b});
    EXPECT_EQ(objects("queue_pairs"), queue_pairs);
    EXPECT_EQ(objects("memory_regions"), regions);
    EXPECT_STATUS(UCS_OK, uct_ep_flush(eps[0].get(), UCT_FLUSH_FLAG_LOCAL, nullptr));
    EXPECT_EQ(objects("queue_pairs"), queue_pairs);
}

TEST_F(ConnectionTest, AllEndpointsOfAPairShareOne) {
    Entity a, b;
    const uint64_t queue_pairs = objects("queue_pairs");
    std::vector<Endpoint> there, back;
    for (int i = 0; i < 5; ++i) {
        there.push_back(a.connect(b));
        back.push_back(b.connect(a));
    }
    for (int i = 0; i < 5; ++i) {
        touch(a, there[static_cast<std::size_t>(i)], b);
        touch(b, back[static_cast<std::size_t>(i)], a);
    }
    EXPECT_EQ(objects("queue_pairs"), queue_pairs + 2);
    there.clear();
    back.clear();
    EXPECT_EQ(a.close_and_count()["queue_pairs_most"], 1u);
    EXPECT_EQ(b.close_and_count()["queue_pairs_most"], 1u);
}

TEST_F(ConnectionTest, EndsWithItsLastEndpoint) {
    Entity a, b;
    const uint64_t queue_pairs = objects("queue_pairs");
    Endpoint there = a.connect(b), back = b.connect(a);
    touch(a, there, b);
    touch(b, back, a);
    there.reset();
    linger({&a, &b});
    touch(b, back, a);
    back.reset();
    ASSERT_TRUE(eventually({&a, &b}, [&] { return objects("queue_pairs") == queue_pairs; }));
    there = a.connect(b);
    touch(a, there, b);
    EXPECT_TRUE(a.failures().empty());
    EXPECT_TRUE(b.failures().empty());
}

TEST_F(ConnectionTest, BothSidesAtOnce) {
    for (int round = 0; round < 60; ++round) {
        Entity a, b;
        const uint64_t queue_pairs = round == 0 ? objects("queue_pairs") : 0;
        Stream stream;
        stream.seed = static_cast<uint64_t>(round);
        stream.count = 50;
        Stream other = stream;
        other.id = 2;
        Flow there(a, b, stream), back(b, a, other);
        // The first messages are sent before either side has progressed, or after one or both sides
        // have progressed a little.
        there.sender.step();
        for (int i = 0; i < round % 4; ++i) a.progress();
        back.sender.step();
        for (int i = 0; i < round / 4 % 4; ++i) b.progress();
        ASSERT_TRUE(run({&there, &back})) << round;
        if (round == 0) {
            EXPECT_EQ(objects("queue_pairs"), queue_pairs + 2);
        }
    }
}

TEST_F(ConnectionTest, ToOneselfWithSeveralEndpoints) {
    Entity self;
    Endpoint one = self.connect(self), other = self.connect(self);
    touch(self, one, self);
    one.reset();
    touch(self, other, self);
    other.reset();
    one = self.connect(self);
    touch(self, one, self);
}

TEST_F(ConnectionTest, ManyPeers) {
    constexpr std::size_t kPeers = 20;
    auto host = std::make_shared<Host>();
    Entity center;
    std::vector<std::unique_ptr<Entity>> peers;
    Settings small{{"RX_QUEUE_LEN", "64"}};
    for (std::size_t i = 0; i < kPeers; ++i) peers.push_back(std::make_unique<Entity>(small, host));
    std::vector<Endpoint> out, in;
    std::size_t at_center = 0, at_peers = 0;
    center.handle(0, [&](Bytes) { ++at_center; });
    for (auto& peer : peers) {
        peer->handle(0, [&](Bytes) { ++at_peers; });
        out.push_back(center.connect(*peer));
        in.push_back(peer->connect(center));
    }
    const Group all{&center, peers[0].get()};  // its progress includes all interfaces of the host
    for (int round = 0; round < 50; ++round) {
        for (std::size_t i = 0; i < kPeers; ++i) {
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(out[i], 0, pattern(i, 100)); }));
            ASSERT_TRUE(accepted(all, [&] { return am_bcopy(in[i], 0, pattern(i, 100)); }));
        }
    }
    EXPECT_TRUE(
        eventually(all, [&] { return at_center == 50 * kPeers && at_peers == 50 * kPeers; }))
        << at_center << ", " << at_peers;
}

// Both sides create and destroy endpoints with messages under way; flushed messages must arrive.
TEST_F(ConnectionTest, EndpointsComeAndGo) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    const auto pick = [&](std::size_t below) { return random() % below; };
    Entity a, b;
    Entity* const sides[] = {&a, &b};
    const Group all{&a, &b};
    std::size_t received[2]{}, sent[2]{}, uncertain[2]{};
    struct Open {
        Endpoint ep;
        std::size_t unflushed = 0;
    };
    std::vector<Open> open[2];
    for (std::size_t side : {0, 1})
        sides[side]->handle(0, [&received, side](Bytes) { ++received[side]; });
    for (int step = 0; step < 4000; ++step) {
        const std::size_t side = pick(2);
        std::vector<Open>& eps = open[side];
        switch (pick(8)) {
            case 0:
                if (eps.size() < 3) eps.push_back({sides[side]->connect(*sides[1 - side])});
                break;
            case 1: {
                if (eps.empty()) break;
                Open& victim = eps[pick(eps.size())];
                if (pick(4)) {
                    ASSERT_TRUE(eventually(all,
                                           [&] {
                                               return uct_ep_flush(victim.ep.get(),
                                                                   UCT_FLUSH_FLAG_LOCAL,
                                                                   nullptr) == UCS_OK;
                                           }))
                        << "flush, seed " << seed << ", step " << step;
                    sent[side] += victim.unflushed;
                } else {
                    uncertain[side] += victim.unflushed;
                }
                std::swap(victim, eps.back());
                eps.pop_back();
                break;
            }
            case 2:
            case 3:
                for (std::size_t i = pick(20); i > 0; --i) sides[pick(2)]->progress();
                break;
            default:
                if (eps.empty()) break;
                Open& it = eps[pick(eps.size())];
                for (std::size_t i = pick(40); i > 0; --i) {
                    const ucs_status_t status = am_bcopy(it.ep, 0, pattern(i, pick(1000)));
                    if (status == UCS_OK) ++it.unflushed;
                    if (status == UCS_ERR_NO_RESOURCE) break;
                    ASSERT_STATUS(UCS_OK, status) << "seed " << seed << ", step " << step;
                }
        }
    }
    for (std::size_t side : {0, 1}) {
        for (Open& it : open[side]) {
            ASSERT_TRUE(eventually(all, [&] {
                return uct_ep_flush(it.ep.get(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
            }));
            sent[side] += it.unflushed;
        }
    }
    for (std::size_t side : {0, 1}) {
        EXPECT_TRUE(eventually(all, [&] { return received[1 - side] >= sent[side]; }))
            << "side " << side << ": " << received[1 - side] << " of " << sent[side];
        EXPECT_LE(received[1 - side], sent[side] + uncertain[side]);
        EXPECT_TRUE(sides[side]->failures().empty()) << Status{sides[side]->failures()[0].status};
    }
}

// A peer that is not connected yet must not hold up messages to others.
TEST_F(ConnectionTest, SleepingPeerDoesNotStopOthers) {
    Entity a, awake, asleep;
    const Endpoint to_asleep = a.connect(asleep), to_awake = a.connect(awake);
    const ucs_status_t status = am_bcopy(to_asleep, 0, pattern(0, 8));
    EXPECT_TRUE(status == UCS_OK || status == UCS_ERR_NO_RESOURCE);
    for (int i = 0; i < 100; ++i) touch(a, to_awake, awake);
    touch(a, to_asleep, asleep);
}

}  // namespace
}  // namespace uct_test
