// SPDX-License-Identifier: BSD-3-Clause
// Single active messages: the receiver gets what was sent.
#include <config.h>  // UCX's

#include <algorithm>

#include "message.h"

namespace uct_test {
namespace {

// Keeps the messages that arrive.
struct Inbox {
    struct Message {
        int id;
        std::vector<std::byte> bytes;
    };
    explicit Inbox(Entity& at) {
        for (int id = 0; id < static_cast<int>(UCT_AM_ID_MAX); ++id) {
            at.handle(static_cast<uint8_t>(id), [this, id](Bytes bytes) {
                messages.push_back({id, {bytes.begin(), bytes.end()}});
            });
        }
    }
    std::vector<Message> messages;
};

class KindTest : public testing::Test, public testing::WithParamInterface<Kind> {};

TEST_P(KindTest, EveryLengthArrives) {
    Entity a, b;
    Inbox inbox(b);
    const Endpoint ep = a.connect(b);
    Memory memory(a.host(), kLongest);
    const std::size_t most = longest(GetParam(), a.attr());
    std::size_t sent = 0;
    // All short lengths, then every 61st, and the longest.
    for (std::size_t length = shortest(GetParam());;) {
        ASSERT_TRUE(deliver({&a, &b}, ep, GetParam(), 5, pattern(length, length), memory));
        ASSERT_TRUE(eventually({&a, &b}, [&] { return inbox.messages.size() == sent + 1; }))
            << length;
        ASSERT_EQ(inbox.messages[sent].id, 5);
        ASSERT_TRUE(same(inbox.messages[sent].bytes, pattern(length, length))) << length;
        ++sent;
        if (length == most) break;
        length = std::min(most, length + (length < 520 ? 1 : 61));
    }
}

TEST_P(KindTest, EveryIdIsCalled) {
    Entity a, b;
    Inbox inbox(b);
    const Endpoint ep = a.connect(b);
    Memory memory(a.host(), 64);
    for (int id = 0; id < static_cast<int>(UCT_AM_ID_MAX); ++id) {
        ASSERT_TRUE(deliver({&a, &b}, ep, GetParam(), static_cast<uint8_t>(id),
                            pattern(static_cast<uint64_t>(id), 24), memory));
    }
    ASSERT_TRUE(eventually({&a, &b}, [&] { return inbox.messages.size() == UCT_AM_ID_MAX; }));
    for (int id = 0; id < static_cast<int>(UCT_AM_ID_MAX); ++id) {
        const Inbox::Message& message = inbox.messages[static_cast<std::size_t>(id)];
        EXPECT_EQ(message.id, id);
        EXPECT_TRUE(same(message.bytes, pattern(static_cast<uint64_t>(id), 24)));
    }
}

TEST_P(KindTest, ToOneself) {
    Entity self;
    Inbox inbox(self);
    const Endpoint ep = self.connect(self);
    Memory memory(self.host(), 1024);
    for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t length = std::min(longest(GetParam(), self.attr()), 8 + i * 8);
        ASSERT_TRUE(deliver({&self}, ep, GetParam(), 7, pattern(i, length), memory));
        ASSERT_TRUE(eventually({&self}, [&] { return inbox.messages.size() == i + 1; }));
        ASSERT_TRUE(same(inbox.messages[i].bytes, pattern(i, length)));
    }
}

INSTANTIATE_TEST_SUITE_P(Kinds, KindTest, testing::ValuesIn(kKinds),
                         [](const auto& kind) { return name(kind.param); });

class MessageTest : public testing::Test {};

TEST_F(MessageTest, SeveralEndpointsToOneInterfaceKeepTheirOrder) {
    Entity a, b;
    Inbox inbox(b);
    const Endpoint eps[] = {a.connect(b), a.connect(b), a.connect(b)};
    Memory memory(a.host(), 64);
    constexpr std::size_t kCount = 300;
    for (std::size_t i = 0; i < kCount; ++i) {
        ASSERT_TRUE(deliver({&a, &b}, eps[i % 3], kKinds[i / 3 % 3], static_cast<uint8_t>(i % 3),
                            pattern(i, 40), memory));
    }
    ASSERT_TRUE(eventually({&a, &b}, [&] { return inbox.messages.size() == kCount; }));
    std::size_t next[] = {0, 1, 2};
    for (const Inbox::Message& message : inbox.messages) {
        std::size_t& number = next[message.id];
        EXPECT_TRUE(same(message.bytes, pattern(number, 40))) << number;
        number += 3;
    }
}

TEST_F(MessageTest, PackerIsToldWhereAndCalledOnce) {
    Entity a, b;
    Inbox inbox(b);
    const Endpoint ep = a.connect(b);
    int calls = 0;
    const auto pack = [](void* to, void* arg) -> std::size_t {
        ++*static_cast<int*>(arg);
        *static_cast<uint8_t*>(to) = 9;
        return 1;
    };
    int attempts = 0;
    ASSERT_TRUE(accepted({&a, &b}, [&] {
        ++attempts;
        const ssize_t sent = uct_ep_am_bcopy(ep.get(), 3, pack, &calls, 0);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    }));
    // An attempt without resources must not call the packer.
    EXPECT_EQ(calls, 1) << attempts << " attempts";
    ASSERT_TRUE(eventually({&a, &b}, [&] { return !inbox.messages.empty(); }));
    EXPECT_EQ(inbox.messages[0].bytes, std::vector{std::byte{9}});
}

TEST_F(MessageTest, HandlerRepliesFromWithin) {
    Entity a, b;
    const Endpoint there = a.connect(b);
    const Endpoint back = b.connect(a);
    constexpr std::size_t kRounds = 2000;
    std::size_t rounds = 0, refused = 0;
    std::vector<std::byte> waiting;
    b.handle(1, [&](Bytes message) {
        const ucs_status_t status = am_bcopy(back, 2, message);
        if (status != UCS_OK) {
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE, status);
            waiting.assign(message.begin(), message.end());
            ++refused;
        }
    });
    bool turn = true;
    a.handle(2, [&](Bytes message) {
        EXPECT_TRUE(same(message, pattern(rounds, 8 + rounds % 512)));
        ++rounds;
        turn = true;
    });
    ASSERT_TRUE(eventually({&a, &b}, [&] {
        const Bytes content = pattern(rounds, 8 + rounds % 512);
        if (turn && rounds < kRounds && am_bcopy(there, 1, content) == UCS_OK) turn = false;
        if (!waiting.empty() && am_bcopy(back, 2, waiting) == UCS_OK) waiting.clear();
        return rounds == kRounds;
    })) << rounds;
    EXPECT_LT(refused, kRounds / 10);
}

