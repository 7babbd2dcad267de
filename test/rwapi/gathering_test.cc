// SPDX-License-Identifier: BSD-3-Clause
// Gatherings of items: parts come in any order, from processes that may die.
#include "rwapi/core/gathering.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <vector>

#include "common/seed.h"

namespace rwapi {
namespace {

constexpr size_t kBytes = sizeof(uint64_t) + 3;  // of an item

TEST(Gathering, GivesEachTheItemsOfAll) {
    std::mt19937 random(tern::test::any_seed());
    struct Message {
        uint32_t step, first;
        std::vector<std::byte> part;
        bool last, missing;
    };
    for (uint32_t size = 1; size <= 40; ++size) {
        for (const uint32_t dead : {0u, 1u, size / 3}) {
            if (dead >= size) continue;
            std::vector<bool> lives(size, true);
            for (uint32_t i = 0; i < dead; ++i) lives[random() % size] = false;
            std::vector<Gathering> all;
            std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> under_way;
            std::vector<bool> begun(size), sent(size);
            for (uint32_t rank = 0; rank < size; ++rank) all.emplace_back(rank, size, kBytes);
            const auto advance = [&](uint32_t rank) {
                Gathering& own = all[rank];
                std::array<std::byte, kBytes> item{};
                const uint64_t number = rank + 100;
                std::memcpy(item.data(), &number, sizeof number);
                if (!begun[rank]) own.begin(item);
                begun[rank] = true;
                while (!own.over()) {
                    const uint32_t step = own.step();
                    const uint32_t most = 1 + static_cast<uint32_t>(random() % 5);
                    for (uint32_t first = 0; !sent[rank] && first < own.items(step);) {
                        const auto part = own.outgoing(first, most);
                        under_way[{rank, own.to(step)}].push_back(
                            {step,
                             first,
                             {part.begin(), part.end()},
                             first + part.size() / kBytes == own.items(step),
                             own.missing()});
                        first += static_cast<uint32_t>(part.size() / kBytes);
                    }
                    sent[rank] = true;
                    if (!own.has_come(step) && !lives[own.from(step)]) own.miss(step);
                    if (!own.has_come(step)) return;
                    own.finish_step();
                    sent[rank] = false;
                }
            };
            for (int turn = 0; turn < 200'000; ++turn) {
                const auto rank = static_cast<uint32_t>(random() % size);
                if (!lives[rank]) continue;
                advance(rank);
                if (under_way.empty()) continue;
                auto at = under_way.begin();
                std::advance(at, random() % under_way.size());
                const Message message = at->second.front();
                at->second.pop_front();
                const uint32_t to = at->first.second;
                ASSERT_EQ(all[to].from(message.step), at->first.first);
                if (at->second.empty()) under_way.erase(at);
                ASSERT_TRUE(
                    all[to].on_part(message.step, message.first, message.part, message.last));
                if (message.missing) all[to].miss();
            }
            for (uint32_t rank = 0; rank < size; ++rank) {
                if (!lives[rank]) continue;
                ASSERT_TRUE(all[rank].over());
                bool missing = false;
                all[rank].for_each([&](uint32_t i, std::span<const std::byte> item) {
                    uint64_t number;
                    std::memcpy(&number, item.data(), sizeof number);
                    if (number == 0)
                        missing = true;
                    else
                        ASSERT_EQ(number, i + 100);
                });
                ASSERT_EQ(all[rank].missing(), missing);
            }
        }
    }
}

TEST(Gathering, RefusesPartsThatDoNotFit) {
    Gathering gathering(0, 6, kBytes);
    const std::vector<std::byte> items(7 * kBytes);
    const auto some = [&](size_t count) { return std::span(items).first(count * kBytes); };
    EXPECT_EQ(gathering.steps(), 3u);
    EXPECT_FALSE(gathering.on_part(3, 0, {}, true));
    EXPECT_FALSE(gathering.on_part(2, 0, some(3), true));  // two are behind the fourth
    EXPECT_FALSE(gathering.on_part(2, 2, some(1), true));
    EXPECT_FALSE(gathering.on_part(2, UINT32_MAX, some(1), true));
    EXPECT_FALSE(gathering.on_part(2, 1, std::span(items).first(kBytes - 1), true));
    EXPECT_TRUE(gathering.on_part(2, 1, some(1), false));
    EXPECT_TRUE(gathering.on_part(2, 0, some(1), true));
    EXPECT_FALSE(gathering.on_part(2, 0, some(1), true));  // twice
}

}  // namespace
}  // namespace rwapi
