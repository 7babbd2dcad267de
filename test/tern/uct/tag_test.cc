// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages that are sent whole: matching, unexpected messages, limits.
#include <algorithm>

#include "tag.h"

namespace uct_test {
namespace {

constexpr uint64_t kTagFlags = UCT_IFACE_FLAG_TAG_EAGER_SHORT | UCT_IFACE_FLAG_TAG_EAGER_BCOPY |
                               UCT_IFACE_FLAG_TAG_EAGER_ZCOPY | UCT_IFACE_FLAG_TAG_RNDV_ZCOPY;

TEST_F(TagTest, OfferedOnlyIfAskedFor) {
    const auto open = [](const Settings& settings) {
        return Entity(settings, std::make_shared<Host>(),
                      [](uct_iface_params_t& params) { params.features |= UCT_IFACE_FEATURE_TAG; });
    };
    const Entity plain = open({});
    EXPECT_EQ(plain.attr().cap.flags & kTagFlags, 0u);
    const Entity off = open({{"TM_ENABLE", "n"}});
    EXPECT_EQ(off.attr().cap.flags & kTagFlags, 0u);
    for (const char* value : {"y", "try"}) {
        const Entity on = open({{"TM_ENABLE", value}, {"tm_list_size", "77"}});
        EXPECT_EQ(on.attr().cap.flags & kTagFlags, kTagFlags) << value;
        const auto& tag = on.attr().cap.tag;
        EXPECT_EQ(tag.recv.max_outstanding, 77u);
        EXPECT_EQ(tag.recv.min_recv, 0u);
        EXPECT_EQ(tag.recv.max_iov, 1u);
        EXPECT_EQ(tag.rndv.max_iov, 1u);
        EXPECT_EQ(tag.rndv.max_zcopy, std::size_t{1} << 30) << "also of devices with less";
        EXPECT_GE(tag.rndv.max_hdr, 128u);
        EXPECT_GE(tag.eager.max_iov, 1u);
        EXPECT_GE(tag.recv.max_zcopy, tag.rndv.max_zcopy);
        EXPECT_LE(tag.eager.max_short, tag.eager.max_bcopy);
    }
}

ucs_status_t send(const Endpoint& ep, Kind kind, uct_tag_t tag, Bytes message, Memory& memory,
                  Completion* completion, uint64_t immediate) {
    if (kind == Kind::kShort) return tag_short(ep, tag, message);
    if (kind == Kind::kBcopy) return tag_bcopy(ep, tag, message, immediate);
    std::ranges::copy(message, memory.data());
    const uct_iov_t iov[] = {memory.iov(0, message.size() / 3),
                             memory.iov(message.size() / 3, message.size() - message.size() / 3)};
    return tag_zcopy(ep, tag, iov, completion, immediate);
}

std::size_t most(Kind kind, const uct_iface_attr_t& attr) {
    const auto& eager = attr.cap.tag.eager;
    return kind == Kind::kShort   ? eager.max_short
           : kind == Kind::kBcopy ? eager.max_bcopy
                                  : eager.max_zcopy;
}

// All kinds of sends, with short, medium and maximum lengths, cold and hot, with and without a
// receive.
TEST_F(TagTest, EveryByteArrives) {
    TagPair pair;
    Memory memory(pair.a.entity.host(), 16 * 1024);
    uint64_t seed = 0;
    for (const Kind kind : kKinds)
        for (const uint64_t immediate : {0, 5}) {
            if (kind == Kind::kShort && immediate != 0) continue;
            const std::size_t longest = most(kind, pair.a.entity.attr());
            for (const std::size_t length :
                 {std::size_t{0}, std::size_t{1}, std::size_t{8},
                  std::min<std::size_t>(77, longest / 2), longest - 1, longest})
                for (const bool expected : {true, false}) {
                    SCOPED_TRACE(std::string(name(kind)) + " " + std::to_string(length));
                    const uct_tag_t tag = 0xabcdef0000000000 + ++seed;
                    const Bytes message = pattern(seed, length);
                    Receive receive(pair.b, longest);
                    ASSERT_TRUE(!expected || receive.post(tag) == UCS_OK);
                    Completion completion;
                    bool waits = false;
                    ASSERT_TRUE(accepted(pair.all, [&] {
                        const ucs_status_t status =
                            send(pair.ep, kind, tag, message, memory, &completion, immediate);
                        waits = status == UCS_INPROGRESS;
                        return status;
                    }));
                    auto& box = pair.b.mailbox->messages;
                    ASSERT_TRUE(pair.until([&] {
                        return (receive.done() || !box.empty()) && (!waits || completion.calls);
                    }));
                    if (!expected) {
                        ASSERT_EQ(box.size(), 1u);
                        EXPECT_EQ(box[0].tag, tag);
                        EXPECT_EQ(box[0].immediate, immediate);
                        EXPECT_EQ(box[0].flags & (UCT_CB_PARAM_FLAG_FIRST | UCT_CB_PARAM_FLAG_MORE),
                                  unsigned{UCT_CB_PARAM_FLAG_FIRST});
                        EXPECT_TRUE(same(std::as_bytes(std::span(box[0].data)), message));
                        box.clear();
                        continue;
                    }
                    EXPECT_TRUE(box.empty());
                    EXPECT_EQ(receive.consumed, 1);
                    EXPECT_EQ(receive.completed, 1);
                    EXPECT_STATUS(UCS_OK, receive.status);
                    EXPECT_EQ(receive.tag, tag);
                    EXPECT_EQ(receive.immediate, immediate);
                    EXPECT_EQ(receive.length, length);
                    EXPECT_TRUE(same(receive.bytes(), message));
                    EXPECT_TRUE(receive.clean());
                }
        }
    const Counters counters = pair.close_and_count();
    EXPECT_EQ(counters["tag_matched"], seed / 2);
    EXPECT_EQ(counters["tag_unexpected"], seed / 2);
}

// UCP keeps such a message in place, with a header of its own in front.
TEST_F(TagTest, ADescriptorMayBeKept) {
    TagPair pair;
    pair.b.mailbox->keep = true;
    for (uint64_t i = 1; i <= 20; ++i) pair.send(i, pattern(i, 3000), i);
    ASSERT_TRUE(pair.until([&] { return pair.b.mailbox->messages.size() == 20; }));
    auto& kept = pair.b.mailbox->kept;
    ASSERT_EQ(kept.size(), 20u);
    for (uint64_t i = 1; i <= 20; ++i) EXPECT_TRUE(same(kept[i - 1], pattern(i, 3000)));
    pair.b.mailbox->release();
}

TEST_F(TagTest, OrderIsThatOfPosting) {
    TagPair pair;
    Receive full(pair.b, 8), any(pair.b, 8), later(pair.b, 8), other(pair.b, 8), last(pair.b, 8);
    ASSERT_STATUS(UCS_OK, full.post(0x101));
    ASSERT_STATUS(UCS_OK, other.post(0x202));
    ASSERT_STATUS(UCS_OK, any.post(0x100, 0xff00));
    ASSERT_STATUS(UCS_OK, later.post(0x101));
    ASSERT_STATUS(UCS_OK, last.post(0, 0));
    const struct {
        Receive& receive;
        uct_tag_t tag;
    } wanted[] = {{full, 0x101}, {any, 0x101}, {later, 0x101}, {last, 0x101}, {other, 0x202}};
    uint64_t seed = 0;
    for (const auto& [receive, tag] : wanted) {
        pair.send(tag, pattern(++seed, 8));
        ASSERT_TRUE(pair.until([&, &each = receive] { return each.done(); })) << seed;
        EXPECT_EQ(receive.tag, tag);
        EXPECT_TRUE(same(receive.bytes(), pattern(seed, 8)));
    }
    EXPECT_TRUE(pair.b.mailbox->messages.empty());
}

TEST_F(TagTest, TooLongAMessageIsTruncated) {
    TagPair pair;
    Receive receive(pair.b, 100);
    ASSERT_STATUS(UCS_OK, receive.post(1));
    pair.send(1, pattern(1, 101));
    ASSERT_TRUE(pair.until([&] { return receive.done(); }));
    EXPECT_STATUS(UCS_ERR_MESSAGE_TRUNCATED, receive.status);
    EXPECT_EQ(receive.length, 101u);
    EXPECT_EQ(receive.consumed, 1);
    EXPECT_TRUE(receive.clean());
    // A sender that waits for an answer gets one: the user has to check the length.
    Receive answered(pair.b, 100);
    ASSERT_STATUS(UCS_OK, answered.post(1));
    pair.send(1, pattern(2, 101), 9);
    ASSERT_TRUE(pair.until([&] { return answered.done(); }));
    EXPECT_STATUS(UCS_OK, answered.status);
    EXPECT_EQ(answered.immediate, 9u);
    EXPECT_EQ(answered.length, 101u);
    EXPECT_FALSE(answered.in_place);
    EXPECT_TRUE(answered.clean());
    EXPECT_EQ(pair.close_and_count()["tag_truncated"], 2u);
}

TEST_F(TagTest, CancelTellsFromProgress) {
    TagPair pair;
    Receive first(pair.b, 8), second(pair.b, 8);
    ASSERT_STATUS(UCS_OK, first.post(1));
    ASSERT_STATUS(UCS_OK, second.post(1));
    ASSERT_STATUS(UCS_OK, first.cancel(false));
    EXPECT_FALSE(first.done()) << "from within cancel";
    ASSERT_TRUE(pair.until([&] { return first.done(); }));
    EXPECT_STATUS(UCS_ERR_CANCELED, first.status);
    EXPECT_EQ(first.completed, 1);
    EXPECT_EQ(first.consumed, 0);
    pair.send(1, pattern(1, 8));
    ASSERT_TRUE(pair.until([&] { return second.done(); }));
    EXPECT_STATUS(UCS_OK, second.status);
    // The message does not complete the canceled receive again.
    EXPECT_EQ(first.completed, 1);
}

// With two such receives, the user could not tell for which one a message has come.
TEST_F(TagTest, OneTagAndMemoryIsPostedOnce) {
    TagPair pair;
    Receive receive(pair.b, 8), empty(pair.b, 0);
    ASSERT_STATUS(UCS_OK, receive.post(1));
    EXPECT_STATUS(UCS_ERR_ALREADY_EXISTS, receive.post(1));
    ASSERT_STATUS(UCS_OK, receive.cancel(true));
    ASSERT_STATUS(UCS_OK, receive.post(1)) << "by force it is over at once";
    ASSERT_STATUS(UCS_OK, receive.cancel(false));
    EXPECT_STATUS(UCS_ERR_ALREADY_EXISTS, receive.post(1)) << "it has not been told";
    ASSERT_TRUE(pair.until([&] { return receive.done(); }));
    EXPECT_EQ(receive.length, 8u) << "of one that is canceled: its room";
    ASSERT_STATUS(UCS_OK, receive.post(1));
    pair.send(1, pattern(1, 8));
    ASSERT_TRUE(pair.until([&] { return receive.completed == 2; }));
    ASSERT_STATUS(UCS_OK, receive.post(1));
    ASSERT_STATUS(UCS_OK, receive.cancel(true));
    // Receives without memory are not compared.
    ASSERT_STATUS(UCS_OK, empty.post(1));
    ASSERT_STATUS(UCS_OK, empty.post(1));
}

TEST_F(TagTest, MessageIsInTheReceivesMemory) {
    TagPair pair;
    for (const std::size_t length : {1, 8, 65, 1000, 4000}) {
        Receive receive(pair.b, length);
        ASSERT_STATUS(UCS_OK, receive.post(1));
        pair.send(1, pattern(length, length));
        ASSERT_TRUE(pair.until([&] { return receive.done(); }));
        EXPECT_TRUE(receive.in_place) << length;
        EXPECT_TRUE(same(receive.bytes(), pattern(length, length)));
        EXPECT_TRUE(receive.clean());
    }
}

// A user that names its features is offered tag matching only if it is among them.
TEST_F(TagTest, IsOfferedToThoseWhoWantIt) {
    constexpr uint64_t kTags = UCT_IFACE_FLAG_TAG_EAGER_SHORT | UCT_IFACE_FLAG_TAG_EAGER_BCOPY |
                               UCT_IFACE_FLAG_TAG_EAGER_ZCOPY | UCT_IFACE_FLAG_TAG_RNDV_ZCOPY;
    const auto offered = [](uint64_t features) {
        const Entity entity(Settings{{"TM_ENABLE", "y"}}, std::make_shared<Host>(),
                            [=](uct_iface_params_t& params) {
                                params.features = features;
                                if (features == 0)
                                    params.field_mask &= ~uint64_t{UCT_IFACE_PARAM_FIELD_FEATURES};
                            });
        return entity.attr().cap.flags & kTags;
    };
    EXPECT_EQ(offered(UCT_IFACE_FEATURE_TAG | UCT_IFACE_FEATURE_AM), kTags);
    EXPECT_EQ(offered(UCT_IFACE_FEATURE_PUT), 0u);
    EXPECT_EQ(offered(0), kTags) << "who does not say may need it";
}

// One call of progress takes a limited number of messages, however many have arrived.
TEST_F(TagTest, ProgressIsBounded) {
    NEEDS_BLOCKS();  // without them, a peer has fewer messages under way than a call takes
    constexpr std::size_t kMost = 128;
    TagPair pair;
    auto& messages = pair.b.mailbox->messages;
    for (uint64_t i = 0; i < 2000; ++i) pair.send(1, pattern(i, 8));
    ASSERT_TRUE(pair.until([&] { return messages.size() == 2000; }));
    for (int round = 0; round < 5; ++round) {
        messages.clear();
        // Messages that the receiver has taken make room once their credit has come back.
        std::size_t sent = 0;
        ASSERT_TRUE(pair.until([&] {
            if (messages.size() != sent) return false;
            messages.clear();
            for (sent = 0; sent < 2000 && tag_bcopy(pair.ep, 1, pattern(sent, 8)) == UCS_OK;) {
                ++sent;
                progress({&pair.a.entity});
            }
            return sent > kMost;
        }));
        std::size_t seen = 0;
        const auto end = Clock::now() + deadline();
        while (seen != sent && Clock::now() < end) {
            progress({&pair.b.entity});
            ASSERT_LE(messages.size() - seen, kMost);
            seen = messages.size();
        }
        EXPECT_EQ(seen, sent);
    }
}

TEST_F(TagTest, CancelByForceTellsNobody) {
    TagPair pair;
    Receive full(pair.b, 8), wild(pair.b, 8), twice(pair.b, 8);
    ASSERT_STATUS(UCS_OK, full.post(1));
    ASSERT_STATUS(UCS_OK, wild.post(1, 0xff));
    ASSERT_STATUS(UCS_OK, twice.post(1));
    ASSERT_STATUS(UCS_OK, full.cancel(true));
    ASSERT_STATUS(UCS_OK, wild.cancel(true));
    ASSERT_STATUS(UCS_OK, twice.cancel(false));
    ASSERT_STATUS(UCS_OK, twice.cancel(true));
    pair.send(1, pattern(1, 8));
    ASSERT_TRUE(pair.until([&] { return pair.b.mailbox->messages.size() == 1; }));
    linger(pair.all, milliseconds(5));
    for (const Receive* each : {&full, &wild, &twice}) {
        EXPECT_FALSE(each->done());
        EXPECT_TRUE(each->clean());
    }
    EXPECT_EQ(pair.close_and_count()["tag_canceled"], 3u);
}

// A callback may post the receive again.
TEST_F(TagTest, CallbacksMayPostAnew) {
    TagPair pair(Settings{{"tm_list_size", "1"}});
    Receive receive(pair.b, 8);
    receive.then = [&] { EXPECT_TRUE(receive.completed == 50 || receive.post(1) == UCS_OK); };
    ASSERT_STATUS(UCS_OK, receive.post(1));
    for (uint64_t i = 0; i < 50; ++i) pair.send(1, pattern(i, 8));
    ASSERT_TRUE(pair.until([&] { return receive.completed == 50; }));
    EXPECT_TRUE(pair.b.mailbox->messages.empty());
    EXPECT_TRUE(same(receive.bytes(), pattern(49, 8)));
}

TEST_F(TagTest, ThereIsALimit) {
    constexpr unsigned kMost = 5;
    TagPair pair(Settings{{"tm_list_size", std::to_string(kMost)}});
    std::deque<Receive> receives;
    for (unsigned i = 0; i < kMost; ++i) {
        receives.emplace_back(pair.b, 8);
        ASSERT_STATUS(UCS_OK, receives.back().post(i));
    }
    Receive more(pair.b, 8);
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, more.post(99));
    pair.send(3, pattern(1, 8));
    ASSERT_TRUE(pair.until([&] { return receives[3].done(); }));
    EXPECT_STATUS(UCS_OK, more.post(99));
    ASSERT_STATUS(UCS_OK, receives[0].cancel(true));
    EXPECT_STATUS(UCS_OK, receives[0].post(1));
    EXPECT_STATUS(UCS_ERR_EXCEEDS_LIMIT, receives[3].post(1));
    EXPECT_EQ(pair.close_and_count()["tag_refused"], 2u);
}

// Each interface gets its own messages.
TEST_F(TagTest, InterfacesDoNotMix) {
    TagPair pair;
    TagEntity other;
    const Group all{&pair.a.entity, &pair.b.entity, &other.entity};
    const Endpoint there = pair.a.entity.connect(other.entity);
    Receive here(pair.b, 8), elsewhere(other, 8);
    ASSERT_STATUS(UCS_OK, here.post(1));
    ASSERT_STATUS(UCS_OK, elsewhere.post(1));
    ASSERT_TRUE(accepted(all, [&] { return tag_bcopy(there, 1, pattern(1, 8)); }));
    ASSERT_TRUE(eventually(all, [&] { return elsewhere.done(); }));
    EXPECT_FALSE(here.done());
}

// Tagged and active messages of one endpoint stay in order, hot or cold.
TEST_F(TagTest, InOrderWithActiveMessages) {
    constexpr uint64_t kCount = 2000;
    TagPair pair(Settings{{"block_min", "4096"}, {"BLOCK_MAX", "4k"}});
    std::vector<uint64_t> order;
    pair.b.entity.handle(3, [&](Bytes bytes) {
        uint64_t number;
        std::memcpy(&number, bytes.data(), sizeof(number));
        order.push_back(number);
    });
    pair.b.mailbox->on_message = [&](const Unexpected& each) { order.push_back(each.tag); };
    std::vector<uint64_t> message(200);
    for (uint64_t i = 0; i < kCount; ++i) {
        message[0] = i;
        const Bytes bytes = std::as_bytes(std::span(message)).first(8 + i * 37 % 1000);
        if (i % 3 != 0)
            pair.send(i, bytes);
        else
            ASSERT_TRUE(accepted(pair.all, [&] { return am_bcopy(pair.ep, 3, bytes); }));
    }
    ASSERT_TRUE(pair.until([&] { return order.size() == kCount; }));
    for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(order[i], i);
}

}  // namespace
}  // namespace uct_test
