// SPDX-License-Identifier: BSD-3-Clause
// Long messages by every scheme: all bytes must arrive, for any length and address.
#include <unistd.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace transfer_test {

constexpr std::size_t kGuard = 64;  // bytes around the target that must not change
constexpr uint64_t kBlank = 0;      // the seed of the bytes before the transfer

struct Way {
    const char* scheme;
    const char* poll;
    Settings settings(Settings others = {}) const {
        others.insert({{"RNDV_SCHEME", scheme}, {"POLL", poll}});
        return others;
    }
};

constexpr Way kWays[] = {{"auto", "memory"},      {"superpipeline", "memory"},
                         {"superpipeline", "cq"}, {"zcopy", "memory"},
                         {"zcopy", "cq"},         {"auto", "cq"}};

std::string way_name(const testing::TestParamInfo<Way>& way) {
    return std::string(way.param.scheme) + "_" + way.param.poll;
}

class TransferTest : public TernTest, public testing::WithParamInterface<Way> {};

// Two interfaces with memory, and puts and gets between them.
class Pair {
  public:
    // `rights`: to the far memory.
    Pair(const Settings& settings, std::size_t size, unsigned rights = kRma)
        : a_(settings), b_(settings), near_(a_.host(), size), far_(b_.host(), size, rights) {}

    // One operation, from or to `at` in the near memory and `there` in the far memory; checks the
    // bytes.
    testing::AssertionResult move(bool get, std::size_t at, std::size_t there, std::size_t length,
                                  std::size_t count = 1) {
        const Declared& from = get ? far_ : near_;
        const Declared& to = get ? near_ : far_;
        const std::size_t source = get ? there : at;
        const std::size_t target = get ? at : there;
        const std::size_t begin = target - std::min(target, kGuard);
        const std::size_t end = std::min(target + length + kGuard, to.size());
        const uint64_t seed = ++seed_;
        fill(from.part(source, length), seed);
        fill(to.part(begin, end - begin), kBlank);
        const std::vector<uct_iov_t> list = pieces(near_, at, length, count);
        const uint64_t remote = far_.remote().address + there;
        const ucs_status_t status =
            get ? get_wait(all_, ep_, list, remote, key_) : put_wait(all_, ep_, list, remote, key_);
        if (status != UCS_OK) return testing::AssertionFailure() << ucs_status_string(status);
        // A put that is complete may still be on its way.
        if (!get && !flush_wait(all_, ep_)) return testing::AssertionFailure() << "not flushed";
        if (auto result = filled(to.part(target, length), seed); !result) return result;
        if (auto result = filled(to.part(begin, target - begin), kBlank); !result)
            return result << " before";
        return filled(to.part(target + length, end - target - length), kBlank,
                      target + length - begin)
               << " behind";
    }

    // The counters of the far interface.
    Counters close_and_count() {
        ep_.reset();
        linger(all_, milliseconds(5));
        return b_.close_and_count();
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Declared near_, far_;
    RemoteKey key_{a_.host(), far_.remote()};
    Endpoint ep_ = a_.connect(b_);
    uint64_t seed_ = 0;
};

TEST_P(TransferTest, Lengths) {
    Pair pair(GetParam().settings(), 3 << 20);
    std::vector<std::size_t> lengths{0,     1,     7,     8,      4095,    4096,
                                     4097,  8191,  8192,  8193,   9999,    12288,
                                     65535, 65536, 65537, 300001, 1 << 20, (2 << 20) + 4097};
    for (const std::size_t length : lengths)
        for (const bool get : {false, true})
            // Repeats: a buffer that is used again may be pinned.
            for (int again = 0; again < 4; ++again)
                ASSERT_TRUE(pair.move(get, 4096, 8192, length))
                    << length << (get ? " got" : " put");
}

TEST_P(TransferTest, AnyPlaceAnyLengthAnyPieces) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    Pair pair(GetParam().settings(), 2 << 20);
    for (int i = 0; i < 60; ++i) {
        const std::size_t length = random() % (std::size_t{1} << random() % 21);
        const std::size_t at = random() % (pair.near_.size() - length);
        const std::size_t there = random() % (pair.far_.size() - length);
        ASSERT_TRUE(pair.move(i % 2, at, there, length, 1 + random() % 8))
            << i << ": " << at << " " << there << " " << length;
    }
}

