// SPDX-License-Identifier: BSD-3-Clause
// The order in which the bytes of a message appear in memory, normally and with faults.
#include <algorithm>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include "fabric.h"
#include "memory.h"

namespace conformance::softhca {
namespace placement_test {

constexpr std::size_t kPiece = 4096;
constexpr std::size_t kPieces = 4;
constexpr std::size_t kWords = kPiece / 8;
constexpr milliseconds kPause{40};
constexpr char kSegments[] = "segment=4096:40ms";

// Which pieces of a message whose words are all 1 have arrived, judged by the last word of each
// piece.
std::vector<bool> pieces(const uint64_t* words) {
    std::vector<bool> there;
    for (std::size_t i = 0; i < kPieces; ++i)
        there.push_back(look(words[(i + 1) * kWords - 1]) != 0);
    return there;
}

SendWr ones(const Pair& pair, ibv_wr_opcode opcode, uint64_t id = 1) {
    std::fill_n(&pair.a_mem.word(0), kPieces * kWords, 1);
    SendWr wr(opcode, id);
    wr.sge(pair.a_mem.sge(0, kPieces * kPiece)).remote(pair.b_mem);
    return wr;
}

class PlacementTest : public ExecutorTest {};

TEST_P(PlacementTest, SegmentsAppearFrontToBack) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        inject(kSegments);
        const Stopwatch watch;
        ASSERT_EQ(ones(pair, IBV_WR_RDMA_WRITE).post(pair.a.qp), 0);
        const uint64_t* words = &pair.b_mem.word(0);
        std::size_t partial = 0;
        ASSERT_TRUE(comes([&] {
            // Finds the last word that has arrived first; the words before it, read later, must
            // then have arrived too.
            std::size_t end = kPieces * kWords;
            while (end > 0 && look(words[end - 1]) == 0) --end;
            for (std::size_t i = 0; i < end; ++i)
                if (look(words[i]) == 0)
                    fail("word " + std::to_string(end - 1) + " is there, " + std::to_string(i) +
                         " is not");
            partial += end > 0 && end < kPieces * kWords;
            return end == kPieces * kWords;
        }));
        EXPECT_GT(partial, 0u);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_GE(watch.elapsed(), kPause * (kPieces - 1));
    });
}

TEST_P(PlacementTest, SegmentsHoldForEveryOperation) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        inject(kSegments);
        pair.b_mem.fill(1, 0, kPieces * kPiece);
        const Stopwatch reading;
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                      .sge(pair.a_mem.sge(0, kPieces * kPiece))
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_GE(reading.elapsed(), kPause * (kPieces - 1));
        EXPECT_TRUE(pair.a_mem.holds(1, 0, kPieces * kPiece));
        for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            std::fill_n(pair.b_mem.data(), kPieces * kPiece, 0);
            const Stopwatch watch;
            ASSERT_EQ(RecvWr(2).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
            ASSERT_EQ(ones(pair, opcode, 3).post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.b.recv_cq, {2}));
            EXPECT_GE(watch.elapsed(), kPause * (kPieces - 1)) << opcode;
            EXPECT_EQ(pieces(&pair.b_mem.word(0)), std::vector<bool>(kPieces, true));
            ASSERT_TRUE(next_are(pair.a.send_cq, {3}));
        }
    });
}

TEST_P(PlacementTest, OutOfOrderIsSeenAndSaid) {
    alone([] {
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        auto ordered = [&] {
            return ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_WRITE, 0);
        };
        EXPECT_EQ(ordered(), 1);
        inject(std::string(kSegments) + ",out-of-order");
        EXPECT_EQ(ordered(), 0);
        ASSERT_EQ(ones(pair, IBV_WR_RDMA_WRITE).post(pair.a.qp), 0);
        bool last_before_first = false;
        ASSERT_TRUE(comes([&] {
            const std::vector<bool> there = pieces(&pair.b_mem.word(0));
            last_before_first |= there.back() && !there.front();
            return std::find(there.begin(), there.end(), false) == there.end();
        }));
        EXPECT_TRUE(last_before_first);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        inject("none");
        EXPECT_EQ(ordered(), 1);
    });
}

TEST_P(PlacementTest, OutOfOrderDataIsRightInTheEnd) {
    alone([] {
        constexpr std::size_t kSize = 60001;  // not a multiple of a word, a page or a segment
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get());
        inject("out-of-order");
        unsigned seed = 1;
        for (const ibv_wr_opcode opcode :
             {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
            pair.a_mem.fill(++seed, 0, kSize);
            SendWr wr(opcode, seed);
            wr.sge(pair.a_mem.sge(0, 1001))
                .sge(pair.a_mem.sge(1001, kSize - 1001))
                .remote(pair.b_mem);
            if (opcode != IBV_WR_RDMA_WRITE) {
                ASSERT_EQ(RecvWr(seed).sge(pair.b_mem.sge()).post(pair.b.qp), 0);
            }
            ASSERT_EQ(wr.post(pair.a.qp), 0);
            ASSERT_TRUE(next_are(pair.a.send_cq, {seed}));
            EXPECT_TRUE(pair.b_mem.holds(seed, 0, kSize)) << opcode;
        }
        pair.b_mem.fill(1, 0, kSize);
        ASSERT_EQ(SendWr(IBV_WR_RDMA_READ, 1)
                      .sge(pair.a_mem.sge(0, kSize))
                      .remote(pair.b_mem)
                      .post(pair.a.qp),
                  0);
        ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
        EXPECT_TRUE(pair.a_mem.holds(1, 0, kSize));
    });
}

