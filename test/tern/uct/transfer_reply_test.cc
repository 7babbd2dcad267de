// SPDX-License-Identifier: BSD-3-Clause
// Active messages that travel with the end of a get: the functions of uct/ucp_interface.h.
#include "tern/uct/ucp_interface.h"

#include <string>
#include <vector>

#include "transfer.h"

namespace uct_test {
namespace transfer_reply_test {

constexpr std::size_t kSize = 300000;
constexpr uint8_t kId = 9;

template <class Function>
Function* function(const char* name) {
    void* const found = tern_function(name);
    if (found == nullptr) fail(name);
    return reinterpret_cast<Function*>(found);
}

// An interface with memory, and what its handler has been told.
struct Side {
    explicit Side(const Settings& settings, unsigned rights = kRma)
        : entity(settings), memory(entity.host(), kSize, rights) {
        entity.handle(kId, [this](Bytes bytes) {
            messages.emplace_back(bytes.begin(), bytes.end());
            if (then) then();
        });
    }

    Entity entity;
    Declared memory;
    std::vector<std::vector<std::byte>> messages;
    std::function<void()> then;
};

class ReplyTest : public TernTest, public testing::WithParamInterface<const char*> {
  protected:
    const Settings settings_{{"RNDV_SCHEME", GetParam()}};

    // A get with an offer. Returns whether the get has taken the offer; waits for its end.
    bool get(Side& near, Side& far, const Endpoint& ep, const RemoteKey& key, std::size_t length,
             std::size_t offered, Bytes reply, ucs_status_t* result = nullptr) {
        const Group all{&near.entity, &far.entity};
        const uct_iov_t iov = near.memory.iov(0, length);
        Completion completion;
        bool taken = false;
        ucs_status_t status = UCS_OK;
        EXPECT_TRUE(accepted(all, [&] {
            offer_(ep.get(), kId, reply.data(), static_cast<unsigned>(reply.size()), offered,
                   nullptr);
            status = get_zcopy(ep, {&iov, 1}, far.memory.remote().address, key, &completion);
            taken = taken_(ep.get()->iface) != 0;
            EXPECT_TRUE(!taken || status == UCS_INPROGRESS);
            EXPECT_EQ(taken_(ep.get()->iface), 0) << "said once";
            return status;
        }));
        EXPECT_TRUE(eventually(all, [&] { return status == UCS_OK || completion.calls != 0; }));
        linger(all, milliseconds(2));
        if (result != nullptr) *result = completion.status;
        return taken;
    }
    bool get_all(Side& near, Side& far, const Endpoint& ep, const RemoteKey& key) {
        return get(near, far, ep, key, kSize, kSize, pattern(1, 17));
    }

    decltype(tern_offer_reply)* offer_ = nullptr;
    decltype(tern_reply_taken)* taken_ = nullptr;

    void SetUp() override {
        TernTest::SetUp();
        if (IsSkipped()) return;
        offer_ = function<decltype(tern_offer_reply)>("tern_offer_reply");
        taken_ = function<decltype(tern_reply_taken)>("tern_reply_taken");
    }
};

// Either side gets, over one connection, whichever side has begun it.
TEST_P(ReplyTest, ReachesTheHandlerAfterTheBytes) {
    for (const bool a_first : {true, false}) {
        Side a(settings_), b(settings_);
        const Endpoint to_b = a.entity.connect(b.entity), to_a = b.entity.connect(a.entity);
        const RemoteKey key_b(a.entity.host(), b.memory.remote());
        const RemoteKey key_a(b.entity.host(), a.memory.remote());
        for (unsigned round = 0; round < 8; ++round)
            for (const bool first : {true, false}) {
                const bool by_a = first == a_first;
                Side& near = by_a ? a : b;
                Side& far = by_a ? b : a;
                const std::size_t length = round % 2 != 0 ? kSize : 1 + round * 3000;
                const Bytes reply = pattern(round, std::size_t{17} + round % 3 * 7);
                fill(far.memory.part(0, kSize), round + 1);
                fill(near.memory.part(0, kSize), 100);
                far.then = [&] {
                    EXPECT_TRUE(filled(near.memory.part(0, length), round + 1)) << round;
                };
                ASSERT_TRUE(get(near, far, by_a ? to_b : to_a, by_a ? key_b : key_a, length, length,
                                reply));
                ASSERT_EQ(far.messages.size(), 1u) << round;
                EXPECT_TRUE(same(far.messages[0], reply));
                EXPECT_TRUE(near.messages.empty());
                far.messages.clear();
            }
    }
}

TEST_P(ReplyTest, IsCounted) {
    Side a(settings_), b(settings_);
    Endpoint ep = a.entity.connect(b.entity);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(get_all(a, b, ep, key));
    EXPECT_EQ(b.messages.size(), 3u);
    ep.reset();
    linger({&a.entity, &b.entity}, milliseconds(5));
    EXPECT_EQ(a.entity.close_and_count()["rndv_replies"], 3u);
    EXPECT_EQ(b.entity.close_and_count()["rndv_replies"], 0u);
}

TEST_P(ReplyTest, IsNotTakenForOpenMemory) {
    Side a(settings_), b(settings_, UCT_MD_MEM_ACCESS_ALL);
    const Endpoint ep = a.entity.connect(b.entity);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    EXPECT_FALSE(get_all(a, b, ep, key));
    EXPECT_TRUE(b.messages.empty());
}

// An older Tern does not set this flag in its keys.
TEST_P(ReplyTest, IsNotTakenForAPeerThatKnowsNone) {
    Side a(settings_), b(settings_);
    const Endpoint ep = a.entity.connect(b.entity);
    Remote old = b.memory.remote();
    EXPECT_NE(old.key[12] & std::byte{2}, std::byte{});
    old.key[12] &= ~std::byte{2};
    const RemoteKey key(a.entity.host(), old), own(a.entity.host(), b.memory.remote());
    EXPECT_FALSE(get_all(a, b, ep, key));
    EXPECT_TRUE(b.messages.empty());
    EXPECT_TRUE(get_all(a, b, ep, own));
    EXPECT_EQ(b.messages.size(), 1u);
}

TEST_P(ReplyTest, IsOnlyForTheGetThatIsMeant) {
    Side a(settings_), b(settings_);
    const Endpoint ep = a.entity.connect(b.entity), other = a.entity.connect(b.entity);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    const Group all{&a.entity, &b.entity};
    const Bytes reply = pattern(1, 17);
    EXPECT_FALSE(get(a, b, ep, key, kSize, kSize - 1, reply)) << "another length";
    EXPECT_FALSE(get(a, b, ep, key, 0, 0, reply)) << "nothing to get";
    EXPECT_FALSE(get(a, b, ep, key, kSize, kSize, pattern(1, 33))) << "too long";
    const uct_iov_t iov = a.memory.iov(0, kSize);
    const uint64_t from = b.memory.remote().address;
    offer_(ep.get(), 32, reply.data(), 17, kSize, nullptr);
    ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, from, key));
    EXPECT_EQ(taken_(ep.get()->iface), 0) << "no such id";
    const uct_completion_t stranger{};
    offer_(ep.get(), kId, reply.data(), 17, kSize, &stranger);
    ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, from, key));
    EXPECT_EQ(taken_(ep.get()->iface), 0) << "another completion";
    offer_(other.get(), kId, reply.data(), 17, kSize, nullptr);
    ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, from, key));
    EXPECT_EQ(taken_(ep.get()->iface), 0) << "another endpoint";
    ASSERT_STATUS(UCS_OK, get_wait(all, other, {&iov, 1}, from, key));
    EXPECT_EQ(taken_(other.get()->iface), 0) << "the offer has been withdrawn";
    offer_(ep.get(), kId, reply.data(), 17, kSize, nullptr);
    ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, from, key));
    ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, from, key));
    EXPECT_NE(taken_(ep.get()->iface), 0);
    EXPECT_TRUE(eventually(all, [&] { return b.messages.size() == 1; }));
    linger(all, milliseconds(2));
    EXPECT_EQ(b.messages.size(), 1u) << "the second get has none";
}

