// SPDX-License-Identifier: BSD-3-Clause
// The rings of completion queues and receive queues.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>
#include <vector>

#include "common/seed.h"
#include "softhca/core/completion_ring.h"
#include "softhca/core/receive_ring.h"

namespace softhca {
namespace {

TEST(CompletionRing, KnowsWhatWasCommittedAndWhatOnlyBegun) {
    std::vector<Cqe> slots(4);
    CompletionRing ring(slots.data(), 3);
    for (uint64_t tail = 0; tail < 20; ++tail) {
        EXPECT_FALSE(ring.committed(tail)) << "an older entry in the same slot is not this one";
        ring.write(tail, {}, 0);
        EXPECT_TRUE(ring.committed(tail));
    }
}

TEST(CompletionRing, ShowsNothingBeforeItsTimeAndTheEarliestFirst) {
    std::vector<Cqe> slots(8);
    CompletionRing ring(slots.data(), 7);
    const uint64_t times[] = {50, 10, 30, 10};
    for (uint64_t i = 0; i < 4; ++i) {
        Completion wc;
        wc.wr_id = i;
        wc.visible_at = times[i];
        ring.write(i, wc, 0);
    }
    EXPECT_EQ(ring.next_visible(0, 9), std::nullopt) << "nothing yet";
    std::vector<uint64_t> order;
    uint64_t head = 0;
    for (; const auto index = ring.next_visible(head, 100); ++head) {
        order.push_back(ring.at(*index).wc.wr_id);
        ring.close_gap(head, *index);
    }
    EXPECT_EQ(order, (std::vector<uint64_t>{1, 3, 2, 0})) << "equal times keep their order";
    EXPECT_EQ(head, 4u) << "taking any entry makes room for one";
}

TEST(CompletionRing, ShowsAFullRingOnce) {
    std::vector<Cqe> slots(4);
    CompletionRing ring(slots.data(), 3);
    for (uint64_t i = 0; i < 8; ++i) {
        Completion wc;
        wc.visible_at = i < 4 ? 1 : 100 - i;
        ring.write(i, wc, 0);
    }
    EXPECT_EQ(ring.next_visible(4, 100), 7u) << "of the four entries from the head on";
    EXPECT_EQ(ring.next_visible(4, 92), std::nullopt) << "those before it are gone";
}

class ReceiveRingTest : public testing::Test {
  protected:
    static constexpr uint32_t kEntries = 8;
    static constexpr uint32_t kSges = 2;
    ReceiveRingTest() : memory_(RecvRing::bytes(kEntries, kSges) + 64) {
        ring_.init(memory_.data(), 64, kEntries, kEntries, kSges);
    }
    void post(uint64_t id) {
        const Sge sge{id, static_cast<uint32_t>(id), 7};
        ring_.post(memory_.data(), id, &sge, 1);
    }
    RecvWqe& take() {
        const uint64_t head = ring_.head.load();
        ring_.head.store(head + 1);
        return ring_.at(memory_.data(), head);
    }
    std::vector<char> memory_;
    RecvRing ring_;
};

TEST_F(ReceiveRingTest, IsFullUntilSomethingIsGivenBack) {
    for (uint64_t i = 0; i < kEntries; ++i) {
        ASSERT_FALSE(ring_.full());
        post(i);
    }
    EXPECT_TRUE(ring_.full());
    const RecvWqe& first = take();
    EXPECT_TRUE(ring_.full()) << "taken is not yet given back";
    ring_.release_slot(memory_.data(), first.slot);
    EXPECT_FALSE(ring_.full());
}

TEST_F(ReceiveRingTest, KeepsEntriesUnderWayWhateverTheOrderTheyEndIn) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    std::deque<uint64_t> expected;                         // posted, not taken
    std::vector<std::pair<RecvWqe*, uint64_t>> under_way;  // taken, not released
    uint64_t next_id = 1;
    for (int step = 0; step < 20000; ++step) {
        switch (random() % 3) {
            case 0:
                if (!ring_.full()) {
                    post(next_id);
                    expected.push_back(next_id++);
                }
                break;
            case 1:
                if (!ring_.empty()) {
                    RecvWqe& wqe = take();
                    ASSERT_EQ(wqe.wr_id, expected.front());
                    under_way.emplace_back(&wqe, expected.front());
                    expected.pop_front();
                }
                break;
            default:
                if (!under_way.empty()) {
                    const size_t pick = random() % under_way.size();
                    ring_.release_slot(memory_.data(), under_way[pick].first->slot);
                    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(pick));
                }
        }
        for (const auto& [wqe, id] : under_way) {
            ASSERT_EQ(wqe->wr_id, id) << "step " << step;
            ASSERT_EQ(wqe->sges()[0].addr, id);
        }
        ASSERT_LE(expected.size() + under_way.size(), kEntries);
    }
}

TEST_F(ReceiveRingTest, DropAllMakesRoomForEverything) {
    for (uint64_t i = 0; i < kEntries; ++i) post(i);
    take();
    ring_.drop_all(memory_.data());
    EXPECT_TRUE(ring_.empty());
    for (uint64_t i = 0; i < kEntries; ++i) {
        ASSERT_FALSE(ring_.full());
        post(100 + i);
    }
    EXPECT_EQ(take().wr_id, 100u);
}

}  // namespace
}  // namespace softhca
