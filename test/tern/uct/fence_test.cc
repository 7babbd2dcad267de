// SPDX-License-Identifier: BSD-3-Clause
// Operations issued after a fence must not become visible before operations issued before it, of
// any size and by any path.
#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <tuple>

#include "transfer.h"

namespace uct_test {
namespace {

constexpr std::size_t kLong = 4 << 20;
constexpr std::size_t kSizes[] = {8, 4000, 8192, 100'000, kLong};

enum class Way : uint8_t { kOpen, kDeclared };
unsigned rights(Way way) {
    return way == Way::kOpen ? unsigned{UCT_MD_MEM_ACCESS_ALL} : kRma;
}
const char* name(Way way) {
    return way == Way::kOpen ? "open" : "declared";
}

std::size_t copy_word(void* to, void* word) {
    std::memcpy(to, word, sizeof(uint64_t));
    return sizeof(uint64_t);
}

class FenceTest : public testing::Test {
  protected:
    struct Far {
        Far(Entity& user, Entity& owner, Way way)
            : memory(owner.host(), kLong, rights(way)), key(user.host(), memory.remote()) {}
        uint64_t address() const { return memory.remote().address; }
        uint64_t word() const {
            return reinterpret_cast<const std::atomic<uint64_t>*>(memory.data())
                ->load(std::memory_order_acquire);
        }

        Declared memory;
        RemoteKey key;
    };

    void SetUp() override {
        if (!a_.has(UCT_IFACE_FLAG_PUT_ZCOPY) || !a_.has(UCT_IFACE_FLAG_GET_ZCOPY))
            GTEST_SKIP() << "no long puts";
    }

    // Alternates between ep_fence and iface_fence.
    void fence() {
        if (++fences_ % 2 != 0) {
            EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
        } else {
            EXPECT_STATUS(UCS_OK, uct_iface_fence(a_.iface(), 0));
        }
    }
    ucs_status_t put(std::size_t length, const Far& far) {
        const uct_iov_t iov = near_.iov(0, length);
        return put_zcopy(ep_, {&iov, 1}, far.address(), far.key, &completions_.emplace_back());
    }
    ucs_status_t put_word(uint64_t word, const Far& far) {
        return put_short(ep_, {reinterpret_cast<const std::byte*>(&word), sizeof word},
                         far.address(), far.key);
    }
    testing::AssertionResult all_over() {
        testing::AssertionResult flushed = flush_wait(all_, ep_);
        completions_.clear();
        return flushed;
    }
    // A fence need not wait for the last put.
    testing::AssertionResult put_is_ordered() {
        return writes_in_order() ? testing::AssertionSuccess() : all_over();
    }
    void warm_up() {
        ASSERT_TRUE(accepted(all_, [&] { return put(64, *data_[0]); }));
        ASSERT_TRUE(accepted(all_, [&] { return put(64, *data_[1]); }));
        ASSERT_TRUE(all_over());
    }
    // Progresses until `visible` holds; the data must be there then.
    testing::AssertionResult comes_after(const Far& data, std::size_t length, uint64_t seed,
                                         const std::function<bool()>& visible) {
        if (!eventually(all_, visible)) return testing::AssertionFailure() << "it does not come";
        return filled(data.memory.part(0, length), seed);
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Declared near_{a_.host(), kLong};
    const std::unique_ptr<Far> data_[2] = {std::make_unique<Far>(a_, b_, Way::kOpen),
                                           std::make_unique<Far>(a_, b_, Way::kDeclared)};
    const std::unique_ptr<Far> flags_[2] = {std::make_unique<Far>(a_, b_, Way::kOpen),
                                            std::make_unique<Far>(a_, b_, Way::kDeclared)};
    Endpoint ep_ = a_.connect(b_);
    std::deque<Completion> completions_;
    unsigned fences_ = 0;
};

class FencedPutTest : public FenceTest,
                      public testing::WithParamInterface<std::tuple<Way, Way, std::size_t>> {
  protected:
    const std::size_t length_ = std::get<2>(GetParam());
    const Far& data_of_it_ = *data_[static_cast<int>(std::get<0>(GetParam()))];
    const Far& flag_ = *flags_[static_cast<int>(std::get<1>(GetParam()))];
    // Two of each kind of fence, also of long puts.
    const uint64_t rounds_ = length_ == kLong ? 4 : 10;
};

TEST_P(FencedPutTest, FlagComesAfterTheData) {
    warm_up();
    for (uint64_t i = 1; i <= rounds_; ++i) {
        fill(near_.part(0, length_), i);
        ASSERT_TRUE(accepted(all_, [&] { return put(length_, data_of_it_); }));
        fence();
        ASSERT_TRUE(accepted(all_, [&] {
            EXPECT_TRUE(flag_.word() != i);
            return put_word(i, flag_);
        }));
        ASSERT_TRUE(comes_after(data_of_it_, length_, i, [&] { return flag_.word() == i; }));
        ASSERT_TRUE(all_over());
    }
}

TEST_P(FencedPutTest, CopiedFlagComesAfterManyPuts) {
    warm_up();
    for (uint64_t i = 1; i <= rounds_; ++i) {
        fill(near_.part(0, length_), i);
        for (int k = 0; k < 3; ++k)
            ASSERT_TRUE(accepted(all_, [&] { return put(length_, data_of_it_); }));
        fence();
        fence();
        uint64_t word = i;
        ASSERT_TRUE(accepted(all_, [&] {
            const ssize_t sent =
                uct_ep_put_bcopy(ep_.get(), copy_word, &word, flag_.address(), flag_.key.get());
            return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
        }));
        ASSERT_TRUE(comes_after(data_of_it_, length_, i, [&] { return flag_.word() == i; }));
        ASSERT_TRUE(all_over());
    }
}

TEST_P(FencedPutTest, MessageComesAfterTheData) {
    warm_up();
    uint64_t seen = 0;
    b_.handle(1, [&](Bytes message) {
        std::memcpy(&seen, message.data(), sizeof seen);
        EXPECT_TRUE(filled(data_of_it_.memory.part(0, length_), seen));
    });
    for (uint64_t i = 1; i <= rounds_; ++i) {
        fill(near_.part(0, length_), i);
        ASSERT_TRUE(accepted(all_, [&] { return put(length_, data_of_it_); }));
        fence();
        ASSERT_TRUE(accepted(all_, [&] {
            if (i % 2 != 0) return uct_ep_am_short(ep_.get(), 1, i, nullptr, 0);
            return am_bcopy(ep_, 1, {reinterpret_cast<const std::byte*>(&i), sizeof i});
        }));
        ASSERT_TRUE(eventually(all_, [&] { return seen == i; }));
        ASSERT_TRUE(all_over());
    }
}

// The get must fetch the data from before the next put.
TEST_P(FencedPutTest, PutComesAfterTheGet) {
    warm_up();
    Declared into(a_.host(), kLong);
    for (uint64_t i = 1; i <= rounds_; ++i) {
        fill(data_of_it_.memory.part(0, length_), i);
        fill(near_.part(0, length_), i + 100);
        const uct_iov_t iov = into.iov(0, length_);
        Completion fetched;
        ASSERT_TRUE(accepted(all_, [&] {
            return get_zcopy(ep_, {&iov, 1}, data_of_it_.address(), data_of_it_.key, &fetched);
        }));
        fence();
        ASSERT_TRUE(accepted(all_, [&] { return put(length_, data_of_it_); }));
        ASSERT_TRUE(eventually(all_, [&] { return fetched.calls == 1; }));
        ASSERT_STATUS(UCS_OK, fetched.status);
        ASSERT_TRUE(filled(into.part(0, length_), i));
        ASSERT_TRUE(all_over());
        ASSERT_TRUE(filled(data_of_it_.memory.part(0, length_), i + 100));
    }
}

// The get must fetch the data of the put before it.
TEST_P(FencedPutTest, GetComesAfterThePut) {
    warm_up();
    Declared into(a_.host(), kLong);
    for (uint64_t i = 1; i <= rounds_; ++i) {
        fill(near_.part(0, length_), i);
        ASSERT_TRUE(accepted(all_, [&] { return put(length_, data_of_it_); }));
        fence();
        const uct_iov_t iov = into.iov(0, length_);
        Completion fetched;
        ASSERT_TRUE(accepted(all_, [&] {
            return get_zcopy(ep_, {&iov, 1}, data_of_it_.address(), data_of_it_.key, &fetched);
        }));
        ASSERT_TRUE(eventually(all_, [&] { return fetched.calls == 1; }));
        ASSERT_TRUE(filled(into.part(0, length_), i));
        ASSERT_TRUE(all_over());
    }
}

// Fences also order pending requests: those before a fence have not even begun when the fence is
// called.
TEST_P(FencedPutTest, PendingRequestsKeepToIt) {
    if (!is_tern()) GTEST_SKIP() << "only Tern has what is pending wait for its fences";
    fill_up(ep_, 2, pattern(0, 64));
    for (uint64_t i = 1; i <= 3; ++i) {
        fill(near_.part(0, length_), i);
        const auto done = [](ucs_status_t status) {
            return status == UCS_INPROGRESS ? UCS_OK : status;
        };
        Pending blocker([&] { return am_bcopy(ep_, 2, pattern(0, 64)); });
        Pending first([&] { return done(put(length_, data_of_it_)); });
        Pending second([&] { return done(put_word(i, flag_)); });
        Pending third([&] { return done(put_word(i + 1000, *flags_[0])); });
        while (uct_ep_pending_add(ep_.get(), &blocker, 0) == UCS_ERR_BUSY)
            fill_up(ep_, 2, pattern(0, 64));
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &first, 0));
        fence();
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &second, 0));
        fence();
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &third, 0));
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, put_word(7, flag_));
        ASSERT_TRUE(comes_after(data_of_it_, length_, i,
                                [&] { return flag_.word() == i || flag_.word() == i + 1000; }));
        ASSERT_TRUE(eventually(all_, [&] { return flags_[0]->word() == i + 1000; }));
        if (&flag_ != flags_[0].get()) {
            EXPECT_EQ(flag_.word(), i);
        }
        ASSERT_TRUE(all_over());
        fill_up(ep_, 2, pattern(0, 64));
    }
}

