// SPDX-License-Identifier: BSD-3-Clause
// Messages from the user's memory: what is sent, and when the memory may be reused.
#include <algorithm>
#include <numeric>

#include "message.h"

namespace uct_test {
namespace {

class ZcopyTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!a_.has(UCT_IFACE_FLAG_AM_ZCOPY)) GTEST_SKIP() << "no am_zcopy";
        b_.handle(1,
                  [this](Bytes message) { inbox_.emplace_back(message.begin(), message.end()); });
        std::ranges::copy(pattern(1, memory_.size()), memory_.data());
    }

    // Sends, waits for arrival and completion, and checks the message.
    void round_trip(Bytes header, const std::vector<uct_iov_t>& payload) {
        Completion completion;
        const std::size_t before = inbox_.size();
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(
            all_, [&] { return status = am_zcopy(ep_, 1, header, payload, &completion); }));
        ASSERT_TRUE(eventually(all_, [&] { return inbox_.size() == before + 1; }));
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(all_, [&] { return completion.calls > 0; }));
        }
        linger(all_, milliseconds(1));
        EXPECT_EQ(completion.calls, status == UCS_INPROGRESS ? 1 : 0);
        EXPECT_STATUS(UCS_OK, completion.status);
        std::vector<std::byte> expected(header.begin(), header.end());
        for (const uct_iov_t& piece : payload) {
            const auto* bytes = static_cast<const std::byte*>(piece.buffer);
            expected.insert(expected.end(), bytes, bytes + piece.length);
        }
        EXPECT_EQ(inbox_.back(), expected);
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Endpoint ep_ = a_.connect(b_);
    Memory memory_{a_.host(), 32 * 1024};
    std::vector<std::vector<std::byte>> inbox_;
};

// UCX sends empty pieces without a memory handle (UCX_ZCOPY_THRESH=0), or leaves it undefined (a
// request to receive with protocols v2).
TEST_F(ZcopyTest, PiecesOfNoBytesNeedNoHandle) {
    for (uct_mem_h undefined :
         {static_cast<uct_mem_h>(nullptr), reinterpret_cast<uct_mem_h>(0x551)}) {
        const uct_iov_t nothing{nullptr, 0, undefined, 0, 1};
        round_trip(pattern(2, 16), {nothing});
        round_trip(pattern(3, 16), {nothing, memory_.iov(100, 2000), nothing});
    }
}

TEST_F(ZcopyTest, AsManyPiecesAsAllowed) {
    for (std::size_t pieces = 1; pieces <= a_.attr().cap.am.max_iov; ++pieces) {
        std::vector<uct_iov_t> payload;
        // The pieces are not in order, not adjacent, and not aligned.
        for (std::size_t i = 0; i < pieces; ++i) {
            payload.push_back(memory_.iov((pieces - i) * 1000 + i, 100 + i));
        }
        round_trip(pattern(2, 16), payload);
        round_trip({}, payload);
    }
}

TEST_F(ZcopyTest, EmptyPiecesAreNotAccessed) {
    if (a_.attr().cap.am.max_iov < 3) GTEST_SKIP() << "few pieces";
    const uct_iov_t nothing{nullptr, 0, memory_.handle(), 0, 1};
    round_trip({}, {memory_.iov(0, 0), memory_.iov(10, 20), memory_.iov(5, 0)});
    round_trip({}, {nothing, memory_.iov(10, 20)});
}

TEST_F(ZcopyTest, HeaderOnly) {
    round_trip(pattern(3, 8), {});
    round_trip(pattern(3, 24), {memory_.iov(0, 0)});
    round_trip(pattern(3, std::min<std::size_t>(a_.attr().cap.am.max_hdr, kLongest)), {});
}

TEST_F(ZcopyTest, NothingAtAll) {
    round_trip({}, {});
    round_trip({}, {memory_.iov(0, 0)});
}

TEST_F(ZcopyTest, LongestHeaderWithPayload) {
    const std::size_t header = a_.attr().cap.am.max_hdr;
    const std::size_t room = a_.attr().cap.am.max_zcopy - header;
    for (const std::size_t length : {std::size_t{1}, room / 2, room}) {
        if (length > room) continue;
        round_trip(pattern(4, header), {memory_.iov(7, length)});
    }
}