// A program that has flushed may leave: its replies must have arrived.
TEST_P(ReplyTest, AFlushWaitsForIt) {
    Side a(settings_), b(settings_);
    const Endpoint ep = a.entity.connect(b.entity);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    const Group all{&a.entity, &b.entity};
    EXPECT_TRUE(get_all(a, b, ep, key));
    const uct_iov_t iov = a.memory.iov(0, kSize);
    for (const bool replies : {false, true}) {
        ASSERT_TRUE(eventually(all, [&] { return uct_ep_flush(ep.get(), 0, nullptr) == UCS_OK; }));
        Completion completion;
        ucs_status_t flushed = UCS_ERR_LAST;
        // Nothing has been progressed since the end of the get was sent.
        completion.then = [&] { flushed = uct_ep_flush(ep.get(), 0, nullptr); };
        EXPECT_TRUE(accepted(all, [&] {
            if (replies) offer_(ep.get(), kId, "reply", 5, kSize, &completion);
            const ucs_status_t status =
                get_zcopy(ep, {&iov, 1}, b.memory.remote().address, key, &completion);
            EXPECT_EQ(taken_(ep.get()->iface) != 0, replies);
            return status;
        }));
        EXPECT_TRUE(eventually(all, [&] { return completion.calls != 0; }));
        EXPECT_STATUS(replies ? UCS_INPROGRESS : UCS_OK, flushed);
    }
}

TEST_P(ReplyTest, IsNotSentIfTheGetFails) {
    Side a(settings_), b(settings_);
    const Endpoint ep = a.entity.connect(b.entity);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    EXPECT_TRUE(get_all(a, b, ep, key));
    b.messages.clear();
    b.memory.undeclare();
    ucs_status_t status = UCS_OK;
    EXPECT_TRUE(get(a, b, ep, key, kSize, kSize, pattern(1, 17), &status));
    EXPECT_STATUS(UCS_ERR_IO_ERROR, status);
    EXPECT_TRUE(b.messages.empty());
}

TEST_P(ReplyTest, AnOfferEndsWithItsEndpoint) {
    Side a(settings_), b(settings_);
    const RemoteKey key(a.entity.host(), b.memory.remote());
    const Group all{&a.entity, &b.entity};
    const uct_iov_t iov = a.memory.iov(0, kSize);
    for (int i = 0; i < 4; ++i) {
        const Endpoint ep = a.entity.connect(b.entity);
        ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, b.memory.remote().address, key));
        EXPECT_EQ(taken_(ep.get()->iface), 0);
        offer_(ep.get(), kId, "reply", 5, kSize, nullptr);
    }
    EXPECT_TRUE(b.messages.empty());
}

INSTANTIATE_TEST_SUITE_P(Schemes, ReplyTest, testing::Values("superpipeline", "zcopy"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace transfer_reply_test
}  // namespace uct_test
