// SPDX-License-Identifier: BSD-3-Clause
// Many peers, few queue pairs, and short send queues: connections end, come back and grow under
// traffic of all kinds.
#include <random>

#include "traffic.h"

namespace uct_test {
namespace few_connections_test {

class FewConnectionsTest : public TernTest {
  protected:
    static constexpr std::size_t kEntities = 16;
    static constexpr std::size_t kPeers = 8;  // to which each sends, and from which it receives

    FewConnectionsTest() {
        const Settings settings{
            {"QP_MAX", "4"}, {"TX_LONG_QUEUES", "1"}, {"TX_QUEUE_LEN", "32"}, {"POLL", "memory"}};
        for (std::size_t i = 0; i < kEntities; ++i) entities_.emplace_back(settings);
        for (Entity& entity : entities_) all_.push_back(&entity);
        for (std::size_t from = 0; from < kEntities; ++from)
            for (std::size_t k = 0; k < kPeers; ++k) {
                Stream stream;
                stream.seed = random_();
                stream.count = 2000;
                stream.id = static_cast<uint8_t>(2 * k);
                flows_.emplace_back(entities_[from], entities_[(from + k + 1) % kEntities], stream);
            }
    }
    // Some flows go on, all others are silent. All interfaces make progress, some seldom.
    void phase() {
        std::vector<Flow*> active(10);
        for (Flow*& flow : active) flow = &flows_[random_() % flows_.size()];
        for (int i = 0; i < 300; ++i) {
            for (Flow* flow : active) {
                if (!flow->sender.done()) flow->sender.step();
                EXPECT_STATUS(UCS_OK, flow->sender.status());
            }
            for (Entity& entity : entities_)
                if (random_() % 4 != 0) entity.progress();
        }
    }
    uint64_t sent() const {
        uint64_t sum = 0;
        for (const Flow& flow : flows_) sum += flow.sender.sent();
        return sum;
    }

    const uint64_t others_ = objects("queue_pairs");
    std::mt19937_64 random_{any_seed()};
    std::deque<Entity> entities_;
    Group all_;
    std::deque<Flow> flows_;
};

TEST_F(FewConnectionsTest, NothingIsLost) {
    ASSERT_TRUE(eventually(
        all_,
        [&] {
            phase();
            return HasFailure() || sent() >= kEntities * kPeers * 1500;
        },
        milliseconds(120'000)));
    // In silence, the interfaces keep to their limit, however fast the traffic was: four
    // connections each, and a queue pair for handshakes.
    ASSERT_TRUE(eventually(
        all_, [&] { return objects("queue_pairs") <= others_ + kEntities * 5; },
        milliseconds(120'000)));
    std::vector<Flow*> flows;
    for (Flow& flow : flows_) flows.push_back(&flow);
    ASSERT_TRUE(run(flows));
    flows.clear();
    flows_.clear();
    uint64_t ended = 0, lengthened = 0;
    for (Entity& entity : entities_) {
        const Counters counters = entity.close_and_count();
        ended += counters["queue_pairs_ended"];
        lengthened += counters["queue_pairs_lengthened"];
    }
    EXPECT_GT(ended, 0u);
    EXPECT_GT(lengthened, 0u);
}

}  // namespace few_connections_test
}  // namespace uct_test