TEST_F(ZcopyTest, HeaderIsTheUsersAtOnce) {
    std::vector<std::byte> header(16, std::byte{1});
    Completion completion;
    ucs_status_t status = UCS_OK;
    ASSERT_TRUE(accepted(all_, [&] {
        const uct_iov_t payload = memory_.iov(0, 512);
        status = am_zcopy(ep_, 1, header, {&payload, 1}, &completion);
        std::ranges::fill(header, std::byte{status == UCS_ERR_NO_RESOURCE});
        return status;
    }));
    const int calls = status == UCS_INPROGRESS;
    ASSERT_TRUE(eventually(all_, [&] { return inbox_.size() == 1 && completion.calls == calls; }));
    EXPECT_TRUE(std::all_of(inbox_[0].begin(), inbox_[0].begin() + 16,
                            [](std::byte byte) { return byte == std::byte{1}; }));
}

// One completion counts many operations.
TEST_F(ZcopyTest, CompletionCountsOperations) {
    constexpr int kOperations = 20;
    Completion completion(kOperations);
    int at_once = 0;
    for (int i = 0; i < kOperations; ++i) {
        EXPECT_EQ(completion.calls, 0);
        const uct_iov_t payload = memory_.iov(static_cast<std::size_t>(i) * 64, 1000);
        ASSERT_TRUE(accepted(all_, [&] {
            const ucs_status_t status = am_zcopy(ep_, 1, {}, {&payload, 1}, &completion);
            if (status == UCS_OK) ++at_once;
            return status;
        }));
    }
    // The caller has to count the operations that were complete at once.
    completion.count -= at_once;
    ASSERT_TRUE(
        eventually(all_, [&] { return completion.count == 0 && inbox_.size() == kOperations; }));
    EXPECT_EQ(completion.calls, at_once == kOperations ? 0 : 1);
}

TEST_F(ZcopyTest, WithoutCompletion) {
    const uct_iov_t payload = memory_.iov(0, 1000);
    ASSERT_TRUE(accepted(all_, [&] { return am_zcopy(ep_, 1, {}, {&payload, 1}, nullptr); }));
    ASSERT_TRUE(eventually(all_, [&] { return inbox_.size() == 1; }));
    EXPECT_TRUE(same(inbox_[0], pattern(1, 1000)));
}

// The memory must stay unchanged until the completion, and is not read afterwards.
TEST_F(ZcopyTest, BufferIsTheUsersAfterCompletion) {
    constexpr std::size_t kRounds = 500, kLength = 2048;
    for (std::size_t i = 0; i < kRounds; ++i) {
        std::ranges::copy(pattern(i, kLength), memory_.data());
        Completion completion;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] {
            const uct_iov_t payload = memory_.iov(0, kLength);
            return status = am_zcopy(ep_, 1, {}, {&payload, 1}, &completion);
        }));
        // In every second round only the sender progresses: the message must not need the memory.
        if (status == UCS_INPROGRESS) {
            ASSERT_TRUE(eventually(i % 2 && is_tern() ? Group{&a_} : all_,
                                   [&] { return completion.calls == 1; }));
        }
        std::fill_n(memory_.data(), kLength, std::byte{0xee});
        if (i % 8 == 7) {
            ASSERT_TRUE(eventually(all_, [&] { return inbox_.size() == i + 1; }));
        }
    }
    ASSERT_TRUE(eventually(all_, [&] { return inbox_.size() == kRounds; }));
    for (std::size_t i = 0; i < kRounds; ++i)
        EXPECT_TRUE(same(inbox_[i], pattern(i, kLength))) << i;
}

// A completion callback may send again.
TEST_F(ZcopyTest, CompletionSendsTheNext) {
    constexpr int kCount = 200;
    int sent = 0;
    bool stuck = true;
    Completion completion;
    const uct_iov_t payload = memory_.iov(0, 300);
    const auto send = [&] {
        while (sent < kCount) {
            completion.count = 1;
            const ucs_status_t status = am_zcopy(ep_, 1, {}, {&payload, 1}, &completion);
            stuck = status == UCS_ERR_NO_RESOURCE;
            if (stuck) return;
            ++sent;
            if (status == UCS_INPROGRESS) return;
        }
    };
    completion.then = send;
    ASSERT_TRUE(eventually(all_, [&] {
        if (stuck) send();
        return sent == kCount && inbox_.size() == kCount;
    }));
    ASSERT_TRUE(eventually(all_, [&] { return completion.count == 0; }));
}

}  // namespace
}  // namespace uct_test