// Open memory is written and read without its owner's help.
TEST_P(TransferTest, OpenMemory) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    Pair pair(GetParam().settings({{"rndv_windows", "2"}}), 4 << 20, UCT_MD_MEM_ACCESS_ALL);
    ASSERT_TRUE(pair.move(true, 0, 0, 1));
    for (int i = 0; i < 60; ++i) {
        const std::size_t length = random() % (std::size_t{1} << random() % 22);
        const std::size_t at = random() % (pair.near_.size() - length);
        const std::size_t there = random() % (pair.far_.size() - length);
        ASSERT_TRUE(pair.move(i % 2, at, there, length, 1 + random() % 8))
            << i << ": " << at << " " << there << " " << length;
    }
    for (int again = 0; again < 4; ++again)
        ASSERT_TRUE(pair.move(again % 2, 5, 3, pair.near_.size() - 5));
}

TEST_P(TransferTest, Long) {
    constexpr std::size_t kLong = 64 << 20;
    Pair pair(GetParam().settings(), kLong);
    ASSERT_TRUE(pair.move(false, 1, 2, kLong - 5));
    ASSERT_TRUE(pair.move(true, 0, 0, kLong));
    // From several pieces to a single one.
    ASSERT_TRUE(pair.move(false, 0, 0, kLong, 8));
    // The receivers must have chosen the scheme that is set.
    const std::string scheme = GetParam().scheme;
    if (scheme == "auto") return;
    const Counters counters = pair.close_and_count();
    EXPECT_EQ(counters["rndv_superpipeline"] > 0, scheme == "superpipeline") << counters.json();
    EXPECT_EQ(counters["rndv_zero_copy"] > 0, scheme == "zcopy") << counters.json();
}

// Both ends of the connection are the same interface.
TEST_P(TransferTest, ToItself) {
    Entity self(GetParam().settings());
    Declared from(self.host(), 1 << 20), to(self.host(), 1 << 20);
    const RemoteKey to_key(self.host(), to.remote());
    const Endpoint ep = self.connect(self);
    for (const std::size_t length : {std::size_t{1}, std::size_t{5000}, from.size()}) {
        for (uint64_t again = 0; again < 3; ++again) {
            fill(from.part(0, length), length + again);
            const uct_iov_t iov = from.iov(0, length);
            ASSERT_STATUS(UCS_OK, put_wait({&self}, ep, {&iov, 1}, to.remote().address, to_key));
            ASSERT_TRUE(filled(to.part(0, length), length + again));
            fill(to.part(0, length), length * 2 + again);
            ASSERT_STATUS(UCS_OK, get_wait({&self}, ep, {&iov, 1}, to.remote().address, to_key));
            ASSERT_TRUE(filled(from.part(0, length), length * 2 + again));
        }
    }
}

// More operations at a time than there are rings, in both directions, with puts and gets mixed.
class Crowd {
  public:
    Crowd(const Endpoint& ep, const Declared& near, const Declared& far, const RemoteKey& key)
        : ep_(ep), near_(near), far_(far), key_(key) {}

    // Begins `count` operations, each on a share of the memory; every second one is a get.
    testing::AssertionResult begin(const Group& who, std::size_t count, uint64_t seed) {
        const std::size_t share = near_.size() / count;
        for (std::size_t i = 0; i < count; ++i) {
            const bool get = i % 2 != 0;
            const std::size_t length = share - i % 7;
            fill((get ? far_ : near_).part(i * share, length), seed + i);
            const uct_iov_t iov = near_.iov(i * share, length);
            Completion& completion = completions_.emplace_back();
            const auto result = accepted(who, [&] {
                const uint64_t there = far_.remote().address + i * share;
                return get ? get_zcopy(ep_, {&iov, 1}, there, key_, &completion)
                           : put_zcopy(ep_, {&iov, 1}, there, key_, &completion);
            });
            if (!result) return result;
        }
        count_ = count;
        seed_ = seed;
        return testing::AssertionSuccess();
    }
    bool done() const {
        return std::ranges::all_of(completions_, [](const Completion& it) { return it.calls > 0; });
    }
    void expect_all() {
        const std::size_t share = near_.size() / count_;
        for (std::size_t i = 0; i < count_; ++i) {
            const bool get = i % 2 != 0;
            EXPECT_STATUS(UCS_OK, completions_[i].status);
            EXPECT_EQ(completions_[i].calls, 1);
            ASSERT_TRUE(filled((get ? near_ : far_).part(i * share, share - i % 7), seed_ + i))
                << i;
        }
        completions_.clear();
    }