// A fence has nothing to wait for: the following operations are posted at once.
TEST_F(FenceTest, NothingOutstandingCostsNothing) {
    EXPECT_STATUS(UCS_OK, uct_ep_fence(ep_.get(), 0));
    EXPECT_STATUS(UCS_OK, uct_iface_fence(a_.iface(), 0));
    warm_up();
    for (int i = 0; i < 10; ++i) {
        fence();
        ASSERT_STATUS(UCS_OK, put_word(1, *flags_[0]));
        ASSERT_TRUE(put_is_ordered());
        fence();
        ASSERT_STATUS(UCS_OK, uct_ep_am_short(ep_.get(), 1, 0, nullptr, 0));
        fence();
        ASSERT_STATUS(UCS_OK, put_word(2, *flags_[0]));
        linger(all_, milliseconds(1));
        ASSERT_TRUE(put_is_ordered());
    }
}

// A purge removes pending requests, but no fence.
TEST_F(FenceTest, OutlivesAPurge) {
    warm_up();
    for (uint64_t i = 1; i <= 10; ++i) {
        fill(near_.part(0, kLong), i);
        ASSERT_TRUE(accepted(all_, [&] { return put(kLong, *data_[1]); }));
        fence();
        Pending request([] { return UCS_OK; });
        ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep_.get(), &request, 0));
        std::size_t purged = 0;
        uct_ep_pending_purge(
            ep_.get(), [](uct_pending_req_t*, void* count) { ++*static_cast<std::size_t*>(count); },
            &purged);
        EXPECT_EQ(purged, is_tern() ? 1u : purged);
        ASSERT_TRUE(accepted(all_, [&] { return put_word(i, *flags_[0]); }));
        ASSERT_TRUE(comes_after(*data_[1], kLong, i, [&] { return flags_[0]->word() == i; }));
        ASSERT_TRUE(all_over());
    }
}

// An endpoint may be destroyed while its fence waits.
TEST_F(FenceTest, EndsWithItsEndpoint) {
    warm_up();
    ASSERT_TRUE(accepted(all_, [&] { return put(kLong, *data_[1]); }));
    fence();
    const ucs_status_t refused = put_word(1, *flags_[0]);
    if (is_tern()) {
        EXPECT_STATUS(UCS_ERR_NO_RESOURCE, refused);
    }
    ep_.reset();
    ASSERT_TRUE(eventually(all_, [&] { return completions_.back().calls == 1; }));
    ep_ = a_.connect(b_);
    warm_up();
}

INSTANTIATE_TEST_SUITE_P(Ways, FencedPutTest,
                         testing::Combine(testing::Values(Way::kOpen, Way::kDeclared),
                                          testing::Values(Way::kOpen, Way::kDeclared),
                                          testing::ValuesIn(kSizes)),
                         [](const auto& test) {
                             return std::string(name(std::get<0>(test.param))) + "_" +
                                    name(std::get<1>(test.param)) + "_" +
                                    std::to_string(std::get<2>(test.param));
                         });

}  // namespace
}  // namespace uct_test
