// SPDX-License-Identifier: BSD-3-Clause
// Rounds under any load: packets and deadlines, which wait for the end of a round, come after what
// had arrived before them, and do not wait for the load to pause.
#include "tern/engine/arrival_round.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "schedules.h"
#include "tern/base/tunables.h"

namespace tern {
namespace arrival_round_test {

constexpr unsigned kBlock = 511;  // frames: the last burst of a whole block is not full

// Something with room for `most` items, which are taken in the order of their arrival.
struct Queue {
    unsigned most = 0;
    unsigned in = 0;
    uint64_t taken = 0;
    uint64_t before_round = 0;  // items that had arrived when the round began
    uint32_t emptied = 0;

    void arrive(uint64_t items) {
        in += static_cast<unsigned>(std::min<uint64_t>(items, most - in));
    }
    unsigned take() {
        const unsigned now = std::min(in, kArrivalBurst);
        in -= now;
        taken += now;
        return now;
    }
    void begin_round() { before_round = taken + in; }
    bool has_all() const { return taken >= before_round; }
};

// How much arrives between two steps.
enum class Load : uint8_t { kNone, kLittle, kBursts, kMost };

struct World {
    World(Random& random, unsigned peers, Load load) : random_(random), load_(load) {
        completions_.most = static_cast<unsigned>(random.between(16, 4096));
        blocks_.resize(peers);
        for (Queue& block : blocks_) block.most = kBlock;
        for (int i = 0; i < 20; ++i) arrive();
        begin_round();
    }
    unsigned poll_queue(bool& empty) {
        const unsigned taken = completions_.take();
        empty = taken < kArrivalBurst;
        arrive();
        return taken;
    }
    unsigned queue_capacity() const { return completions_.most; }
    size_t blocks() const { return blocks_.size(); }
    unsigned poll_block(size_t i) {
        const unsigned taken = blocks_[i].take();
        arrive();
        return taken;
    }
    uint32_t& emptied(size_t i) { return blocks_[i].emptied; }

    void begin_round() {
        completions_.begin_round();
        for (Queue& block : blocks_) block.begin_round();
    }
    bool has_all() const {
        return completions_.has_all() &&
               std::all_of(blocks_.begin(), blocks_.end(),
                           [](const Queue& block) { return block.has_all(); });
    }
    // Calls in which a round must be over, however many peers there are.
    unsigned most_calls() const {
        return completions_.most / kArrivalBurst + kBlock / kArrivalBurst + 2;
    }

  private:
    void arrive() {
        arrive(completions_);
        for (Queue& block : blocks_) arrive(block);
    }
    void arrive(Queue& queue) {
        switch (load_) {
            case Load::kNone:
                break;
            case Load::kLittle:
                queue.arrive(random_.below(3));
                break;
            case Load::kBursts:
                if (random_.chance(5)) queue.arrive(random_.below(queue.most));
                break;
            case Load::kMost:
                queue.arrive(queue.most);
                break;
        }
    }

    Random& random_;
    Load load_;
    Queue completions_;
    std::vector<Queue> blocks_;
};

std::string run(Random random, unsigned peers, Load load) {
    World world(random, peers, load);
    ArrivalRound round;
    for (int rounds = 0; rounds < 5; ++rounds) {
        unsigned count = 0;
        unsigned calls = 1;
        while (!round.take(world, kBlock, count))
            if (++calls > world.most_calls()) return "a round has no end";
        if (!world.has_all()) return "a round is over before all has been taken";
        world.begin_round();
    }
    return {};
}

TEST(ArrivalRound, EndsUnderAnyLoad) {
    each_schedule(2000, [](Random random) {
        const auto load = static_cast<Load>(random.below(4));
        return run(random, static_cast<unsigned>(random.below(9)), load);
    });
}

TEST(ArrivalRound, EndsHoweverManyPeersAreHot) {
    for (const unsigned peers : {0u, 1u, 2u, 3u, 4u, 5u, 64u, 300u})
        for (const Load load : {Load::kNone, Load::kLittle, Load::kMost})
            EXPECT_EQ(run(Random(7), peers, load), "") << peers << " peers";
}

// A call takes a limited number, apart from one burst of each block.
TEST(ArrivalRound, CallsAreShort) {
    for (const unsigned peers : {1u, 8u, 64u}) {
        Random random(3);
        World world(random, peers, Load::kMost);
        ArrivalRound round;
        for (int calls = 0; calls < 1000; ++calls) {
            unsigned count = 0;
            (void)round.take(world, kBlock, count);
            EXPECT_LT(count, kArrivalsAtOnce + (peers + 1) * kArrivalBurst);
        }
    }
}

}  // namespace arrival_round_test
}  // namespace tern
