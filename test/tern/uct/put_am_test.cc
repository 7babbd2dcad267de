// SPDX-License-Identifier: BSD-3-Clause
// A put and its message, or its word, in one call: uct/put_am.h.
#include "tern/uct/put_am.h"

#include <config.h>  // UCX's

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "transfer.h"
#include "verbs_calls.h"

namespace uct_test {
namespace put_am_test {

constexpr std::size_t kSize = 4096;
constexpr uint8_t kId = 7, kOther = 8;

// The header of a message: its number, and what has been put before it.
struct Put {
    uint32_t number;
    uint16_t at, length;
};

// tern_uct_ep_put_am_short(), or that which copies.
using PutAm = decltype(&tern_uct_ep_put_am_short);
static_assert(std::is_same_v<PutAm, decltype(&tern_uct_ep_put_am_bcopy)>);

class PutAmTest : public TernTest {
  protected:
    void SetUp() override {
        short_ = reinterpret_cast<PutAm>(tern_function("tern_uct_ep_put_am_short"));
        ASSERT_NE(short_, nullptr);
        b_.handle(kOther, [this](Bytes) { ++others_; });
        b_.handle(kId, [this](Bytes message) {
            Put put{};
            ASSERT_GE(message.size(), sizeof(put));
            memcpy(&put, message.data(), sizeof(put));
            EXPECT_EQ(put.number, came_++);
            EXPECT_TRUE(same(message.subspan(sizeof(put)), pattern(put.number, kPayload)));
            EXPECT_TRUE(
                same({memory_.data() + put.at, put.length}, pattern(put.number + 1, put.length)));
        });
    }
    // The peer becomes one that many messages go to.
    void warm_up() {
        for (unsigned i = 1; i <= 200; ++i)
            ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, kOther, pattern(0, 8)); }));
        ASSERT_TRUE(eventually(all_, [&] { return others_ == 200; }));
        linger(all_, milliseconds(2));
    }
    ucs_status_t send(PutAm call, std::size_t at, std::size_t length, const RemoteKey& key) {
        const Bytes data = pattern(sent_ + 1, length), payload = pattern(sent_, kPayload);
        const ucs_status_t status =
            call(ep_.get(), data.data(), static_cast<unsigned>(length), remote_.address + at,
                 key.get(), kId, header(at, length), payload.data(), kPayload);
        sent_ += status == UCS_OK;
        return status;
    }
    // By the three functions, if it has to be so. Counts that.
    ucs_status_t send_anyhow(std::size_t at, std::size_t length) {
        const ucs_status_t status = send(short_, at, length, key_);
        return status == UCS_ERR_UNSUPPORTED ? send_by_three(at, length) : status;
    }
    // By a put, a fence and a message.
    ucs_status_t send_by_three(std::size_t at, std::size_t length) {
        const Bytes payload = pattern(sent_, kPayload);
        ucs_status_t status =
            put_short(ep_, pattern(sent_ + 1, length), remote_.address + at, key_);
        // Alternates between ep_fence and iface_fence.
        if (status == UCS_OK)
            status =
                ++by_three_ % 2 != 0 ? uct_ep_fence(ep_.get(), 0) : uct_iface_fence(a_.iface(), 0);
        if (status == UCS_OK)
            status = uct_ep_am_short(ep_.get(), kId, header(at, length), payload.data(), kPayload);
        sent_ += status == UCS_OK;
        return status;
    }
    uint64_t header(std::size_t at, std::size_t length) const {
        const Put put{sent_, static_cast<uint16_t>(at), static_cast<uint16_t>(length)};
        uint64_t word;
        memcpy(&word, &put, sizeof(word));
        return word;
    }

    static constexpr unsigned kPayload = 32;
    PutAm short_ = nullptr;
    Entity a_, b_;
    const Group all_{&a_, &b_};
    Memory memory_{b_.host(), kSize};
    Remote remote_ = describe(b_.host(), memory_);
    RemoteKey key_{a_.host(), remote_};
    Endpoint ep_ = a_.connect(b_);
    uint32_t sent_ = 0, came_ = 0, by_three_ = 0;
    unsigned others_ = 0;
};

