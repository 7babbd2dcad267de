// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages that the device places into posted receives.
#include "direct.h"
#include "common/seed.h"

#include <ucp/api/ucp_version.h>
#include <uct/api/v2/uct_v2.h>

#include <algorithm>
#include <deque>
#include <random>

namespace uct_test {
namespace {

TEST_F(DirectTest, MessagesArePlaced) {
    TagPair pair(direct());
    warm(pair);
    const std::size_t longest = pair.a.entity.attr().cap.tag.eager.max_bcopy;
    Declared memory(pair.a.entity.host(), 1 << 20);
    uint64_t seed = 100;
    // Repeats until the grant has arrived in time.
    const auto placed = [&](std::size_t length, const std::function<Bytes(uint64_t)>& send) {
        for (int attempt = 0; attempt < 100; ++attempt) {
            Receive receive(pair.b, length);
            EXPECT_STATUS(UCS_OK, receive.post(kTag));
            linger(pair.all, milliseconds(2));
            const Bytes message = send(++seed);
            linger({&pair.a.entity}, milliseconds(1));
            // The device places the message while the receiver does nothing. Empty messages leave
            // no trace.
            const bool direct = length != 0 ? same(receive.memory(length), message) : attempt == 20;
            EXPECT_TRUE(pair.until([&] { return receive.done(); })) << length;
            EXPECT_STATUS(UCS_OK, receive.status);
            EXPECT_EQ(receive.consumed, 1);
            EXPECT_EQ(receive.tag, kTag);
            EXPECT_EQ(receive.length, length);
            EXPECT_TRUE(same(receive.bytes(), message));
            EXPECT_TRUE(receive.clean());
            if (direct || testing::Test::HasFailure()) return direct;
        }
        return false;
    };
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{100}, longest})
        EXPECT_TRUE(placed(length, [&](uint64_t number) {
            pair.send(kTag, pattern(number, length));
            return pattern(number, length);
        }));
    // Messages that would otherwise be announced need no action of the receiver either.
    for (const std::size_t length : {std::size_t{30'000}, std::size_t{1 << 20}})
        EXPECT_TRUE(placed(length, [&](uint64_t number) {
            fill(memory.part(0, length), number);
            Completion completion;
            EXPECT_NE(pair.begin(kTag, memory, length, completion), nullptr);
            EXPECT_TRUE(pair.until([&] { return completion.calls != 0; }));
            return Bytes(memory.part(0, length));
        }));
    const Counters sent = [&] {
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        return pair.a.entity.close_and_count();
    }();
    EXPECT_GE(sent["direct_sent"], 6u);
    EXPECT_EQ(sent["direct_not_ready"], 0u);
    EXPECT_EQ(sent["direct_links"], 1u);
    const Counters received = pair.b.entity.close_and_count();
    EXPECT_EQ(received["direct_received"], sent["direct_sent"]);
    EXPECT_EQ(received["direct_queues_most"], 1u);
}

TEST_F(DirectTest, NobodyHasToPollForAMessageToArrive) {
    TagPair pair(direct());
    warm(pair);
    Declared from(pair.a.entity.host(), 4096);
    const uct_iov_t iov = from.iov(0, 4096);
    bool arrived = false;
    // Repeats until the grant has arrived in time.
    for (uint64_t attempt = 0; attempt < 20 && !arrived; ++attempt) {
        Receive receive(pair.b, 4096);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        linger(pair.all, milliseconds(5));
        const auto message = pattern(attempt, 4096);
        std::ranges::copy(message, from.part(0, 4096).begin());
        Completion completion;
        ASSERT_FALSE(UCS_STATUS_IS_ERR(tag_zcopy(pair.ep, kTag, {&iov, 1}, &completion)));
        // The receiver makes no progress.
        arrived = static_cast<bool>(eventually(
            {&pair.a.entity}, [&] { return same(receive.memory(4096), message); },
            milliseconds(500)));
        EXPECT_FALSE(receive.done());
        ASSERT_TRUE(pair.until([&] { return receive.done(); }));
    }
    EXPECT_TRUE(arrived);
}

TEST_F(DirectTest, TooLongAMessageIsTruncatedAsAnyOther) {
    TagPair pair(direct());
    warm(pair);
    Receive receive(pair.b, 100);
    Receive next(pair.b, 100);
    ASSERT_STATUS(UCS_OK, receive.post(kTag));
    ASSERT_STATUS(UCS_OK, next.post(kTag));
    linger(pair.all, milliseconds(2));
    pair.send(kTag, pattern(1, 101));
    ASSERT_TRUE(pair.until([&] { return receive.done(); }));
    EXPECT_STATUS(UCS_ERR_MESSAGE_TRUNCATED, receive.status);
    EXPECT_TRUE(receive.clean());
    pair.send(kTag, pattern(2, 100));
    ASSERT_TRUE(pair.until([&] { return next.done(); }));
    EXPECT_STATUS(UCS_OK, next.status);
    EXPECT_TRUE(same(next.bytes(), pattern(2, 100)));
}

TEST_F(DirectTest, MessagesWithImmediateDataAreOrdinary) {
    TagPair pair(direct());
    warm(pair);
    for (uint64_t i = 1; i <= 4; ++i) {
        Receive receive(pair.b, 100);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        linger(pair.all, milliseconds(2));
        pair.send(kTag, pattern(i, 99), i);
        ASSERT_TRUE(pair.until([&] { return receive.done(); }));
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_EQ(receive.immediate, i);
        EXPECT_TRUE(same(receive.bytes(), pattern(i, 99)));
    }
}

TEST_F(DirectTest, CanceledReceivesAreHeardOf) {
    TagPair pair(direct());
    warm(pair);
    Receive first(pair.b, 100);
    Receive second(pair.b, 100);
    ASSERT_STATUS(UCS_OK, first.post(kTag));
    ASSERT_STATUS(UCS_OK, second.post(kTag));
    linger(pair.all, milliseconds(2));
    ASSERT_STATUS(UCS_OK, first.cancel(false));
    // Canceling needs no progress of the sender.
    ASSERT_TRUE(eventually({&pair.b.entity}, [&] { return first.done(); }));
    EXPECT_STATUS(UCS_ERR_CANCELED, first.status);
    EXPECT_EQ(first.completed, 1);
    pair.send(kTag, pattern(1, 100));
    ASSERT_TRUE(pair.until([&] { return second.done(); }));
    EXPECT_TRUE(same(second.bytes(), pattern(1, 100)));
    EXPECT_TRUE(first.clean());
    EXPECT_EQ(first.completed, 1);
}

// The device has these receives.
TEST_F(DirectTest, ReceivesAreCanceledByForceAtOnce) {
    TagPair pair(direct());
    warm(pair);
    std::deque<Receive> receives;
    for (int i = 0; i < 4; ++i) {
        receives.emplace_back(pair.b, 100);
        ASSERT_STATUS(UCS_OK, receives.back().post(kTag));
    }
    linger(pair.all, milliseconds(2));
    ASSERT_STATUS(UCS_OK, receives[1].cancel(true));
    ASSERT_STATUS(UCS_OK, receives[2].cancel(false));
    ASSERT_STATUS(UCS_OK, receives[2].cancel(true)) << "and nobody is told";
    pair.send(kTag, pattern(1, 100));
    ASSERT_TRUE(pair.until([&] { return receives[0].done(); }));
    pair.send(kTag, pattern(2, 100));
    ASSERT_TRUE(pair.until([&] { return receives[3].done(); }));
    linger(pair.all, milliseconds(5));
    EXPECT_TRUE(same(receives[0].bytes(), pattern(1, 100)));
    EXPECT_TRUE(same(receives[3].bytes(), pattern(2, 100)));
    for (int i : {1, 2}) {
        EXPECT_FALSE(receives[i].done());
        EXPECT_TRUE(receives[i].clean());
        ASSERT_STATUS(UCS_OK, receives[i].post(kTag + 1)) << "its memory is free";
        ASSERT_STATUS(UCS_OK, receives[i].cancel(true));
    }
}

TEST_F(DirectTest, WildcardsKeepTheirPlace) {
    TagPair pair(direct());
    warm(pair);
    Receive exact(pair.b, 100);
    Receive wild(pair.b, 100);
    Receive later(pair.b, 100);
    ASSERT_STATUS(UCS_OK, exact.post(kTag));
    ASSERT_STATUS(UCS_OK, wild.post(0, 0));
    ASSERT_STATUS(UCS_OK, later.post(kTag));
    linger(pair.all, milliseconds(2));
    uint64_t seed = 0;
    for (Receive* receive : {&exact, &wild, &later}) {
        pair.send(kTag, pattern(++seed, 50));
        ASSERT_TRUE(pair.until([&] { return receive->done(); })) << seed;
        EXPECT_TRUE(same(receive->bytes(), pattern(seed, 50))) << seed;
    }
}

// MPICH posts such receives.
TEST_F(DirectTest, ReceivesThatLeaveBitsOpen) {
    constexpr uct_tag_t kTwoOpen = ~uct_tag_t{3};
    TagPair pair(direct());
    uint64_t seed = 0;
    // Returns whether the device has placed the message.
    const auto exchange = [&](uct_tag_t tag) {
        Receive receive(pair.b, 100);
        EXPECT_STATUS(UCS_OK, receive.post(kTag, kTwoOpen));
        linger(pair.all, milliseconds(1));
        pair.send(tag, pattern(++seed, 90));
        linger({&pair.a.entity}, milliseconds(1));
        const bool placed = same(receive.memory(90), pattern(seed, 90));
        EXPECT_TRUE(pair.until([&] { return receive.done(); })) << seed;
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_EQ(receive.tag, tag);
        EXPECT_TRUE(same(receive.bytes(), pattern(seed, 90)));
        return placed;
    };
    // Repeats until the open bits are learned and a grant has arrived in time.
    const auto placed = [&] {
        for (int attempt = 0; attempt < 200; ++attempt)
            if (exchange(kTag) || HasFailure()) return true;
        return false;
    };
    EXPECT_TRUE(placed());
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(exchange(kTag ^ 1)) << "it could not say that its tag is another";
        EXPECT_TRUE(placed());
    }
    Receive wild(pair.b, 100);
    ASSERT_STATUS(UCS_OK, wild.post(0, 0));
    pair.send(kTag, pattern(++seed, 50));
    ASSERT_TRUE(pair.until([&] { return wild.done(); }));
    EXPECT_EQ(wild.tag, kTag);
    const Counters counters = pair.close_and_count();
    EXPECT_LT(counters["tag_wildcards"], 40u);
    EXPECT_GE(counters["direct_received"], 4u);
}

TEST_F(DirectTest, PeersThatWantNoneRefuse) {
    TagPair pair(direct());
    TagEntity other(Settings{{"TM_TUPLES", "0"}});
    const Group both{&other.entity, &pair.b.entity};
    Endpoint ep = other.entity.connect(pair.b.entity);
    for (uint64_t i = 0; i < 40; ++i) {
        Receive receive(pair.b, 64);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        ASSERT_TRUE(accepted(both, [&] { return tag_bcopy(ep, kTag, pattern(i, 20)); }));
        ASSERT_TRUE(eventually(both, [&] { return receive.done(); }));
        EXPECT_TRUE(same(receive.bytes(), pattern(i, 20)));
    }
    warm(pair);
}

// UCX's protocols v2 before 1.18 send messages of one tag in two ways. Tern recognises these
// protocols by their queries, wherever they have been enabled.
TEST_F(DirectTest, NotWithProtocolsThatSendTwoWays) {
    const auto sent = [](uint64_t asked) {
        TagPair pair(direct());
        uct_perf_attr_t attributes{};
        attributes.field_mask = asked;
        attributes.operation = UCT_EP_OP_AM_ZCOPY;
        EXPECT_STATUS(UCS_OK, uct_iface_estimate_perf(pair.a.entity.iface(), &attributes));
        warm(pair);
        for (uint64_t i = 0; i < 20; ++i) {
            Receive receive(pair.b, 3000);
            EXPECT_STATUS(UCS_OK, receive.post(kTag));
            linger(pair.all, milliseconds(2));
            pair.send(kTag, pattern(i, 3000));
            EXPECT_TRUE(pair.until([&] { return receive.done(); }));
        }
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        return pair.a.entity.close_and_count()["direct_sent"];
    };
    constexpr uint64_t kOfOlderProtocols = UCT_PERF_ATTR_FIELD_OPERATION |
                                           UCT_PERF_ATTR_FIELD_SEND_PRE_OVERHEAD |
                                           UCT_PERF_ATTR_FIELD_SEND_POST_OVERHEAD;
    constexpr uint64_t kOfNewer = kOfOlderProtocols | UCT_PERF_ATTR_FIELD_RECV_OVERHEAD |
                                  UCT_PERF_ATTR_FIELD_BANDWIDTH | UCT_PERF_ATTR_FIELD_LATENCY;
    EXPECT_GT(sent(UCT_PERF_ATTR_FIELD_MAX_INFLIGHT_EPS), 0u);
    EXPECT_GT(sent(kOfOlderProtocols), 0u);
    const bool two_ways = UCP_API_MAJOR * 100 + UCP_API_MINOR < 118;
    EXPECT_EQ(sent(kOfNewer) == 0, two_ways);
}

// Messages of a second sender of a tag wait until the grants of the first are taken back. If they
// are many, their sender finds no room until they have been matched.
TEST_F(DirectTest, SenderOfManyHeldMessagesPauses) {
    constexpr std::size_t kBytes = 60'000;
    constexpr uint64_t kMessages = 7;  // as many as the receiver allows before it polls
    const Settings settings = direct({{"SEG_SIZE", "64000"}, {"RX_QUEUE_LEN", "64"}});
    TagPair pair(settings);
    warm(pair);
    TagEntity other(settings);
    const Endpoint ep = other.entity.connect(pair.b.entity);
    const Group alone{&other.entity};
    const Group all{&pair.a.entity, &pair.b.entity, &other.entity};
    ASSERT_TRUE(accepted(all, [&] { return tag_bcopy(ep, kTag + 1, pattern(0, 8)); }));
    ASSERT_TRUE(eventually(all, [&] { return !pair.b.mailbox->messages.empty(); }));
    pair.b.mailbox->messages.clear();
    Receive receive(pair.b, kBytes);
    ASSERT_STATUS(UCS_OK, receive.post(kTag));
    linger(pair.all, milliseconds(2));
    for (uint64_t i = 0; i < kMessages; ++i)
        ASSERT_TRUE(accepted(alone, [&] { return tag_bcopy(ep, kTag, pattern(i, kBytes)); }));
    linger(alone, milliseconds(5));
    // All have come. The answer to the receiver's question, what the first sender has announced, is
    // behind them.
    const auto paused = [&] {
        const ucs_status_t status = tag_short(ep, kTag + 1, pattern(0, 8));
        EXPECT_TRUE(status == UCS_OK || status == UCS_ERR_NO_RESOURCE);
        return status == UCS_ERR_NO_RESOURCE;
    };
    for (int polls = 0; polls < 400 && pair.b.entity.progress() < kMessages; ++polls) continue;
    linger(alone, milliseconds(1));
    ASSERT_TRUE(paused());
    bool sent = false;
    Pending pending([&] {
        const ucs_status_t status = tag_short(ep, kTag, pattern(kMessages, 8));
        sent = status == UCS_OK;
        return status;
    });
    ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &pending, 0));
    linger(alone, milliseconds(2));
    EXPECT_FALSE(sent);
    const auto& messages = pair.b.mailbox->messages;
    ASSERT_TRUE(eventually(all, [&] {
        return sent && !messages.empty() && messages.back().data.size() == 8 &&
               messages.back().tag == kTag;
    }));
    EXPECT_TRUE(same(receive.bytes(), pattern(0, kBytes)));
    uint64_t next = 1;
    for (const Unexpected& message : messages) {
        if (message.tag != kTag) continue;
        ASSERT_TRUE(same(std::as_bytes(std::span(message.data)),
                         pattern(next, next != kMessages ? kBytes : 8)));
        ++next;
    }
    EXPECT_EQ(next, kMessages + 1);
    EXPECT_FALSE(paused());
}