// A change of the faults in the middle of a message must not lose data.
TEST_P(PlacementTest, DataIsRightWhenFaultsChangeInTheMiddle) {
    alone([] {
        struct Change {
            const char* before;
            const char* after;
        };
        Hca hca;
        Pd pd = hca.make_pd();
        for (const Change& change : {Change{"segment=4096:40ms,out-of-order", "none"},
                                     Change{"segment=4096:40ms", "out-of-order"},
                                     Change{"segment=4096:40ms", "segment=1000:0"}}) {
            Pair pair(hca, pd.get());
            inject(change.before);
            ASSERT_EQ(ones(pair, IBV_WR_RDMA_WRITE).post(pair.a.qp), 0);
            ASSERT_TRUE(comes([&] {
                const std::vector<bool> there = pieces(&pair.b_mem.word(0));
                return std::find(there.begin(), there.end(), true) != there.end();
            }));
            inject(change.after);
            ASSERT_TRUE(next_are(pair.a.send_cq, {1}));
            EXPECT_EQ(pieces(&pair.b_mem.word(0)), std::vector<bool>(kPieces, true))
                << change.before << ", then " << change.after;
            inject("none");
        }
    });
}

SOFTHCA_BOTH_EXECUTORS(PlacementTest);

// How memory is accessed: directly if it is shared, otherwise by the kernel.
struct Way {
    const char* name;
    const char* executor;
    bool shared;
};

void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

class OrderTest : public FabricTest, public testing::WithParamInterface<Way> {
  protected:
    void SetUp() override {
        FabricTest::SetUp();
        set("EXECUTOR", GetParam().executor);
    }
};

// Writes messages in which every word is the number of the round; each waits for the target's
// signal.
void write_rounds(Link& link, const std::vector<std::size_t>& sizes, uint64_t rounds) {
    Side side(link, {}, sizes.back());
    const Window window = link.receive<Window>();
    for (std::size_t size : sizes) {
        for (uint64_t round = 1; round <= rounds; ++round) {
            std::fill_n(&side.mem.word(0), size / 8, round);
            link.receive();
            ASSERT_EQ(SendWr(IBV_WR_RDMA_WRITE, round)
                          .sge(side.mem.sge(0, size))
                          .remote(window.addr, window.rkey)
                          .post(side.end.qp),
                      0);
            ASSERT_TRUE(next_are(side.end.send_cq, {round}));
        }
    }
}

// Waits with `watch(words, count, round)` for each message to arrive.
template <typename Watch>
void watch_rounds(Link& link, const std::vector<std::size_t>& sizes, uint64_t rounds, bool shared,
                  Watch&& watch) {
    Side side(link, {}, 4096);
    const Memory memory(shared ? Memory::kMemfd : Memory::kPrivate, sizes.back());
    const Mr mr = memory.enroll(side.pd.get());
    link.send(Window{memory.addr(), mr->rkey, 0});
    for (std::size_t size : sizes) {
        std::fill_n(memory.data(), size, 0);
        for (uint64_t round = 1; round <= rounds; ++round) {
            link.send();
            watch(reinterpret_cast<const uint64_t*>(memory.data()), size / 8, round);
        }
    }
}

template <typename Watch>
void run_rounds(const std::vector<std::size_t>& sizes, uint64_t rounds, bool shared,
                Watch&& watch) {
    Team team;
    const int target =
        team.spawn([&](Link& link) { watch_rounds(link, sizes, rounds, shared, watch); });
    const int actor = team.spawn([&](Link& link) { write_rounds(link, sizes, rounds); });
    introduce(team, target, actor);
    team[actor].send(team[target].receive<Window>());
    for (uint64_t i = 0; i < sizes.size() * rounds; ++i) {
        team[target].receive();
        team[actor].send();
    }
    team.finish();
}

TEST_P(OrderTest, LastWordMeansTheWholeMessage) {
    run_rounds({8, 16, 56, 64, 200, 4096, 4104, 65536, 1 << 20}, 100, GetParam().shared,
               [](const uint64_t* words, std::size_t count, uint64_t round) {
                   ASSERT_TRUE(comes([&] { return look(words[count - 1]) == round; }));
                   for (std::size_t i = 0; i < count; ++i)
                       ASSERT_EQ(look(words[i]), round) << i << " of " << count;
               });
}