TEST_F(PutAmTest, DataAreThereBeforeTheirMessage) {
    NEEDS_BLOCKS();
    warm_up();
    for (unsigned i = 0; i < 20000; ++i) {
        const std::size_t length = i % (a_.attr().cap.put.max_short + 1);
        ASSERT_TRUE(accepted(all_, [&] { return send_anyhow(i * 64 % (kSize - 512), length); }));
        // The next put must not overtake the handler's look.
        ASSERT_TRUE(eventually(all_, [&] { return came_ == sent_; }));
    }
    EXPECT_LT(by_three_, 2000u);
}

// Some of them by the block, where they would be seen before a put that is under way.
TEST_F(PutAmTest, DataAreThereBeforeAMessageBehindAFence) {
    NEEDS_BLOCKS();
    warm_up();
    for (unsigned i = 0; i < 2000; ++i) {
        for (unsigned others = i % 3; others != 0; --others)
            ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, kOther, pattern(0, 8)); }));
        const std::size_t length = i % (a_.attr().cap.put.max_short + 1);
        ASSERT_TRUE(accepted(all_, [&] { return send_by_three(i * 64 % (kSize - 512), length); }));
        ASSERT_TRUE(eventually(all_, [&] { return came_ == sent_; }));
    }
}

TEST_F(PutAmTest, DoesNothingIfItIsNotTheUsualCase) {
    NEEDS_BLOCKS();
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, send(short_, 0, 8, key_)) << "a new peer";
    warm_up();
    Declared closed(b_.host(), kSize);
    const RemoteKey closed_key(a_.host(), closed.remote());
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, send(short_, 0, 8, closed_key)) << "memory that is not open";
    // A long put that has begun may be overtaken.
    Declared near(a_.host(), 1 << 20), far(b_.host(), 1 << 20);
    const RemoteKey far_key(a_.host(), far.remote());
    const uct_iov_t iov = near.iov(0, 1 << 20);
    Completion completion;
    ASSERT_STATUS(UCS_INPROGRESS,
                  put_zcopy(ep_, {&iov, 1}, far.remote().address, far_key, &completion));
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, send(short_, 0, 8, key_));
    ASSERT_TRUE(eventually(all_, [&] { return completion.calls == 1; }));
    linger(all_, milliseconds(2));
    EXPECT_EQ(came_, 0u);
    EXPECT_STATUS(UCS_OK, send(short_, 0, 8, key_));
    EXPECT_TRUE(eventually(all_, [&] { return came_ == 1; }));
}

TEST_F(PutAmTest, ManyWhileThePeerIsAway) {
    NEEDS_BLOCKS();
    warm_up();
    for (int round = 0; round < 5; ++round) {
        // The peer allows messages again.
        ASSERT_TRUE(eventually(all_, [&] { return send(short_, 0, 0, key_) == UCS_OK; }));
        const uint32_t before = sent_, others = by_three_;
        while (send_anyhow(0, 0) == UCS_OK) progress({&a_});
        EXPECT_GT(sent_ - before, 2 * (by_three_ - others)) << "of them by three functions";
        ASSERT_TRUE(eventually(all_, [&] { return came_ == sent_; }));
        linger(all_, milliseconds(2));
    }
}

// Counts the calls that post to the device, by which programs ring its doorbell, and the work
// requests.
class Doorbells {
  public:
    Doorbells() : context_(*last_context.load()) {
        rung_ = requests_ = 0;
        post_ = std::exchange(context_.ops.post_send, post);
    }
    ~Doorbells() { context_.ops.post_send = post_; }
    Doorbells(const Doorbells&) = delete;
    Doorbells& operator=(const Doorbells&) = delete;

    static unsigned rung() { return rung_; }
    static unsigned requests() { return requests_; }

  private:
    static int post(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** bad) {
        ++rung_;
        for (const ibv_send_wr* each = first; each != nullptr; each = each->next) ++requests_;
        return post_(qp, first, bad);
    }

    static inline unsigned rung_ = 0;
    static inline unsigned requests_ = 0;
    static inline int (*post_)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
    ibv_context& context_;
};

