// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages that the device places into the receives posted for them.
#include "tag.h"
#include "traffic.h"

#include <ucp/api/ucp_version.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>

namespace uct_test {
namespace {

constexpr uct_tag_t kTag = 0x0001'0000'0000'0007;

Settings direct(Settings more = {}) {
    Settings settings{
        {"TM_TUPLES", "4"}, {"TM_DEPTH", "4"}, {"TM_TUPLE_AFTER", "2"}, {"TM_TUPLE_MIN", "0"}};
    for (const auto& [name, value] : more) settings.insert_or_assign(name, value);
    return settings;
}

class DirectTest : public TagTest {
  protected:
    void SetUp() override {
        if (!conformance::Hca().has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
    }
    // Sends messages with receives posted for them until the tag has a queue, and what the sender
    // knows is settled.
    static void warm(TagPair& pair, uct_tag_t tag = kTag) {
        for (uint64_t i = 0; i < 8; ++i) {
            Receive receive(pair.b, 64);
            ASSERT_STATUS(UCS_OK, receive.post(tag));
            pair.send(tag, pattern(i, 33));
            ASSERT_TRUE(pair.until([&] { return receive.done(); }));
            EXPECT_TRUE(same(receive.bytes(), pattern(i, 33)));
            linger(pair.all, milliseconds(2));
        }
    }
};

TEST_F(DirectTest, MessagesArePlaced) {
    TagPair pair(direct());
    warm(pair);
    const std::size_t longest = pair.a.entity.attr().cap.tag.eager.max_bcopy;
    Declared memory(pair.a.entity.host(), 1 << 20);
    uint64_t seed = 100;
    // Until the grant has been there in time.
    const auto placed = [&](std::size_t length, const std::function<Bytes(uint64_t)>& send) {
        for (int attempt = 0; attempt < 100; ++attempt) {
            Receive receive(pair.b, length);
            EXPECT_STATUS(UCS_OK, receive.post(kTag));
            linger(pair.all, milliseconds(2));
            const Bytes message = send(++seed);
            EXPECT_TRUE(pair.until([&] { return receive.done(); })) << length;
            EXPECT_STATUS(UCS_OK, receive.status);
            EXPECT_EQ(receive.consumed, 1);
            EXPECT_EQ(receive.tag, kTag);
            EXPECT_EQ(receive.length, length);
            EXPECT_TRUE(same(receive.bytes(), message));
            EXPECT_TRUE(receive.clean());
            if (receive.in_place || testing::Test::HasFailure()) return receive.in_place;
        }
        return false;
    };
    for (const std::size_t length : {std::size_t{0}, std::size_t{1}, std::size_t{100}, longest})
        EXPECT_TRUE(placed(length, [&](uint64_t number) {
            pair.send(kTag, pattern(number, length));
            return pattern(number, length);
        }));
    // What would be announced otherwise needs nothing of the receiver.
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
    // Until the grant has been there in time.
    for (uint64_t attempt = 0; attempt < 20 && !arrived; ++attempt) {
        Receive receive(pair.b, 4096);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        linger(pair.all, milliseconds(5));
        const auto message = pattern(attempt, 4096);
        std::ranges::copy(message, from.part(0, 4096).begin());
        Completion completion;
        ASSERT_FALSE(UCS_STATUS_IS_ERR(tag_zcopy(pair.ep, kTag, {&iov, 1}, &completion)));
        // The receiver does nothing.
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
    EXPECT_STATUS(UCS_ERR_BUSY, first.cancel(true)) << "the device has it";
    ASSERT_STATUS(UCS_OK, first.cancel(false));
    ASSERT_TRUE(pair.until([&] { return first.done(); }));
    EXPECT_STATUS(UCS_ERR_CANCELED, first.status);
    EXPECT_EQ(first.completed, 1);
    pair.send(kTag, pattern(1, 100));
    ASSERT_TRUE(pair.until([&] { return second.done(); }));
    EXPECT_TRUE(same(second.bytes(), pattern(1, 100)));
    EXPECT_TRUE(first.clean());
    EXPECT_EQ(first.completed, 1);
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

// As those of MPICH do.
TEST_F(DirectTest, ReceivesThatLeaveBitsOpen) {
    constexpr uct_tag_t kTwoOpen = ~uct_tag_t{3};
    TagPair pair(direct());
    uint64_t seed = 0;
    // Says whether the device has placed it.
    const auto exchange = [&](uct_tag_t tag) {
        Receive receive(pair.b, 100);
        EXPECT_STATUS(UCS_OK, receive.post(kTag, kTwoOpen));
        linger(pair.all, milliseconds(1));
        pair.send(tag, pattern(++seed, 90));
        EXPECT_TRUE(pair.until([&] { return receive.done(); })) << seed;
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_EQ(receive.tag, tag);
        EXPECT_TRUE(same(receive.bytes(), pattern(seed, 90)));
        return receive.in_place;
    };
    // Until that is learnt, and then until a grant has been there in time.
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

// UCX would send messages of one tag two ways.
TEST_F(DirectTest, NotWithProtocolsThatTakeReceivesAway) {
    if (UCP_API_MAJOR * 100 + UCP_API_MINOR >= 118) GTEST_SKIP() << "this UCX has none";
    ASSERT_EQ(setenv("UCX_PROTO_ENABLE", "y", 1), 0);
    TagPair pair(direct());
    ASSERT_EQ(unsetenv("UCX_PROTO_ENABLE"), 0);
    warm(pair);
    EXPECT_EQ(pair.close_and_count()["direct_binds"], 0u);
}

// What messages are sent from, and words for grants, 32 KiB of them.
TEST_F(DirectTest, RegisteredMemoryIsCounted) {
    const auto registered = [](const char* tuples, uint64_t& sent) {
        TagPair pair(direct({{"TM_TUPLES", tuples}, {"TM_DEPTH", "64"}}));
        warm(pair);
        for (uint64_t i = 0; i < 4; ++i) {
            Receive receive(pair.b, 3000);
            EXPECT_STATUS(UCS_OK, receive.post(kTag));
            linger(pair.all, milliseconds(5));
            pair.send(kTag, pattern(i, 3000));
            EXPECT_TRUE(pair.until([&] { return receive.done(); }));
        }
        pair.ep.reset();
        linger(pair.all, milliseconds(5));
        const Counters counters = pair.a.entity.close_and_count();
        sent = counters["direct_sent"];
        return counters["registered_bytes"];
    };
    uint64_t sent = 0;
    const uint64_t without = registered("0", sent);
    EXPECT_EQ(sent, 0u);
    const uint64_t with = registered("64", sent);
    EXPECT_GT(sent, 0u);
    EXPECT_GE(with, without + 32768 + 32 * uint64_t{3000});
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

// A receive whose message is on its way is nobody else's: UCP would find it for the next one.
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

// More tags than queues, receives and messages in any order: each ends where it should. In half of
// the runs receives leave bits open, and messages differ in them now and then.
TEST_F(DirectTest, RandomTraffic) {
    const unsigned seed = std::random_device{}();
    std::cout << "seed " << seed << std::endl;
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

// An error of the user's: the device must not write to the memory any more. It costs the connection
// that the message would have come by, and nobody else's.
TEST_F(DirectTest, MemoryOfAGrantedReceiveIsDeregistered) {
    for (const bool invalidate : {false, true}) {
        TagPair pair(direct());
        warm(pair);
        TagEntity other(direct());
        Endpoint other_ep = other.entity.connect(pair.b.entity);
        const Group all{&pair.a.entity, &pair.b.entity, &other.entity};
        Receive receive(pair.b, 3000), later(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        ASSERT_STATUS(UCS_OK, later.post(kTag));
        linger(pair.all, milliseconds(5));
        Completion completion;
        if (invalidate)
            receive.invalidate(completion);
        else
            receive.undeclare();
        // The grants are there.
        (void)tag_bcopy(pair.ep, kTag, pattern(1, 3000));
        linger({&pair.a.entity}, milliseconds(2));
        EXPECT_TRUE(receive.clean()) << "written to";
        ASSERT_TRUE(eventually(all, [&] { return pair.a.entity.failures(pair.ep) != 0; }));
        EXPECT_TRUE(receive.clean() && later.clean());
        EXPECT_FALSE(receive.done() || later.done());
        linger(all, milliseconds(20));
        // It may still be cancelled, and the next in line has what comes next, of whomever.
        ASSERT_STATUS(UCS_OK, receive.cancel(true));
        ASSERT_TRUE(accepted(all, [&] { return tag_bcopy(other_ep, kTag, pattern(2, 2000)); }));
        ASSERT_TRUE(eventually(all, [&] { return later.done(); }));
        EXPECT_TRUE(same(later.bytes(), pattern(2, 2000)));
        EXPECT_EQ(other.entity.failures(other_ep), 0u);
        pair.ep = pair.a.entity.connect(pair.b.entity);
        warm(pair);
    }
}

// The same while the interface's own thread gives the device receives and takes messages.
TEST_F(DirectTest, MemoryOfAGrantedReceiveIsDeregisteredByAnotherThread) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    unsigned rounds = 0, cut = 0;
    const auto end = Clock::now() + milliseconds(20000);
    while (Clock::now() < end && (rounds < 30 || cut < 5)) {
        ++rounds;
        TagPair pair(direct());
        warm(pair);
        Receive receive(pair.b, 3000), other(pair.b, 3000);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        std::atomic<bool> over{false};
        std::vector<std::byte> before;
        const auto pause = std::chrono::microseconds(1U << random() % 13);
        std::thread thread([&] {
            std::this_thread::sleep_for(pause);
            receive.undeclare();
            const Bytes memory = receive.memory(3000);
            before.assign(memory.begin(), memory.end());
            over = true;
        });
        ASSERT_STATUS(UCS_OK, other.post(kTag));
        const uint64_t when = 1U << random() % 11;  // it is sent, in turns
        for (uint64_t i = 0; !over || i <= when; ++i) {
            if (i == when) (void)tag_bcopy(pair.ep, kTag, pattern(i, 3000));
            progress(pair.all);
        }
        thread.join();
        linger(pair.all, milliseconds(20));
        if (!receive.done() || receive.in_place) {
            EXPECT_TRUE(same(receive.memory(3000), before));
        }
        for (Receive* each : {&receive, &other})
            ASSERT_TRUE(pair.until([&] { return each->done() || each->cancel(true) == UCS_OK; }));
        cut += pair.close_and_count()["direct_stopped"] != 0;
    }
    EXPECT_GE(cut, 5u);
}

// No error: its message came another way, and what is left of it in the queue is nobody's.
TEST_F(DirectTest, MemoryIsDeregisteredAsSoonAsItsReceiveIsOver) {
    TagPair pair(direct());
    warm(pair);
    for (uint64_t i = 1; i <= 20; ++i) {
        Receive receive(pair.b, 100), second(pair.b, 100);
        receive.then = [&] { receive.undeclare(); };
        second.then = [&] { second.undeclare(); };
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        ASSERT_STATUS(UCS_OK, second.post(kTag));
        linger(pair.all, milliseconds(2));
        pair.send(kTag, pattern(i, 99), i);
        pair.send(kTag, pattern(i, 98), i % 2);
        ASSERT_TRUE(pair.until([&] { return receive.done() && second.done(); }));
        EXPECT_STATUS(UCS_OK, receive.status);
        EXPECT_STATUS(UCS_OK, second.status);
    }
    linger(pair.all, milliseconds(20));
    EXPECT_EQ(pair.a.entity.failures().size() + pair.b.entity.failures().size(), 0u);
    EXPECT_GT(pair.close_and_count()["direct_grants_void"], 0u);
}

}  // namespace
}  // namespace uct_test