// The kernel copies into private memory with instructions that store whole lines in any order.
// Waits for the first word of a line, and then looks at those before it, the nearest first. With
// one instruction for a page, the third line of the page is the one most often seen before the
// second.
// In parts, so that a machine with other work, where each answer takes long, does fewer.
TEST_P(OrderTest, WordsAppearInAscendingOrder) {
    constexpr uint64_t kParts = 8, kRounds = 500;
    const auto end = Clock::now() + milliseconds(5000);
    for (uint64_t part = 0; part < kParts && Clock::now() < end && !HasFailure(); ++part) {
        const auto watch = [part](const uint64_t* words, std::size_t count, uint64_t round) {
            constexpr std::size_t kLine = 8;                                     // words
            std::mt19937 random(static_cast<unsigned>(part * kRounds + round));  // where to look
            const std::size_t line = random() % 2 != 0 ? 2 : 1 + random() % 63;
            const std::size_t later = random() % (count / kWords) * kWords + line * kLine;
            ASSERT_TRUE(comes([&] {
                int tries = 10000;
                while (look(words[later]) != round && --tries != 0) continue;
                return tries != 0;
            }));
            const std::size_t near = std::min(later, 4 * kLine);
            for (std::size_t earlier = later; earlier-- > later - near;)
                ASSERT_EQ(look(words[earlier]), round)
                    << "word " << later << " of " << count << " is there, " << earlier << " is not";
            ASSERT_TRUE(comes([&] { return look(words[count - 1]) == round; }));
        };
        run_rounds({1 << 12, 1 << 14, 1 << 16}, kRounds, GetParam().shared, watch);
    }
}

// ibv_query_qp_data_in_order reports that the data of an RDMA read arrive in order, too.
TEST_P(OrderTest, LastWordOfAReadMeansTheWholeMessage) {
    const bool shared = GetParam().shared;
    alone([shared] {
        constexpr std::size_t kSize = 1 << 16;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), {}, kSize);
        ASSERT_EQ(ibv_query_qp_data_in_order(pair.a.qp.get(), IBV_WR_RDMA_READ, 0), 1);
        const Memory source(shared ? Memory::kMemfd : Memory::kPrivate, kSize);
        const Mr mr = source.enroll(pd.get());
        for (const std::size_t size : {64, 200, 4096, 4104, 65536}) {
            for (uint64_t round = 1; round <= 50; ++round) {
                std::fill_n(reinterpret_cast<uint64_t*>(source.data()), size / 8, size + round);
                std::thread poster([&] {
                    SendWr wr(IBV_WR_RDMA_READ, round);
                    wr.sge(pair.a_mem.sge(0, size)).remote(source.addr(), mr->rkey);
                    EXPECT_EQ(wr.post(pair.a.qp), 0);
                });
                const uint64_t* words = &pair.a_mem.word(0);
                const auto end = Clock::now() + deadline();
                while (look(words[size / 8 - 1]) != size + round && Clock::now() < end) continue;
                const std::size_t there = static_cast<std::size_t>(std::count_if(
                    words, words + size / 8,
                    [&](const uint64_t& word) { return look(word) == size + round; }));
                poster.join();
                ASSERT_EQ(there, size / 8) << "words of " << size << " bytes, round " << round;
                ASSERT_TRUE(next_are(pair.a.send_cq, {round}));
            }
        }
    });
}

// In memory with relaxed ordering, under the rule for it.
TEST_P(OrderTest, LastWordOfRelaxedMemoryMeansNothing) {
    const bool shared = GetParam().shared;
    set("RULES", "relaxed-order=1");
    alone([shared] {
        constexpr std::size_t kSize = 1 << 20;
        Hca hca;
        Pd pd = hca.make_pd();
        Pair pair(hca, pd.get(), {}, kSize);
        const Memory target(shared ? Memory::kMemfd : Memory::kPrivate, kSize);
        const Mr mr(
            ibv_reg_mr(pd.get(), target.data(), kSize, kAllAccess | IBV_ACCESS_RELAXED_ORDERING));
        ASSERT_NE(mr, nullptr);
        const auto* words = reinterpret_cast<const uint64_t*>(target.data());
        constexpr std::size_t kCount = kSize / 8;
        uint64_t round = 0;
        EXPECT_TRUE(comes([&] {
            std::fill_n(&pair.a_mem.word(0), kCount, ++round);
            std::thread poster([&] {
                SendWr wr(IBV_WR_RDMA_WRITE, round);
                wr.sge(pair.a_mem.sge(0, kSize)).remote(target.addr(), mr->rkey);
                EXPECT_EQ(wr.post(pair.a.qp), 0);
            });
            const auto end = Clock::now() + deadline();
            while (look(words[kCount - 1]) != round && Clock::now() < end) continue;
            const bool early = look(words[0]) != round;
            poster.join();
            EXPECT_TRUE(next_are(pair.a.send_cq, {round}));
            EXPECT_EQ(std::count(words, words + kCount, round), kCount);
            return early;
        }));
    });
}

INSTANTIATE_TEST_SUITE_P(Ways, OrderTest,
                         testing::Values(Way{"InlinePrivate", "inline", false},
                                         Way{"InlineShared", "inline", true},
                                         Way{"ThreadPrivate", "thread", false},
                                         Way{"ThreadShared", "thread", true}),
                         [](const auto& test) { return test.param.name; });

}  // namespace placement_test
}  // namespace conformance::softhca