// A put of more bytes than go inline.
class PutAmLongTest : public PutAmTest {
  protected:
    void SetUp() override {
        PutAmTest::SetUp();
        copy_ = reinterpret_cast<PutAm>(tern_function("tern_uct_ep_put_am_bcopy"));
        in_place_ =
            reinterpret_cast<decltype(in_place_)>(tern_function("tern_uct_ep_put_am_zcopy"));
        ASSERT_TRUE(copy_ != nullptr && in_place_ != nullptr);
    }
    // Counts a message that was sent.
    ucs_status_t in_place(std::size_t at, std::size_t length, Completion& completion) {
        const Bytes data = pattern(sent_ + 1, length), payload = pattern(sent_, kPayload);
        memcpy(near_.data(), data.data(), length);
        const uct_iov_t iov = near_.iov(0, length);
        const ucs_status_t status =
            in_place_(ep_.get(), &iov, remote_.address + at, key_.get(), kId, header(at, length),
                      payload.data(), kPayload, &completion);
        sent_ += !UCS_STATUS_IS_ERR(status);
        return status;
    }

    PutAm copy_ = nullptr;
    decltype(&tern_uct_ep_put_am_zcopy) in_place_ = nullptr;
    Memory near_{a_.host(), kSize};
};

TEST_F(PutAmLongTest, RingsOneDoorbell) {
    NEEDS_BLOCKS();
    warm_up();
    const auto longest = static_cast<std::size_t>(a_.attr().cap.put.max_short);
    unsigned in_place = 0, copies = 0;
    for (unsigned i = 0; i < 2000; ++i) {
        const std::size_t length = longest + 1 + i % (3000 - longest);
        Completion completion;
        ucs_status_t status;
        {
            const Doorbells doorbells;
            status = i % 2 == 0 ? this->in_place(i % 512 * 2, length, completion)
                                : send(copy_, i % 512 * 2, length, key_);
            EXPECT_EQ(Doorbells::rung(), UCS_STATUS_IS_ERR(status) ? 0u : 1u);
        }
        in_place += status == UCS_INPROGRESS;
        copies += status == UCS_OK;
        // Now and then, a completion is due, or the peer allows no more messages.
        if (UCS_STATUS_IS_ERR(status)) {
            ASSERT_STATUS(UCS_ERR_UNSUPPORTED, status);
            ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, kOther, pattern(0, 8)); }));
            progress(all_);
            continue;
        }
        ASSERT_TRUE(eventually(
            all_, [&] { return came_ == sent_ && (status == UCS_OK || completion.calls == 1); }));
    }
    EXPECT_GT(in_place, 300u);
    EXPECT_GT(copies, 500u);
}

TEST_F(PutAmLongTest, DoesNothingIfItIsNotTheUsualCase) {
    NEEDS_BLOCKS();
    Completion completion;
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, send(copy_, 0, 500, key_)) << "a new peer";
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, in_place(0, 2000, completion)) << "a new peer";
    warm_up();
    std::vector<std::byte> many(1 << 20);
    const uct_iov_t foreign{many.data(), many.size(), nullptr, 0, 1};
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, in_place_(ep_.get(), &foreign, remote_.address, key_.get(),
                                                 kId, 0, nullptr, 0, &completion))
        << "memory that is not pinned, and too long for a copy";
    linger(all_, milliseconds(2));
    EXPECT_EQ(came_, 0u);
    EXPECT_STATUS(UCS_OK, send(copy_, 0, 500, key_));
    EXPECT_STATUS(UCS_OK, in_place(512, 400, completion)) << "so few bytes are copied";
    EXPECT_TRUE(eventually(all_, [&] { return came_ == 2; }));
    EXPECT_EQ(completion.calls, 0);
    EXPECT_STATUS(UCS_INPROGRESS, in_place(1000, 2000, completion));
    EXPECT_TRUE(eventually(all_, [&] { return came_ == 3 && completion.calls == 1; }));
}

