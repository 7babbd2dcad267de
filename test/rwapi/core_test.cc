// SPDX-License-Identifier: BSD-3-Clause

// The pure core of rwapi: handles, operations, slots, credit, addresses and keys.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "common/seed.h"
#include "common/ucx/release.h"
#include "rwapi/core/credit.h"
#include "rwapi/core/handles.h"
#include "rwapi/core/key.h"
#include "rwapi/core/messages.h"
#include "rwapi/core/net.h"
#include "rwapi/core/operation_pool.h"
#include "rwapi/core/published_address.h"
#include "rwapi/core/slots.h"
#include "rwapi/core/turns.h"

namespace rwapi {
namespace {

TEST(HandleTable, KnowsHandlesOfThePast) {
    HandleTable<int> table;
    int error;
    EXPECT_EQ(table.find(0), nullptr) << "there are no places";
    const uint64_t handle = table.add(5), second = table.add(6);
    ASSERT_NE(table.find(handle, error), nullptr);
    EXPECT_EQ(*table.find(handle), 5);
    EXPECT_EQ(*table.find(second), 6);
    for (const uint64_t foreign :
         {uint64_t{0}, UINT64_MAX, uint64_t{2}, handle + 2, handle + (uint64_t{1} << 32)}) {
        EXPECT_EQ(table.find(foreign), nullptr);
        EXPECT_EQ(table.find(foreign, error), nullptr);
        EXPECT_EQ(error, RWAPI_ERR_FOREIGN);
    }
    table.remove(handle);
    EXPECT_EQ(table.find(UINT64_MAX), nullptr);
    EXPECT_EQ(table.find(handle, error), nullptr);
    EXPECT_EQ(error, RWAPI_ERR_STALE);
    const uint64_t next = table.add(7);
    EXPECT_NE(next, handle);
    EXPECT_EQ(table.find(handle, error), nullptr);
    EXPECT_EQ(error, RWAPI_ERR_STALE);
    EXPECT_EQ(*table.find(next, error), 7);
}

TEST(HandleTable, DoesNotMoveObjects) {
    HandleTable<int> table;
    const uint64_t first = table.add(1);
    const int* const object = table.find(first);
    for (int i = 0; i < 10'000; ++i) table.add(i);
    EXPECT_EQ(table.find(first), object);
}

TEST(HandleTable, EndsWithTheGenerations) {
    HandleTable<int> table(Handle::kMaxGeneration - 1);
    const uint64_t last = table.add(1);
    EXPECT_NE(table.find(last), nullptr);
    table.remove(last);
    EXPECT_NE(Handle::index_of(table.add(2)), Handle::index_of(last)) << "in another place";
}

// However many contexts come and go between.
TEST(IdRanges, LivingContextsDifferInTheirTags) {
    constexpr int kTags = (1 << IdRange::kTagBits) - 1;
    IdRanges ranges;
    const IdRange first = ranges.take();
    for (int i = 0; i < 2 * kTags; ++i) {
        const IdRange next = ranges.take();
        ASSERT_NE(next.tag, 0u);
        ASSERT_NE(next.tag, first.tag);
        ranges.give_back({next.tag, next.used + 3});
    }
    EXPECT_EQ(ranges.take().used, 6u * kTags) << "of those that have ended";
    for (int i = 2; i < kTags; ++i) ASSERT_NE(ranges.take().tag, 0u);
    EXPECT_EQ(ranges.take().tag, 0u) << "all are in use";
    ranges.give_back(first);
    EXPECT_EQ(ranges.take().tag, first.tag);
}

// Ids of contexts that have ended are never taken for those of a later one with the same tag.
TEST(OperationPool, TellsContextsOfThePastApart) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    IdRanges ranges;
    std::vector<rwapi_id> past_ids, ids;
    for (int round = 0; round < 300; ++round) {
        OperationPool<int> operations(ranges, 64);
        for (uint64_t uses = random() % 6; uses > 0; --uses) {
            int* const operation = operations.allocate();
            ids.push_back(operations.id(operation));
            ASSERT_GT(ids.back(), 0);
            operations.finish(operation, RWAPI_OK, true);
        }
        for (const rwapi_id id : past_ids) ASSERT_EQ(operations.test(id), RWAPI_ERR_FOREIGN);
        for (const rwapi_id id : ids) ASSERT_EQ(operations.test(id), 1);
        past_ids.insert(past_ids.end(), ids.begin(), ids.end());
        ids.clear();
    }
}

// Against a list of all ids that were ever given.
TEST(OperationPool, KeepsResultsAsLongAsItCan) {
    constexpr uint32_t kPlaces = 8;
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    IdRanges ranges;
    OperationPool<int> pool(ranges, kPlaces);
    std::map<rwapi_id, int*> under_way;
    std::deque<std::pair<rwapi_id, int>> over;  // the latest last
    for (int step = 0; step < 20'000; ++step) {
        if (random() % 2 == 0) {
            int* const operation = pool.allocate();
            ASSERT_EQ(operation == nullptr, under_way.size() == kPlaces);
            if (operation == nullptr) continue;
            const rwapi_id id = pool.id(operation);
            ASSERT_GT(id, 0);
            ASSERT_TRUE(under_way.emplace(id, operation).second);
            ASSERT_EQ(pool.test(id), 0);
        } else if (!under_way.empty()) {
            auto at = under_way.begin();
            std::advance(at, random() % under_way.size());
            const int result = random() % 2 == 0 ? RWAPI_OK : RWAPI_ERR_PEER;
            pool.finish(at->second, result, true);
            over.emplace_back(at->first, result == RWAPI_OK ? 1 : result);
            under_way.erase(at);
        }
        for (const auto& [id, operation] : under_way) ASSERT_EQ(pool.test(id), 0);
        // The places that are free hold the latest results, one each.
        const size_t kept = std::min<size_t>(over.size(), kPlaces - under_way.size());
        for (size_t i = 0; i < kept; ++i) {
            const auto& [id, result] = over[over.size() - 1 - i];
            ASSERT_EQ(pool.test(id), result);
        }
        ASSERT_EQ(pool.in_use(), under_way.size());
        if (over.size() > 2 * kPlaces) over.pop_front();
    }
}

TEST(OperationPool, AnErrorThatNobodyHasAskedForIsHandedOnOnce) {
    IdRanges ranges;
    OperationPool<int> pool(ranges, 1);
    const auto next = [&] {
        int lost = RWAPI_OK;
        EXPECT_NE(pool.allocate(&lost), nullptr);
        return lost;
    };
    int place = 0;
    int* operation = pool.allocate();
    *operation = place = 7;
    pool.finish(operation, RWAPI_ERR_STALE, true);
    EXPECT_EQ(next(), RWAPI_ERR_STALE);
    EXPECT_EQ(*operation, place) << "it is still known whose error it is";
    pool.finish(operation, RWAPI_OK, true);
    EXPECT_EQ(next(), RWAPI_OK);
    pool.finish(operation, RWAPI_ERR_STALE, false);
    EXPECT_EQ(next(), RWAPI_OK) << "nobody had its id";
    const rwapi_id id = pool.id(operation);
    pool.finish(operation, RWAPI_ERR_STALE, true);
    EXPECT_EQ(pool.test(id), RWAPI_ERR_STALE);
    EXPECT_EQ(pool.test(id), RWAPI_ERR_STALE);
    EXPECT_EQ(next(), RWAPI_OK) << "the user has it";
}

TEST(OperationPool, RefusesIdsThatItNeverGave) {
    IdRanges ranges;
    OperationPool<int> pool(ranges, 4), other(ranges, 4);
    int* const operation = pool.allocate();
    const rwapi_id id = pool.id(operation);
    EXPECT_EQ(pool.test(0), 1);
    EXPECT_EQ(pool.test(-1), RWAPI_ERR_INVALID);
    EXPECT_EQ(pool.test(id + 1), RWAPI_ERR_FOREIGN);          // a place not used yet
    EXPECT_EQ(pool.test(id + 4), RWAPI_ERR_FOREIGN);          // no such place
    EXPECT_EQ(pool.test(id + (1 << 20)), RWAPI_ERR_FOREIGN);  // the future
    EXPECT_EQ(pool.test(other.id(other.allocate())), RWAPI_ERR_FOREIGN);
    pool.finish_unnamed(operation);
    EXPECT_EQ(pool.allocate(), operation);
}

TEST(OperationPool, GoesOnBehindTheGenerationsThatFit) {
    constexpr uint64_t kMany = (uint64_t{1} << 33) - 2;
    IdRanges ranges(kMany);
    rwapi_id past = 0;
    auto pool = std::make_unique<OperationPool<int>>(ranges, 2);
    for (int i = 0; i < 8; ++i) {
        int* const operation = pool->allocate();
        const rwapi_id id = pool->id(operation);
        ASSERT_GT(id, 0);
        EXPECT_EQ(pool->test(id), 0);
        if (past != 0) {
            EXPECT_EQ(pool->test(past), 1);
        }
        pool->finish(operation, RWAPI_OK, true);
        past = id;
    }
    pool.reset();
    EXPECT_EQ(ranges.take().used, kMany + 4);
}

TEST(Slots, FindsTheFirstThatIsSet) {
    Slots slots(200);
    EXPECT_EQ(slots.find(0, 200), 200u);
    slots.notify(130, 7);
    slots.notify(63, 8);
    EXPECT_EQ(slots.find(0, 200), 63u);
    EXPECT_EQ(slots.find(64, 136), 130u);
    EXPECT_EQ(slots.find(64, 66), 130u);  // the end, though 130 is set
    EXPECT_EQ(slots.find(64, 67), 130u);
    EXPECT_EQ(slots.find(131, 69), 200u);
    slots.notify(130, 9);
    EXPECT_EQ(slots.value(130), 9u);
    EXPECT_EQ(slots.reset(130), 2u);
    EXPECT_FALSE(slots.is_set(130));
    EXPECT_EQ(slots.reset(130), 0u);
    EXPECT_TRUE(slots.has(199) && slots.has(199, 1) && slots.has(200, 0));
    EXPECT_FALSE(slots.has(200) || slots.has(199, 2) || slots.has(1, UINT32_MAX));
}

// Both sides, with messages and credit in flight, in random order.
TEST(Credit, LosesNothingAndNeverStops) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    for (const uint32_t credit : {1u, 2u, 3u, 64u}) {
        SmallSender sender;
        SmallReceiver receiver;
        sender.open(credit);
        receiver.open(credit);
        std::deque<uint32_t> messages, credits;  // in flight
        Inbox inbox;
        inbox.add_sender(credit);
        uint32_t sent = 0, received = 0;
        int idle = 0;
        while (received < 1000) {
            ASSERT_LT(++idle, 1000) << "nothing moves with a credit of " << credit;
            switch (random() % 4) {
                case 0:
                    if (sender.spend()) messages.push_back(sent++);
                    break;
                case 1:
                    if (messages.empty()) break;
                    ASSERT_TRUE(receiver.on_arrival());
                    inbox.push({messages.front(), {}});
                    messages.pop_front();
                    break;
                case 2: {
                    Inbox::Message message;
                    if (!inbox.pop(message)) break;
                    ASSERT_EQ(message.node, received++);
                    idle = 0;
                    if (receiver.on_received()) {
                        ASSERT_TRUE(receiver.is_due());
                        credits.push_back(receiver.owed());
                        receiver.on_returned(credits.back());
                        ASSERT_FALSE(receiver.is_due());
                    }
                    break;
                }
                case 3:
                    if (credits.empty()) break;
                    ASSERT_TRUE(sender.add(credits.front()));
                    credits.pop_front();
                    break;
            }
        }
    }
}

TEST(Credit, DetectsPeersThatReturnMore) {
    SmallSender sender;
    sender.open(4);
    EXPECT_FALSE(sender.add(1));
    EXPECT_TRUE(sender.spend());
    EXPECT_TRUE(sender.add(1));
    SmallReceiver receiver;
    receiver.open(2);
    EXPECT_TRUE(receiver.on_arrival());
    EXPECT_TRUE(receiver.on_arrival());
    EXPECT_FALSE(receiver.on_arrival());
}

TEST(Inbox, GrowsInOrder) {
    Inbox inbox;
    Inbox::Message message;
    EXPECT_FALSE(inbox.pop(message));
    inbox.add_sender(3);
    for (uint32_t i = 0; i < 3; ++i) inbox.push({i, {}});
    ASSERT_TRUE(inbox.pop(message));
    inbox.push({3, {}});  // around the end
    inbox.add_sender(3);
    for (uint32_t i = 4; i < 7; ++i) inbox.push({i, {}});
    for (uint32_t i = 1; i < 7; ++i) {
        ASSERT_TRUE(inbox.pop(message));
        EXPECT_EQ(message.node, i);
    }
}

TEST(Inbox, CopiesItsMessagesSeldom) {
    constexpr uint32_t kSenders = 1000, kCredit = 64;
    Inbox inbox;
    size_t copied = 0;
    for (uint32_t i = 0; i < kSenders; ++i) {
        const size_t room = inbox.room();
        inbox.add_sender(kCredit);
        if (inbox.room() != room) copied += room;
    }
    EXPECT_GE(inbox.room(), size_t{kSenders} * kCredit);
    EXPECT_LE(inbox.room(), size_t{2} * kSenders * kCredit);
    EXPECT_LE(copied, size_t{2} * kSenders * kCredit);
}

TEST(Turns, EachComesInItsTurn) {
    for (const size_t count : {0u, 1u, 15u, 16u, 17u, 1000u}) {
        constexpr size_t kMost = 16;
        Turns turns;
        std::vector<unsigned> visits(count);
        for (size_t round = 0; round < count; ++round) {
            size_t visited = 0;
            turns.round(count, kMost, [&](size_t i) {
                ++visits[i];
                ++visited;
            });
            EXPECT_EQ(visited, std::min(count, kMost));
        }
        const unsigned each = static_cast<unsigned>(std::min(count, kMost));
        for (size_t i = 0; i < count; ++i) EXPECT_EQ(visits[i], each) << i << " of " << count;
    }
}

TEST(Turns, TheNumberMayShrink) {
    Turns turns;
    turns.round(100, 50, [](size_t) {});
    std::vector<size_t> visited;
    turns.round(3, 16, [&](size_t i) { visited.push_back(i); });
    EXPECT_EQ(visited, (std::vector<size_t>{0, 1, 2}));
}

TEST(NetAddress, SurvivesAdditionAndFindsForgeries) {
    constexpr uint64_t kIncarnation = 0x123456789abcdef0;
    const NetAddress address{NetAddress::kMaxNode, Handle::kMaxGeneration, 12345, 99};
    const rwapi_net net = address.pack(kIncarnation);
    ASSERT_TRUE(NetAddress::made_by(kIncarnation, net));
    const NetAddress found = NetAddress::unpack(net);
    EXPECT_EQ(found.node, address.node);
    EXPECT_EQ(found.generation, address.generation);
    EXPECT_EQ(found.index, address.index);
    EXPECT_EQ(found.offset, 99u);
    for (int bit = 0; bit < 64; ++bit) {
        rwapi_net forged = net;
        forged.word[0] ^= uint64_t{1} << bit;
        EXPECT_FALSE(NetAddress::made_by(kIncarnation, forged)) << bit;
    }
    EXPECT_FALSE(NetAddress::made_by(kIncarnation, rwapi_net{}));
}

// 20 bits of a hash: one of a million contexts takes another one's address.
TEST(NetAddress, IsOfOneIncarnation) {
    std::mt19937_64 random(1);
    const rwapi_net net = NetAddress{3, 1, 0, 0}.pack(random());
    int taken = 0;
    for (int i = 0; i < 1'000'000; ++i) taken += NetAddress::made_by(random(), net) ? 1 : 0;
    EXPECT_LT(taken, 10);
}

// Contexts of a process mostly begin with the same regions.
TEST(NetAddress, IsOfOneContextOfAProcess) {
    std::mt19937_64 random(1);
    const uint64_t process = random();
    std::vector<uint64_t> incarnations;
    std::vector<rwapi_net> nets;
    for (int i = 0; i < 3000; ++i) {
        incarnations.push_back(make_incarnation(random(), process, static_cast<uint64_t>(i)));
        nets.push_back(NetAddress{0, 1, 0, 0}.pack(incarnations.back()));
    }
    int taken = 0;
    for (size_t i = 0; i < nets.size(); ++i)
        for (size_t j = 0; j < nets.size(); ++j)
            taken += NetAddress::made_by(incarnations[j], nets[i]) ? 1 : 0;
    EXPECT_EQ(taken, 3000);  // its own only
}

TEST(Bounds, DoNotOverflow) {
    EXPECT_TRUE(within(0, 10, 10) && within(10, 0, 10) && within(3, 7, 10));
    EXPECT_FALSE(within(0, 11, 10) || within(11, 0, 10) || within(4, 7, 10));
    EXPECT_FALSE(within(UINT64_MAX, 2, 10) || within(2, UINT64_MAX, 10) ||
                 within(UINT64_MAX, UINT64_MAX, UINT64_MAX - 1));
}

TEST(Key, FindsEveryDamage) {
    Key key{};
    key.incarnation = 0x123456789abcdef0;
    key.address = 0x7f0000001000;
    key.length = 77;
    key.node = 3;
    key.index = 9;
    key.generation = 11;
    key.slots = 1024;
    key.rights = RWAPI_READ | RWAPI_SIGNAL;
    key.rkey_length = 20;
    for (size_t i = 0; i < 20; ++i) key.rkey[i] = static_cast<std::byte>(i);
    std::array<std::byte, Key::kMaxBytes> bytes{};
    const size_t size = key.pack(bytes);
    ASSERT_GT(size, 20u);
    EXPECT_EQ(key.pack(std::span(bytes).first(size - 1)), 0u);
    ASSERT_EQ(key.pack(bytes), size);
    const auto whole = std::span<const std::byte>(bytes).first(size);
    Key found;
    ASSERT_TRUE(found.unpack(whole));
    EXPECT_EQ(found.incarnation, key.incarnation);
    EXPECT_EQ(found.address, key.address);
    EXPECT_EQ(found.length, 77u);
    EXPECT_EQ(found.generation, 11u);
    EXPECT_EQ(found.rights, key.rights);
    EXPECT_EQ(std::memcmp(found.rkey.data(), key.rkey.data(), 20), 0);
    for (size_t length = 0; length < size; ++length)
        EXPECT_FALSE(found.unpack(whole.first(length))) << length;
    EXPECT_FALSE(found.unpack(std::span<const std::byte>(bytes).first(size + 1)));
    for (size_t bit = 0; bit < 8 * size; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        EXPECT_FALSE(found.unpack(whole)) << bit;
        bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
    key.rights = kRights;
    ASSERT_EQ(key.pack(bytes), size);
    EXPECT_TRUE(found.unpack(whole));
    key.rights = kRights + 1;
    ASSERT_EQ(key.pack(bytes), size);
    EXPECT_FALSE(found.unpack(whole)) << "a right that is not known";
}

PublishedAddress address_of_parts(size_t device, size_t interface, size_t wireup) {
    PublishedAddress address;
    address.header.incarnation = 7;
    const size_t lengths[] = {device, interface, wireup, wireup};
    for (size_t i = 0; i < 4; ++i) address.parts[i].assign(lengths[i], static_cast<std::byte>(i));
    return address;
}

TEST(PublishedAddress, IsTakenWholeOnly) {
    const PublishedAddress address = address_of_parts(5, 255, 3);
    std::vector<std::byte> bytes = address.pack();
    PublishedAddress found;
    ASSERT_TRUE(found.unpack(bytes));
    EXPECT_EQ(found.header.incarnation, 7u);
    EXPECT_EQ(found.parts, address.parts);
    for (size_t length = 0; length < bytes.size(); ++length)
        EXPECT_FALSE(found.unpack(std::span(bytes).first(length))) << length;
    bytes.push_back({});
    EXPECT_FALSE(found.unpack(bytes));
    bytes.pop_back();
    bytes[0] ^= std::byte{1};
    EXPECT_FALSE(found.unpack(bytes));
}

TEST(PublishedAddress, HasThePartsOfTheOwnOne) {
    const PublishedAddress own = address_of_parts(9, 8, 0);
    EXPECT_TRUE(address_of_parts(3, 8, 0).fits(own)) << "an address of another kind of port";
    EXPECT_FALSE(address_of_parts(0, 17, 0).fits(own));
    EXPECT_FALSE(address_of_parts(17, 0, 0).fits(own));
    EXPECT_FALSE(address_of_parts(9, 8, 1).fits(own));
    EXPECT_FALSE(own.fits(address_of_parts(9, 8, 1)));
}

TEST(Messages, AreAsLongAsTheyShould) {
    std::array<std::byte, 64> bytes{};
    Header header{3, 4, 1, 0};
    const uint64_t word = header.pack();
    std::memcpy(bytes.data(), &word, 8);
    Notification notification;
    constexpr size_t kSize = sizeof(Header) + sizeof(Notification);
    ASSERT_TRUE(parse(std::span<const std::byte>(bytes).first(kSize), header, notification));
    EXPECT_EQ(header.node, 3u);
    EXPECT_EQ(header.credit, 4u);
    EXPECT_EQ(header.kind, 1u);
    EXPECT_FALSE(parse(std::span<const std::byte>(bytes).first(kSize - 1), header, notification));
    EXPECT_FALSE(parse(std::span<const std::byte>(bytes).first(kSize + 1), header, notification));
    EXPECT_EQ(node_at(bytes), 3u);
    EXPECT_EQ(kind_at(bytes), NotificationKind::kSet);
    const Notification plain{Handle::pack(1, 2), 3, 4, 5};
    std::memcpy(bytes.data() + sizeof(Header), &plain, sizeof plain);
    const auto read = notification_at(bytes);
    EXPECT_TRUE(Handle::index_of(read.region) == 1 && Handle::generation_of(read.region) == 2 &&
                read.bytes == 3 && read.place == 4 && read.value == 5);
}

TEST(Errors, AllHaveNames) {
    for (int error = RWAPI_OK; error >= RWAPI_ERR_BUSY; --error)
        EXPECT_STRNE(rwapi_strerror(error), "unknown error") << error;
    EXPECT_STREQ(rwapi_strerror(RWAPI_ERR_BUSY - 1), "unknown error");
}

TEST(UcxRelease, OfAnotherLayoutOrUnknown) {
    EXPECT_EQ(callback_bytes({0, 20}), 0u);
    EXPECT_EQ(callback_bytes({1, 12}), 0u);
    for (unsigned minor = 13; minor <= 15; ++minor) EXPECT_EQ(callback_bytes({1, minor}), 24u);
    for (unsigned minor = 16; minor <= 22; ++minor) EXPECT_EQ(callback_bytes({1, minor}), 16u);
    EXPECT_EQ(callback_bytes({1, 23}), 0u);
    EXPECT_EQ(callback_bytes({2, 14}), 0u);
}

}  // namespace
}  // namespace rwapi
