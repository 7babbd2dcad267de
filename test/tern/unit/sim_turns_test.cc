// SPDX-License-Identifier: BSD-3-Clause
// Simulated ranks whose polls are left out do what they would do if each of them polled: programs
// at random, compared with ranks that poll all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "bench/sim/schedule.h"
#include "schedules.h"

namespace bench::sim {
namespace {

constexpr uint64_t kBegin = 1000;
constexpr uint32_t kLate = 64;

// Something that a rank may find: at once, by one poll of a cycle, or by the kLate-th poll.
enum class Where : uint8_t { kMemory, kQueue, kLateQueue };

// The device. Messages of one time come in the order of their senders, whoever runs first.
class ToyDevice {
  public:
    struct Message {
        uint64_t time;
        uint32_t sender;
        uint64_t number;  // of the sender
        uint32_t to;
        Where where;
        uint32_t hops;  // before it arrives: the device acts, and nobody can find it
        auto operator<=>(const Message&) const = default;
    };

    explicit ToyDevice(uint32_t ranks) : found_(ranks) {}

    void post(const Message& message) { way_.insert(message); }
    bool peek(softhca_virtual_event* event) const {
        if (way_.empty()) return false;
        const Message& first = *way_.begin();
        *event = {first.time, first.to, first.hops == 0 ? 1U : 0U};
        return true;
    }
    void step() {
        Message message = *way_.begin();
        way_.erase(way_.begin());
        if (message.hops == 0) {
            found_[message.to].push_back({message.where});
            return;
        }
        --message.hops;
        message.time += 1 + message.number % 300;
        way_.insert(message);
    }
    // What the rank has not found yet.
    struct Arrived {
        Where where;
        uint32_t polls = 0;  // that did not find it
    };
    std::deque<Arrived>& waiting(uint32_t rank) { return found_[rank]; }
    bool has_completion(uint32_t rank) const { return !found_[rank].empty(); }
    bool is_empty() const {
        return way_.empty() &&
               std::ranges::all_of(found_, [](const auto& waiting) { return waiting.empty(); });
    }

  private:
    std::set<Message> way_;
    std::vector<std::deque<Arrived>> found_;
};

// What a rank did, polls that found nothing apart.
struct Did {
    uint32_t rank;
    uint64_t begin;
    uint64_t end;
    auto operator<=>(const Did&) const = default;
};

// Programs that send, compute, and wait for messages.
class Toys {
  public:
    Toys(uint32_t ranks, uint64_t seed) : device_(ranks) {
        for (uint32_t rank = 0; rank < ranks; ++rank) {
            ranks_.emplace_back(seed * 1000 + rank);
            for (uint64_t& ns : ranks_.back().polls) ns = 1 + ranks_.back().below(40);
            ranks_.back().polls.back() += 100;
            ranks_.back().left = 1 + ranks_.back().below(4);
        }
    }

    ToyDevice& device() { return device_; }
    const std::vector<Did>& log() const { return log_; }
    uint64_t empty_polls() const { return empty_polls_; }

    // A step of the rank that begins at `time`. Returns when it ends.
    uint64_t step(uint32_t rank, uint64_t time, bool& idle) {
        Toy& toy = ranks_[rank];
        const uint64_t poll = toy.count++;
        idle = false;
        uint64_t took = 0;
        if (toy.left != 0) {
            --toy.left;
            took = work(rank, time);
        } else if (finds(rank, poll)) {
            took = 20 + toy.below(100);
            if (messages_ < kMessages) toy.left = toy.below(5);
            toy.settling = toy.below(4);
        } else {
            idle = true;
            ++empty_polls_;
            took = toy.polls[poll % toy.polls.size()];
            // Something that has been put off.
            if (toy.settling != 0) took += 7 * toy.settling--;
            return time + took;
        }
        log_.push_back({rank, time, time + took});
        return time + took;
    }

  private:
    static constexpr uint32_t kMessages = 200;
    struct Toy {
        explicit Toy(uint64_t seed) : random(seed) {}
        uint64_t below(uint64_t bound) { return random.below(bound); }
        tern::Random random;
        std::array<uint64_t, Waiting::kCycle> polls = {};
        uint64_t count = 0;
        uint64_t left = 0;      // steps in which it works
        uint64_t settling = 0;  // polls that take longer
        uint64_t sent = 0;
    };

