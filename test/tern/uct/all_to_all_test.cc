// SPDX-License-Identifier: BSD-3-Clause
// Every rank sends to every other one, over fewer connections than there are ranks.
#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

#include "common/seed.h"
#include "message.h"

namespace uct_test {
namespace all_to_all_test {

constexpr std::size_t kMost = 256;      // ranks
constexpr std::size_t kOfProcess = 16;  // whose pairs all fit into the device's queue pairs
constexpr std::size_t kLongestHere = 8000;
constexpr int kRounds = 2;

// The ranks' addresses and what each test run has drawn, as plain bytes.
struct World {
    std::size_t ranks = 0;
    uint64_t seed = 0;
    std::array<Address, kMost> addresses;
};
using Share = std::array<Address, kOfProcess>;

struct Header {
    uint32_t from;
    uint32_t round;
};

Settings few(std::size_t limit) {
    return {{"QP_MAX", std::to_string(limit)},
            {"TX_QUEUE_LEN", "32"},
            {"RX_QUEUE_LEN", "128"},
            {"CONNECT_TIMEOUT", "60s"},
            {"POLL", "memory"}};
}

// The message of `from` to `to`.
std::vector<std::byte> message(const World& world, std::size_t from, std::size_t to, int round) {
    const uint64_t seed = world.seed + (static_cast<uint64_t>(round) * kMost + from) * kMost + to;
    const std::size_t length = std::mt19937_64(seed)() % (kLongestHere - sizeof(Header));
    std::vector<std::byte> whole(sizeof(Header) + length);
    const Header header{static_cast<uint32_t>(from), static_cast<uint32_t>(round)};
    std::memcpy(whole.data(), &header, sizeof(header));
    std::ranges::copy(pattern(seed, length), whole.begin() + sizeof(header));
    return whole;
}

// A rank: sends to those behind it in turn, so that all connect to others at any time.
class Rank {
  public:
    Rank(std::size_t number, std::size_t limit) : number_(number), entity_(few(limit)) {
        entity_.handle(0, [this](Bytes bytes) { take(bytes); });
    }
    Entity& entity() { return entity_; }
    void begin(const World& world) {
        world_ = &world;
        eps_.resize(world.ranks);
        next_of_.assign(world.ranks, 0);
    }
    // Sends what can be sent now.
    void step() {
        while (sent_ != total()) {
            const int round = static_cast<int>(sent_ / (world_->ranks - 1));
            const std::size_t to = (number_ + 1 + sent_ % (world_->ranks - 1)) % world_->ranks;
            Endpoint& ep = eps_[to];
            if (ep == nullptr) ep = entity_.connect(world_->addresses[to]);
            const ucs_status_t status = am_bcopy(ep, 0, message(*world_, number_, to, round));
            if (status == UCS_ERR_NO_RESOURCE) return;
            ASSERT_STATUS(UCS_OK, status);
            ++sent_;
        }
    }
    bool done() const { return sent_ == total() && received_ == total(); }
    void leave() { eps_.clear(); }

  private:
    std::size_t total() const { return kRounds * (world_->ranks - 1); }
    void take(Bytes bytes) {
        Header header{};
        ASSERT_GE(bytes.size(), sizeof(header));
        std::memcpy(&header, bytes.data(), sizeof(header));
        ASSERT_LT(header.from, world_->ranks);
        ASSERT_EQ(static_cast<int>(header.round), next_of_[header.from]++) << "in order, and once";
        ASSERT_TRUE(same(bytes, message(*world_, header.from, number_, next_of_[header.from] - 1)));
        ++received_;
    }

    std::size_t number_;
    Entity entity_;
    const World* world_ = nullptr;
    std::vector<Endpoint> eps_;
    std::vector<int> next_of_;  // round of the next message, by rank
    std::size_t sent_ = 0, received_ = 0;
};

// A process with ranks `first` to `last`.
void run_ranks(Link& link, std::size_t first, std::size_t last, std::size_t limit) {
    std::deque<Rank> ranks;
    Share share;
    for (std::size_t i = first; i < last; ++i) {
        ranks.emplace_back(i, limit);
        share[i - first] = ranks.back().entity().address();
    }
    link.send(share);
    const auto world = std::make_unique<World>(link.receive<World>());
    for (Rank& rank : ranks) rank.begin(*world);
    std::atomic<bool> over = false;
    std::thread waits;  // for the others
    while (!over) {
        for (Rank& rank : ranks) {
            if (!testing::Test::HasFailure()) rank.step();
            rank.entity().progress();
        }
        const bool done = testing::Test::HasFailure() || std::ranges::all_of(ranks, &Rank::done);
        if (!done || waits.joinable()) continue;
        link.send();
        waits = std::thread([&] {
            link.receive();
            over = true;
        });
    }
    waits.join();
    for (Rank& rank : ranks) rank.leave();
}

class AllToAllTest : public TernTest {};

// TERN_ALL_TO_ALL=N: of so many ranks, which keep an eighth as many connections.
TEST_F(AllToAllTest, EachGetsAllOnceAndInOrder) {
    const char* const text = getenv("TERN_ALL_TO_ALL");
    const std::size_t ranks = text != nullptr ? std::strtoul(text, nullptr, 10) : 48;
    ASSERT_TRUE(ranks >= 16 && ranks <= kMost);
    const std::size_t limit = ranks / 8;
    const std::size_t processes = (ranks + kOfProcess - 1) / kOfProcess;
    const auto first = [&](std::size_t process) { return ranks * process / processes; };
    Team team;
    for (std::size_t i = 0; i < processes; ++i)
        (void)team.spawn([&, i](Link& link) { run_ranks(link, first(i), first(i + 1), limit); });
    const uint64_t others = objects("queue_pairs");
    const auto world = std::make_unique<World>();
    world->ranks = ranks;
    world->seed = tern::test::any_seed();
    const auto each = [&](auto&& action) {
        for (std::size_t i = 0; i < processes; ++i) action(i, team[static_cast<int>(i)]);
    };
    each([&](std::size_t i, Link& link) {
        std::ranges::copy_n(link.receive<Share>().begin(),
                            static_cast<std::ptrdiff_t>(first(i + 1) - first(i)),
                            world->addresses.begin() + static_cast<std::ptrdiff_t>(first(i)));
    });
    each([&](std::size_t, Link& link) { link.send(*world); });
    each([&](std::size_t, Link& link) { link.receive(); });
    // A queue pair for handshakes, besides.
    EXPECT_TRUE(eventually({}, [&] {
        return objects("queue_pairs") <= others + ranks * (limit + 1);
    })) << objects("queue_pairs");
    each([&](std::size_t, Link& link) { link.send(); });
    team.finish();
}

}  // namespace all_to_all_test
}  // namespace uct_test