  private:
    const Endpoint& ep_;
    const Declared& near_;
    const Declared& far_;
    const RemoteKey& key_;
    std::deque<Completion> completions_;
    std::size_t count_ = 0;
    uint64_t seed_ = 0;
};

TEST_P(TransferTest, ManyInBothDirections) {
    for (const unsigned rights : {kRma, unsigned{UCT_MD_MEM_ACCESS_ALL}}) {
        const Settings settings = GetParam().settings({{"rndv_windows", "1"}});
        Entity a(settings), b(settings);
        constexpr std::size_t kSize = 4 << 20;
        Declared near_a(a.host(), kSize), far_b(b.host(), kSize, rights);
        Declared near_b(b.host(), kSize), far_a(a.host(), kSize, rights);
        const RemoteKey to_b(a.host(), far_b.remote()), to_a(b.host(), far_a.remote());
        const Endpoint there = a.connect(b), back = b.connect(a);
        Crowd crowd_a(there, near_a, far_b, to_b), crowd_b(back, near_b, far_a, to_a);
        const Group all{&a, &b};
        for (uint64_t round = 0; round < 2; ++round) {
            ASSERT_TRUE(crowd_a.begin(all, 40, round * 1000));
            ASSERT_TRUE(crowd_b.begin(all, 31, round * 1000 + 500));
            ASSERT_TRUE(eventually(all, [&] { return crowd_a.done() && crowd_b.done(); }));
            crowd_a.expect_all();
            crowd_b.expect_all();
        }
    }
}

// Several puts at a time from one buffer, at different offsets that overlap.
TEST_P(TransferTest, OverlappingSources) {
    Entity a(GetParam().settings()), b(GetParam().settings());
    constexpr std::size_t kEach = 300000, kCount = 8;
    Declared near(a.host(), kEach * 2), far(b.host(), kEach * kCount);
    const RemoteKey key(a.host(), far.remote());
    const Endpoint ep = a.connect(b);
    for (uint64_t round = 1; round <= 4; ++round) {
        fill(near.part(0, near.size()), round);
        std::deque<Completion> completions;
        for (std::size_t i = 0; i < kCount; ++i) {
            const uct_iov_t iov = near.iov(i / 2 * 1111, kEach);
            Completion& completion = completions.emplace_back();
            ASSERT_TRUE(accepted({&a, &b}, [&] {
                return put_zcopy(ep, {&iov, 1}, far.remote().address + i * kEach, key, &completion);
            }));
        }
        ASSERT_TRUE(eventually({&a, &b}, [&] {
            return std::ranges::all_of(completions,
                                       [](const Completion& it) { return it.calls == 1; });
        }));
        for (std::size_t i = 0; i < kCount; ++i)
            ASSERT_TRUE(filled(far.part(i * kEach, kEach), round, i / 2 * 1111)) << i;
    }
}

TEST_P(TransferTest, ReadOnlySources) {
    Pair pair(GetParam().settings(), 1 << 20);
    fill(pair.near_.part(0, pair.near_.size()), 1);
    pair.near_.protect(PROT_READ);
    fill(pair.far_.part(0, 1000), 2);
    const uct_iov_t iov = pair.near_.iov(0, pair.near_.size());
    for (int again = 0; again < 4; ++again) {
        ASSERT_STATUS(UCS_OK, put_wait(pair.all_, pair.ep_, {&iov, 1}, pair.far_.remote().address,
                                       pair.key_));
        ASSERT_TRUE(filled(pair.far_.part(0, pair.far_.size()), 1));
        fill(pair.far_.part(0, pair.far_.size()), 2);
    }
    pair.near_.protect(PROT_READ | PROT_WRITE);
    pair.far_.protect(PROT_READ);
    fill(pair.near_.part(0, pair.near_.size()), 3);
    for (int again = 0; again < 4; ++again) {
        ASSERT_STATUS(UCS_OK, get_wait(pair.all_, pair.ep_, {&iov, 1}, pair.far_.remote().address,
                                       pair.key_));
        ASSERT_TRUE(filled(pair.near_.part(0, pair.near_.size()), 2));
        fill(pair.near_.part(0, pair.near_.size()), 3);
    }
    pair.far_.protect(PROT_READ | PROT_WRITE);
}