TEST_F(MessageTest, HandlerIsReplacedAndRemoved) {
    Entity a, b;
    const Endpoint ep = a.connect(b);
    struct Count {
        int first = 0, second = 0;
    } count;
    const auto first = [](void* arg, void*, size_t, unsigned) {
        ++static_cast<Count*>(arg)->first;
        return UCS_OK;
    };
    const auto second = [](void* arg, void*, size_t, unsigned) {
        ++static_cast<Count*>(arg)->second;
        return UCS_OK;
    };
    const auto send = [&] { return am_short(ep, 4, pattern(1, 16)); };
    check(uct_iface_set_am_handler(b.iface(), 4, first, &count, 0), "set");
    ASSERT_TRUE(accepted({&a, &b}, send));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return count.first == 1; }));
    check(uct_iface_set_am_handler(b.iface(), 4, second, &count, 0), "set");
    ASSERT_TRUE(accepted({&a, &b}, send));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return count.second == 1; }));
    check(uct_iface_set_am_handler(b.iface(), 4, nullptr, nullptr, 0), "set");
    ASSERT_TRUE(accepted({&a, &b}, send));
    linger({&a, &b});
    EXPECT_EQ(count.first, 1);
    EXPECT_EQ(count.second, 1);
    // The connection still works.
    check(uct_iface_set_am_handler(b.iface(), 4, first, &count, 0), "set");
    ASSERT_TRUE(accepted({&a, &b}, send));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return count.first == 2; }));
}

TEST_F(MessageTest, TooLongIsRefused) {
    if (!ENABLE_PARAMS_CHECK) GTEST_SKIP() << "UCX was built without checks of parameters";
    Entity a, b;
    Inbox inbox(b);
    const Endpoint ep = a.connect(b);
    Memory memory(a.host(), 2 * kLongest);
    ASSERT_TRUE(deliver({&a, &b}, ep, Kind::kBcopy, 0, pattern(0, 8), memory));
    std::vector<std::byte> content(a.attr().cap.am.max_short + 1);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, am_short(ep, 0, content));
    Completion completion;
    uct_iov_t iov = memory.iov(0, a.attr().cap.am.max_zcopy + 1);
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM, am_zcopy(ep, 0, {}, {&iov, 1}, &completion));
    EXPECT_STATUS(UCS_ERR_INVALID_PARAM,
                  am_short(ep, static_cast<uint8_t>(UCT_AM_ID_MAX), pattern(0, 8)));
    EXPECT_EQ(completion.calls, 0);
    ASSERT_TRUE(deliver({&a, &b}, ep, Kind::kBcopy, 0, pattern(1, 8), memory));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return inbox.messages.size() == 2; }));
}

TEST_F(MessageTest, TwoInterfacesOnOneWorker) {
    auto host = std::make_shared<Host>();
    Entity a({}, host), b({}, host);
    Inbox at_a(a), at_b(b);
    const Endpoint there = a.connect(b), back = b.connect(a);
    Memory memory(*host, 64);
    for (std::size_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(deliver({&a}, there, kKinds[i % 3], 1, pattern(i, 48), memory));
        ASSERT_TRUE(deliver({&a}, back, kKinds[i % 3], 2, pattern(i + 1000, 48), memory));
    }
    ASSERT_TRUE(
        eventually({&a}, [&] { return at_a.messages.size() == 50 && at_b.messages.size() == 50; }));
    for (std::size_t i = 0; i < 50; ++i) {
        EXPECT_TRUE(same(at_b.messages[i].bytes, pattern(i, 48)));
        EXPECT_TRUE(same(at_a.messages[i].bytes, pattern(i + 1000, 48)));
    }
}

}  // namespace
}  // namespace uct_test