    uint64_t work(uint32_t rank, uint64_t time) {
        Toy& toy = ranks_[rank];
        if (toy.below(3) == 0) return 1 + toy.below(5000);  // computes
        for (uint64_t i = 1 + toy.below(2); i != 0; --i, ++messages_) {
            const auto to = static_cast<uint32_t>(toy.below(ranks_.size()));
            constexpr uint64_t kDelays[] = {50, 500, 20'000, 3'000'000};
            const uint64_t delay = 1 + toy.below(kDelays[toy.below(4)]);
            const auto where = static_cast<Where>(toy.below(3));
            const auto hops = static_cast<uint32_t>(toy.below(3));
            device_.post({time + delay, rank, toy.sent++, to, where, hops});
        }
        return 30 + toy.below(200);
    }
    bool finds(uint32_t rank, uint64_t poll) {
        auto& waiting = device_.waiting(rank);
        const auto found = std::ranges::find_if(waiting, [poll](ToyDevice::Arrived& arrived) {
            ++arrived.polls;
            return arrived.where == Where::kMemory || arrived.polls == kLate ||
                   (arrived.where == Where::kQueue && poll % Waiting::kCycle == 0);
        });
        if (found == waiting.end()) return false;
        waiting.erase(found);
        return true;
    }

    ToyDevice device_;
    std::deque<Toy> ranks_;
    std::vector<Did> log_;
    uint64_t empty_polls_ = 0;
    uint64_t messages_ = 0;
};

void run_in_turns(Toys& toys, uint32_t ranks) {
    Schedule schedule(ranks, kBegin);
    while (!toys.device().is_empty() || toys.log().size() < ranks) {
        const auto [rank, time] = next_turn(schedule, toys.device());
        bool idle = false;
        const uint64_t end = toys.step(rank, time, idle);
        end_turn(schedule, toys.device(), rank, end, idle);
    }
}

// The same ranks, of which each polls all the time. Where a schedule lets a rank sleep, its loop of
// polls begins at another phase; that is all that is left of it.
class Polling {
  public:
    Polling(Toys& toys, uint32_t ranks) : toys_(toys), ranks_(ranks) {
        for (Rank& rank : ranks_) rank.time = kBegin;
    }
    void run() {
        while (!toys_.device().is_empty() || toys_.log().size() < ranks_.size()) {
            const auto least = std::ranges::min_element(ranks_, {}, &Rank::time);
            softhca_virtual_event event;
            if (toys_.device().peek(&event) && event.time <= least->time) {
                if (event.seen == 0 || !look(ranks_[event.member], event.time))
                    toys_.device().step();
                continue;
            }
            step(static_cast<uint32_t>(least - ranks_.begin()));
        }
    }

  private:
    struct Rank {
        uint64_t time = 0;
        std::vector<uint64_t> took;  // by the polls in a row that found nothing
        uint32_t least = Waiting::kSettled;
        bool asleep = false;  // it would be
        uint32_t sleeps = 0;
        uint64_t slept_at = 0;
        uint64_t begin = 0;  // of its loop of polls
        uint64_t cycle = 0;
    };

    // From then on it may find something. True: it runs first, as its loop has not begun again.
    static bool look(Rank& rank, uint64_t time) {
        const bool early = rank.asleep && time < rank.begin;
        if (early) rank.time = rank.slept_at;
        wake(rank, Waiting::kSettled);
        return early;
    }
    static void wake(Rank& rank, uint32_t least) {
        rank.asleep = false;
        rank.took.clear();
        rank.least = least;
    }
    void step(uint32_t number) {
        Rank& rank = ranks_[number];
        if (rank.asleep && (rank.time - rank.begin) % rank.cycle == 0 &&
            rank.time + rank.cycle > rank.slept_at + Schedule::kLongest)
            wake(rank, Waiting::kMost);
        bool idle = false;
        const uint64_t begin = rank.time;
        rank.time = toys_.step(number, begin, idle);
        if (!idle) return wake(rank, Waiting::kSettled);
        if (rank.asleep) return;
        rank.took.push_back(rank.time - begin);
        if (rank.took.size() < rank.least) return;
        if (rank.took.size() < Waiting::kMost &&
            (cycle(rank, 1) != cycle(rank, 2) || toys_.device().has_completion(number)))
            return;
        rank.asleep = true;
        rank.cycle = cycle(rank, 1);
        rank.slept_at = rank.time;
        rank.time += chance(uint64_t{number} << 32 | ++rank.sleeps) % rank.cycle;
        rank.begin = rank.time;
    }
    // The time of the last cycle, or of the one before it.
    static uint64_t cycle(const Rank& rank, size_t last) {
        uint64_t ns = 0;
        for (size_t i = 0; i < Waiting::kCycle; ++i)
            ns += rank.took[rank.took.size() - last * Waiting::kCycle + i];
        return ns;
    }