// After MADV_DONTNEED a buffer has other pages at the same address.
TEST_P(TransferTest, OtherPagesAtTheSamePlace) {
    Pair pair(GetParam().settings(), 1 << 20);
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(pair.move(i % 2, 0, 0, pair.near_.size())) << i;
        if (i < 3) continue;
        for (const Declared* memory : {&pair.near_, &pair.far_}) {
            ASSERT_EQ(madvise(memory->data(), memory->size(), MADV_DONTNEED), 0);
        }
    }
}

// When a flush is complete, the bytes of all earlier puts are in place.
TEST_P(TransferTest, FlushWaitsForPuts) {
    Pair pair(GetParam().settings(), 2 << 20);
    for (uint64_t round = 1; round <= 10; ++round) {
        const std::size_t length = pair.near_.size() / 8 - round;
        fill(pair.near_.part(0, pair.near_.size()), round);
        for (std::size_t i = 0; i < 8; ++i) {
            const uct_iov_t iov = pair.near_.iov(i * length, length);
            ASSERT_TRUE(accepted(pair.all_, [&] {
                return put_zcopy(pair.ep_, {&iov, 1}, pair.far_.remote().address + i * length,
                                 pair.key_, nullptr);
            }));
        }
        if (round % 2) {
            ASSERT_TRUE(flush_wait(pair.all_, pair.ep_));
        } else {
            ASSERT_TRUE(eventually(pair.all_, [&] {
                return uct_iface_flush(pair.a_.iface(), UCT_FLUSH_FLAG_LOCAL, nullptr) == UCS_OK;
            }));
        }
        ASSERT_TRUE(filled(pair.far_.part(0, 8 * length), round)) << round;
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, TransferTest, testing::ValuesIn(kWays), way_name);

// Rings of different lengths; either side has the shorter one.
TEST_F(TernTest, WindowsOfDifferentLengths) {
    for (const char* poll : {"memory", "cq"})
        for (const auto& [one, other] : {std::pair{"8k", "256k"}, {"1m", "5k"}}) {
            Entity a({{"RNDV_SCHEME", "superpipeline"}, {"POLL", poll}, {"RNDV_WINDOW", one}});
            Entity b({{"RNDV_SCHEME", "superpipeline"}, {"POLL", poll}, {"RNDV_WINDOW", other}});
            Declared near(a.host(), 1 << 20), far(b.host(), 1 << 20);
            const RemoteKey key(a.host(), far.remote());
            const Endpoint ep = a.connect(b);
            const auto list = pieces(near, 0, near.size(), 5);
            fill(near.part(0, near.size()), 1);
            ASSERT_STATUS(UCS_OK, put_wait({&a, &b}, ep, list, far.remote().address, key))
                << poll << one;
            EXPECT_TRUE(filled(far.part(0, far.size()), 1));
            fill(far.part(0, far.size()), 2);
            ASSERT_STATUS(UCS_OK, get_wait({&a, &b}, ep, list, far.remote().address, key))
                << poll << one;
            EXPECT_TRUE(filled(near.part(0, near.size()), 2));
        }
}

// Offsets of this message need more than 32 bits.
TEST_F(TernTest, MoreThanFourGigabytes) {
    constexpr std::size_t kLength = (std::size_t{4} << 30) + 12345;
    const auto available = static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)) *
                           static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    if (std::getenv("TERN_TEST_HUGE") == nullptr || available < kLength + (std::size_t{2} << 30))
        GTEST_SKIP() << "TERN_TEST_HUGE is not set, or memory is short";
    Entity a, b;
    // Almost all of the source is only read, as zeros, which takes no memory.
    Declared near(a.host(), kLength), far(b.host(), kLength);
    near.data()[kLength - 1] = std::byte{7};
    near.data()[std::size_t{4} << 30] = std::byte{8};
    const RemoteKey key(a.host(), far.remote());
    const Endpoint ep = a.connect(b);
    const uct_iov_t iov = near.iov(0, kLength);
    ASSERT_STATUS(UCS_OK, put_wait({&a, &b}, ep, {&iov, 1}, far.remote().address, key));
    EXPECT_EQ(far.data()[kLength - 1], std::byte{7});
    EXPECT_EQ(far.data()[std::size_t{4} << 30], std::byte{8});
}

}  // namespace transfer_test
}  // namespace uct_test
