// SPDX-License-Identifier: BSD-3-Clause
// Puts whose messages repeat earlier ones: each is one write with immediate data.
#include <config.h>  // UCX's

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "sleeper.h"
#include "tern/uct/put_am.h"
#include "transfer.h"

namespace uct_test {
namespace put_repeat_test {

constexpr std::size_t kSize = 4096;
constexpr uint8_t kId = 7, kOther = 8;
constexpr uint64_t kHeader = 0x0102030405060708;

class PutRepeatTest : public TernTest {
  protected:
    explicit PutRepeatTest(const Settings& settings = {{"put_repeat", "1"}}) : a_(settings) {}
    void SetUp() override {
        short_ = reinterpret_cast<decltype(short_)>(tern_function("tern_uct_ep_put_am_short"));
        copy_ = reinterpret_cast<decltype(copy_)>(tern_function("tern_uct_ep_put_am_bcopy"));
        in_place_ =
            reinterpret_cast<decltype(in_place_)>(tern_function("tern_uct_ep_put_am_zcopy"));
        ASSERT_TRUE(short_ != nullptr && copy_ != nullptr && in_place_ != nullptr);
        b_.handle(kOther, [this](Bytes message) { log(message, 0); });
        b_.handle(kId, [this](Bytes message) { log(message, 4 * sizeof(uint64_t)); });
    }
    // What has come must be what was sent, in order.
    void log(Bytes message, std::size_t at) {
        uint64_t header, value;
        ASSERT_GE(message.size(), at + sizeof value);
        memcpy(&header, message.data(), sizeof header);
        memcpy(&value, message.data() + at, sizeof value);
        ASSERT_LT(came_, sent_.size());
        if (at != 0) {
            EXPECT_EQ(header, kHeader);
        }
        EXPECT_EQ(value, sent_[came_]) << came_;
        ++came_;
    }
    // Returns what the function returns.
    ucs_status_t put(std::size_t length, uint64_t place, uint64_t value,
                     Completion* completion = nullptr) {
        const Bytes data = pattern(value, length);
        memcpy(near_.data(), data.data(), length);
        const std::array<uint64_t, 4> payload{1, length, place, value};
        const uct_iov_t iov = near_.iov(0, length);
        const auto call = length <= a_.attr().cap.put.max_short ? short_ : copy_;
        const ucs_status_t status =
            completion != nullptr
                ? in_place_(ep_.get(), &iov, remote_.address, key_.get(), kId, kHeader,
                            payload.data(), sizeof payload, completion)
                : call(ep_.get(), near_.data(), static_cast<unsigned>(length), remote_.address,
                       key_.get(), kId, kHeader, payload.data(), sizeof payload);
        if (!UCS_STATUS_IS_ERR(status)) sent_.push_back(value);
        return status;
    }
    // As a program would: by the two functions if it has to be so.
    ucs_status_t put_anyhow(std::size_t length, uint64_t place, uint64_t value) {
        ucs_status_t status = put(length, place, value);
        if (status != UCS_ERR_UNSUPPORTED) return status;
        const std::array<uint64_t, 4> payload{1, length, place, value};
        status = uct_ep_am_short(ep_.get(), kId, kHeader, payload.data(), sizeof payload);
        if (status == UCS_OK) sent_.push_back(value);
        return status;
    }
    bool all_came() const { return came_ == sent_.size(); }
    // Closes both.
    std::array<Counters, 2> count() {
        ep_.reset();
        return {a_.close_and_count(), b_.close_and_count()};
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Memory memory_{b_.host(), kSize};
    Memory near_{a_.host(), kSize};
    Remote remote_ = describe(b_.host(), memory_);
    RemoteKey key_{a_.host(), remote_};
    Endpoint ep_ = a_.connect(b_);
    decltype(&tern_uct_ep_put_am_short) short_ = nullptr, copy_ = nullptr;
    decltype(&tern_uct_ep_put_am_zcopy) in_place_ = nullptr;
    std::vector<uint64_t> sent_;
    std::size_t came_ = 0;
};

class NoRepeatTest : public PutRepeatTest {
  protected:
    NoRepeatTest() : PutRepeatTest({{"put_repeat", "0"}}) {}
};

TEST_F(PutRepeatTest, AreOneWriteEach) {
    for (uint64_t i = 0; i < 5000; ++i) {
        ASSERT_TRUE(accepted(all_, [&] { return put_anyhow(8 + i % 3 * 500, 3, i); }));
        ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
    }
    const auto [sender, receiver] = count();
    EXPECT_GT(sender["put_repeated"], 4500u) << sender.json();
    EXPECT_LT(sender["sent_hot"] + sender["sent_cold"], 1500u) << sender.json();
}

TEST_F(PutRepeatTest, ReadMemoryInPlace) {
    NEEDS_BLOCKS();
    for (uint64_t i = 0; i < 300; ++i) {
        Completion completion;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] {
            status = put(3000, 3, i, &completion);
            if (status == UCS_ERR_UNSUPPORTED) return put_anyhow(8, 9, i * 1000);
            return status == UCS_INPROGRESS ? UCS_OK : status;
        }));
        ASSERT_TRUE(eventually(
            all_, [&] { return all_came() && (status != UCS_INPROGRESS || completion.calls); }));
    }
    const auto [sender, receiver] = count();
    EXPECT_GT(sender["put_repeated"], 150u) << sender.json();
}