// A put and a word behind it.
class PutWordTest : public PutAmTest {
  protected:
    void SetUp() override {
        PutAmTest::SetUp();
        put_word_ =
            reinterpret_cast<decltype(put_word_)>(tern_function("tern_uct_ep_put_word_short"));
        ASSERT_NE(put_word_, nullptr);
    }
    ucs_status_t put_word(std::size_t at, std::size_t length, std::size_t word_at, uint64_t word,
                          const RemoteKey& key) {
        const Bytes data = pattern(word, length);
        return put_word_(ep_.get(), data.data(), static_cast<unsigned>(length),
                         remote_.address + at, key.get(), remote_.address + word_at, word);
    }
    uint64_t word_at(std::size_t at) {
        return __atomic_load_n(reinterpret_cast<const uint64_t*>(memory_.data() + at),
                               __ATOMIC_ACQUIRE);
    }
    decltype(&tern_uct_ep_put_word_short) put_word_ = nullptr;
};

TEST_F(PutWordTest, DataAreThereBeforeTheWord) {
    warm_up();
    const std::size_t most = a_.attr().cap.put.max_short - 8;
    unsigned by_three = 0;
    for (uint64_t i = 1; i <= 5000; ++i) {
        const std::size_t length = i % (most + 1);
        // Directly behind the data, and elsewhere.
        const std::size_t begin = i % 3 == 0 ? 128 : 2048 - length;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] {
            status = put_word(begin, length, 2048, i, key_);
            return status == UCS_ERR_UNSUPPORTED ? UCS_OK : status;
        }));
        if (status == UCS_ERR_UNSUPPORTED) {
            // A completion is due, which a single put asks for.
            ++by_three;
            ASSERT_TRUE(accepted(
                all_, [&] { return put_short(ep_, pattern(i, 8), remote_.address + 3000, key_); }));
            progress(all_);
            continue;
        }
        // The peer makes no progress.
        ASSERT_TRUE(eventually({&a_}, [&] { return word_at(2048) == i; }));
        ASSERT_TRUE(same({memory_.data() + begin, length}, pattern(i, length)));
        if (i % 16 == 0) progress(all_);
    }
    EXPECT_LT(by_three, 2500u);
}

TEST_F(PutWordTest, DoesNothingIfItIsNotTheUsualCase) {
    Declared closed(b_.host(), kSize);
    const RemoteKey closed_key(a_.host(), closed.remote());
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, put_word(0, 8, 8, 1, key_)) << "a new peer";
    warm_up();
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, put_word(0, 8, 8, 1, closed_key)) << "memory not open";
    linger(all_, milliseconds(2));
    EXPECT_EQ(word_at(8), 0u);
    EXPECT_STATUS(UCS_OK, put_word(0, 8, 8, 7, key_));
    EXPECT_TRUE(eventually(all_, [&] { return word_at(8) == 7; }));
}

// Words behind more bytes than go inline.
class PutWordLongTest : public PutWordTest {
  protected:
    void SetUp() override {
        PutWordTest::SetUp();
        copy_ = reinterpret_cast<decltype(copy_)>(tern_function("tern_uct_ep_put_word_bcopy"));
        in_place_ =
            reinterpret_cast<decltype(in_place_)>(tern_function("tern_uct_ep_put_word_zcopy"));
        ASSERT_TRUE(copy_ != nullptr && in_place_ != nullptr);
    }
    // With the word at 4088.
    ucs_status_t copy(std::size_t at, std::size_t length, uint64_t word) {
        const Bytes data = pattern(word, length);
        return copy_(ep_.get(), data.data(), static_cast<unsigned>(length), remote_.address + at,
                     key_.get(), remote_.address + kWordAt, word);
    }
    ucs_status_t in_place(std::size_t at, std::size_t length, uint64_t word,
                          Completion& completion) {
        const Bytes data = pattern(word, length);
        memcpy(near_.data(), data.data(), length);
        const uct_iov_t iov = near_.iov(0, length);
        return in_place_(ep_.get(), &iov, remote_.address + at, key_.get(),
                         remote_.address + kWordAt, word, &completion);
    }

    static constexpr std::size_t kWordAt = kSize - 8;
    decltype(&tern_uct_ep_put_word_bcopy) copy_ = nullptr;
    decltype(&tern_uct_ep_put_word_zcopy) in_place_ = nullptr;
    Memory near_{a_.host(), kSize};
};