TEST_F(DirectTest, FlushCoversThem) {
    TagPair pair(direct());
    warm(pair);
    Receive receive(pair.b, 1 << 16);
    ASSERT_STATUS(UCS_OK, receive.post(kTag));
    linger(pair.all, milliseconds(2));
    Declared memory(pair.a.entity.host(), 1 << 16);
    fill(memory.part(0, 1 << 16), 5);
    Completion completion;
    (void)pair.begin(kTag, memory, 1 << 16, completion);
    ASSERT_TRUE(
        pair.until([&] { return uct_iface_flush(pair.a.entity.iface(), 0, nullptr) == UCS_OK; }));
    EXPECT_EQ(completion.calls, 1);
    ASSERT_TRUE(pair.until([&] { return receive.done(); }));
}

// A receive whose message is on its way is taken: UCP would match it with the next message.
TEST_F(DirectTest, ReceivesAreConsumedBeforeALaterMessageIsUnexpected) {
    TagPair pair(direct());
    warm(pair);
    for (uint64_t i = 0; i < 20; ++i) {
        Receive receive(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        linger(pair.all, milliseconds(1));
        pair.b.mailbox->on_message = [&](const Unexpected&) { EXPECT_EQ(receive.consumed, 1); };
        pair.send(kTag, pattern(2 * i, 3000));
        pair.send(kTag, pattern(2 * i + 1, 10));
        auto& box = pair.b.mailbox->messages;
        ASSERT_TRUE(pair.until([&] { return receive.done() && !box.empty(); }));
        EXPECT_EQ(receive.consumed, 1);
        EXPECT_TRUE(same(receive.bytes(), pattern(2 * i, 3000)));
        EXPECT_TRUE(same(std::as_bytes(std::span(box[0].data)), pattern(2 * i + 1, 10)));
        box.clear();
        pair.b.mailbox->on_message = nullptr;
    }
}

// More tags than queues, with receives and messages in any order: each message must reach its
// receive. In half of the runs receives leave bits open, and some messages differ in these bits.
TEST_F(DirectTest, RandomTraffic) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    TagPair pair(direct());
    constexpr unsigned kTags = 8;
    const uct_tag_t open = random() % 2 == 0 ? 0 : uct_tag_t{3} << 32;
    struct Row {
        std::deque<Receive> receives;
        std::vector<uct_tag_t> sent;
        std::size_t messages = 0;
    };
    std::array<Row, kTags> rows;
    const auto length_of = [](unsigned tag, std::size_t number) {
        return (tag * 131 + number * 977) % 3000;
    };
    const auto seed_of = [](unsigned tag, std::size_t number) { return tag * 100'000 + number; };
    for (int step = 0; step < 4000; ++step) {
        const unsigned tag = random() % kTags;
        Row& row = rows[tag];
        const unsigned what = random() % 6;
        if (what < 2 && row.receives.size() < row.messages + 6) {
            ASSERT_STATUS(UCS_OK, row.receives.emplace_back(pair.b, 3000).post(tag, ~open));
        } else if (what < 4 && row.messages < row.receives.size()) {
            const std::size_t length = length_of(tag, row.messages);
            row.sent.push_back(tag | (random() % 16 == 0 ? uct_tag_t{random()} << 32 & open : 0));
            pair.send(row.sent.back(), pattern(seed_of(tag, row.messages), length));
            ++row.messages;
        } else {
            progress(random() % 2 == 0 ? Group{&pair.a.entity} : Group{&pair.b.entity});
        }
    }
    for (unsigned tag = 0; tag < kTags; ++tag)
        for (std::size_t i = 0; i < rows[tag].messages; ++i) {
            Receive& receive = rows[tag].receives[i];
            ASSERT_TRUE(pair.until([&] { return receive.done(); })) << tag << ":" << i;
            ASSERT_STATUS(UCS_OK, receive.status);
            ASSERT_EQ(receive.tag, rows[tag].sent[i]);
            ASSERT_TRUE(same(receive.bytes(), pattern(seed_of(tag, i), length_of(tag, i))));
        }
    EXPECT_TRUE(pair.b.mailbox->messages.empty());
    const Counters counters = pair.close_and_count();
    EXPECT_GT(counters["direct_received"], 0u);
}

// The peer uses a new endpoint, but it is still the only sender of the tag.
TEST_F(DirectTest, PeerThatConnectsAgainSendsDirectAgain) {
    TagPair pair(direct());
    for (int round = 0; round < 3; ++round) {
        warm(pair);
        warm(pair);
        pair.ep.reset();
        linger(pair.all, milliseconds(20));
        pair.ep = pair.a.entity.connect(pair.b.entity);
    }
    const Counters counters = pair.close_and_count();
    EXPECT_EQ(counters["direct_binds"], 3u);
    EXPECT_GT(counters["direct_received"], 0u);
}

TEST_F(DirectTest, DeathOfTheSenderLeavesReceivesPosted) {
    TagPair pair(direct());
    warm(pair);
    Receive receive(pair.b, 100);
    ASSERT_STATUS(UCS_OK, receive.post(kTag));
    linger(pair.all, milliseconds(2));
    pair.ep.reset();
    pair.a.entity.close();
    linger({&pair.b.entity}, milliseconds(20));
    EXPECT_FALSE(receive.done());
    TagEntity other(direct());
    const Group both{&other.entity, &pair.b.entity};
    Endpoint ep = other.entity.connect(pair.b.entity);
    ASSERT_TRUE(accepted(both, [&] { return tag_bcopy(ep, kTag, pattern(3, 90)); }));
    ASSERT_TRUE(eventually(both, [&] { return receive.done(); }));
    EXPECT_TRUE(same(receive.bytes(), pattern(3, 90)));
}

}  // namespace
}  // namespace uct_test