TEST_F(PutRepeatTest, KeepTheOrderAmongMessages) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 20000; ++i, value += i % 700 == 0 ? 1000 : 1) {
        const bool repeats = i % 50 < 30 || i % 3 == 0;
        ASSERT_TRUE(accepted(all_, [&] {
            if (repeats) return put_anyhow(8, i % 2, value);
            const ucs_status_t status = am_short(
                ep_, kOther, Bytes(reinterpret_cast<const std::byte*>(&value), sizeof value));
            if (status == UCS_OK) sent_.push_back(value);
            return status;
        }));
        if (i % 11 == 0) progress(all_);
    }
    ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
    const auto [sender, receiver] = count();
    EXPECT_GT(sender["put_repeated"], 500u) << sender.json();
}

// A peer that takes nothing gets no more than it has allowed; the rest goes as before.
TEST_F(PutRepeatTest, ManyWhileThePeerIsAway) {
    NEEDS_BLOCKS();
    uint64_t value = 0;
    for (unsigned i = 0; i < 300; ++i, ++value) {
        ASSERT_TRUE(accepted(all_, [&] { return put_anyhow(8, 3, value); }));
        ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
    }
    for (int round = 0; round < 5; ++round) {
        const std::size_t before = sent_.size();
        // All that is posted arrives without the peer, so what waits for that goes on.
        for (unsigned i = 0; i < 40; ++i, ++value)
            ASSERT_TRUE(accepted({&a_}, [&] { return put_anyhow(8, 3, value); }));
        EXPECT_EQ(sent_.size() - before, 40u);
        ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
        linger(all_, milliseconds(2));
    }
}

TEST_F(NoRepeatTest, AreTwoWritesIfTheSettingSaysSo) {
    for (uint64_t i = 0; i < 300; ++i) {
        ASSERT_TRUE(accepted(all_, [&] { return put_anyhow(8, 3, i); }));
        ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
    }
    EXPECT_EQ(count()[0]["put_repeated"], 0u);
}

// The peer sleeps: the write wakes it.
TEST_F(PutRepeatTest, WakeAPeer) {
    const int fd = event_fd(b_);
    for (uint64_t i = 0; i < 300; ++i) {
        while (uct_iface_event_arm(b_.iface(), kBoth) == UCS_ERR_BUSY) b_.progress();
        ASSERT_TRUE(accepted({&a_}, [&] { return put_anyhow(8, 3, i); }));
        ASSERT_TRUE(wakes(fd, deadline())) << i;
        ASSERT_TRUE(eventually(all_, [&] { return all_came(); }));
    }
}

}  // namespace put_repeat_test
}  // namespace uct_test