TEST_F(PutWordLongTest, IsOneWriteIfTheWordIsBehindTheData) {
    NEEDS_BLOCKS();
    warm_up();
    const auto longest = static_cast<std::size_t>(a_.attr().cap.put.max_short);
    unsigned in_place = 0, copies = 0, by_one = 0;
    for (uint64_t i = 1; i <= 3000; ++i) {
        const std::size_t length = i % 3 == 0 ? 1 + i % longest : longest + 1 + i % 3500;
        const bool behind = i % 4 != 0;
        const std::size_t begin = behind ? kWordAt - length : 8;
        Completion completion;
        ucs_status_t status;
        {
            const Doorbells doorbells;
            status =
                i % 2 == 0 ? copy(begin, length, i) : this->in_place(begin, length, i, completion);
            if (!UCS_STATUS_IS_ERR(status)) {
                EXPECT_EQ(Doorbells::rung(), 1u);
                // A packet might end within a word that is not at a multiple of 8 of the data's.
                const bool one = behind && (begin % 8 == 0 || length + 8 <= longest);
                EXPECT_EQ(Doorbells::requests(), one ? 1u : 2u) << begin << ", " << length;
                by_one += one;
            }
        }
        in_place += status == UCS_INPROGRESS;
        copies += status == UCS_OK;
        if (UCS_STATUS_IS_ERR(status)) {  // a completion is due
            ASSERT_STATUS(UCS_ERR_UNSUPPORTED, status);
            ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, kOther, pattern(0, 8)); }));
            linger(all_, milliseconds(1));
            continue;
        }
        // The peer makes no progress.
        ASSERT_TRUE(eventually({&a_}, [&] { return word_at(kWordAt) == i; }));
        ASSERT_TRUE(same({memory_.data() + begin, length}, pattern(i, length)));
        ASSERT_TRUE(eventually({&a_}, [&] { return status == UCS_OK || completion.calls == 1; }));
        if (i % 16 == 0) progress(all_);
    }
    EXPECT_GT(in_place, 500u);
    EXPECT_GT(copies, 500u);
    EXPECT_GT(by_one, 300u);
}

TEST_F(PutWordLongTest, ManyAtATime) {
    warm_up();
    constexpr unsigned kMany = 100;
    for (unsigned round = 0; round < 20; ++round) {
        std::vector<Completion> completions(kMany);
        unsigned pending = 0, word = 0;
        for (unsigned i = 0; i < kMany; ++i) {
            const ucs_status_t status = in_place(kWordAt - 2048, 2048, i + 1, completions[i]);
            if (status == UCS_ERR_UNSUPPORTED) break;
            ASSERT_STATUS(UCS_INPROGRESS, status);
            ++pending;
            word = i + 1;
        }
        ASSERT_GT(pending, 30u);
        for (unsigned i = 0; i < pending; ++i)
            ASSERT_TRUE(eventually(all_, [&] { return completions[i].calls == 1; }));
        EXPECT_EQ(word_at(kWordAt), word);
    }
}

TEST_F(PutWordLongTest, DoesNothingIfItIsNotTheUsualCase) {
    Completion completion;
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, copy(0, 500, 1)) << "a new peer";
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, in_place(0, 2000, 1, completion)) << "a new peer";
    warm_up();
    std::vector<std::byte> many(1 << 20);
    const uct_iov_t foreign{many.data(), many.size(), nullptr, 0, 1};
    EXPECT_STATUS(UCS_ERR_UNSUPPORTED, in_place_(ep_.get(), &foreign, remote_.address, key_.get(),
                                                 remote_.address + kWordAt, 1, &completion))
        << "memory that is not pinned, and too long for a copy";
    linger(all_, milliseconds(2));
    EXPECT_EQ(word_at(kWordAt), 0u);
    EXPECT_STATUS(UCS_OK, in_place(512, 400, 2, completion)) << "so few bytes are copied";
    EXPECT_TRUE(eventually(all_, [&] { return word_at(kWordAt) == 2; }));
    EXPECT_EQ(completion.calls, 0);
}

TEST_F(PutAmTest, WrongUse) {
    if (!ENABLE_PARAMS_CHECK) GTEST_SKIP() << "UCX was built without checks of parameters";
    warm_up();
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, send(short_, 0, a_.attr().cap.put.max_short + 1, key_));
    linger(all_);
    EXPECT_EQ(came_, 0u);
}

}  // namespace put_am_test
}  // namespace uct_test