    Toys& toys_;
    std::vector<Rank> ranks_;
};

TEST(SimTurns, RanksThatSleepFindWhatRanksThatPollFindAtTheSameTime) {
    uint64_t polls = 0, polls_of_all = 0;
    tern::each_schedule(100, [&](tern::Random random) -> std::string {
        const auto ranks = static_cast<uint32_t>(random.between(1, 6));
        const uint64_t seed = random();
        Toys sleeping(ranks, seed), polling(ranks, seed);
        run_in_turns(sleeping, ranks);
        Polling(polling, ranks).run();
        polls += sleeping.empty_polls();
        polls_of_all += polling.empty_polls();
        const auto [here, there] = std::ranges::mismatch(sleeping.log(), polling.log());
        const bool all = here == sleeping.log().end();
        if (all && there == polling.log().end()) return {};
        if (all || there == polling.log().end()) return "one does more than the other";
        return "rank " + std::to_string(here->rank) + " acts at " + std::to_string(here->begin) +
               ", polling: rank " + std::to_string(there->rank) + " at " +
               std::to_string(there->begin);
    });
    EXPECT_LT(polls, polls_of_all / 2);  // they sleep
}

TEST(SimTurns, RanksOfOneMemberWakeTogether) {
    const Part part{.members = {2}};
    ToyDevice device(2);
    Schedule schedule(4, kBegin);
    for (uint32_t rank = 0; rank < 4; ++rank) schedule.sleep(rank);
    device.post({kBegin + 500, 0, 0, 1, Where::kMemory, 0});
    EXPECT_EQ(next_turn(schedule, device, part).rank % 2, 1U);
    for (uint32_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(part.members.of(rank), rank % 2);
        EXPECT_EQ(schedule.is_asleep(rank), rank % 2 == 0) << rank;
    }
}

TEST(SimTurns, TheFirstRankMayHaveAMemberOfItsOwn) {
    constexpr Members kMembers{3, true};
    const std::vector<uint32_t> expected = {0, 1, 2, 1, 2, 1};
    for (uint32_t rank = 0; rank < expected.size(); ++rank) {
        EXPECT_EQ(kMembers.of(rank), expected[rank]);
        EXPECT_EQ(kMembers.next(rank), rank == 0 ? UINT64_MAX : rank + 2);
    }
}

// The cycle that counts is the last one, also if the last polls are not the first of ten.
TEST(SimTurns, ASleeperWakesByItsLastCycle) {
    Schedule schedule(1, kBegin);
    uint64_t time = kBegin;
    // After ten polls the two cycles differ; after eleven they take the same.
    for (const uint64_t ns : {90, 30, 10, 10, 10, 30, 10, 10, 10, 10})
        ASSERT_FALSE(schedule.ran(0, time += ns, true));
    ASSERT_TRUE(schedule.ran(0, time += 50, true));
    schedule.sleep(0);
    constexpr uint64_t kCycleTime = 90, kWait = 100'000;
    ASSERT_TRUE(schedule.may_find(0, time + kWait));
    EXPECT_LT(time + kWait - schedule.next_time(), kCycleTime);
    const uint64_t phase = chance(1) % kCycleTime;
    EXPECT_EQ((schedule.next_time() - time - phase) % kCycleTime, 0U);
}

}  // namespace
}  // namespace bench::sim
