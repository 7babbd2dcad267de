// SPDX-License-Identifier: BSD-3-Clause
// The records that a connection's send queue keeps of its work requests.
#include "tern/connection/send_queue.h"

#include <gtest/gtest.h>

#include <deque>

#include "schedules.h"

namespace tern {
namespace {

void* cookie(uint32_t number) {
    return reinterpret_cast<void*>(uintptr_t{number} + (uintptr_t{1} << 32));
}

// Posts and completes work requests with records and waiters, across the wrap of their numbers.
// Each comes off once, in order.
void cross(uint32_t depth, Random& random) {
    SendQueue queue;
    const uint32_t first = 0 - depth * 3;
    queue.open(depth, first);
    EXPECT_TRUE(queue.idle());
    EXPECT_EQ(queue.room(), depth);
    std::deque<void*> records, waiters;
    uint32_t completed = first;
    while (static_cast<int32_t>(completed - depth * 3) < 0) {
        for (uint64_t posts = random.between(0, queue.room()); posts > 0; --posts) {
            queue.posted(queue.signal_due(), true);
            if (random.chance(80)) {
                records.push_back(cookie(queue.next() - 1));
                queue.record(nullptr, records.back());
            }
        }
        ASSERT_LE(queue.outstanding(), depth);
        if (random.chance(20) && !queue.idle()) {
            waiters.push_back(cookie(queue.next()));
            queue.wait({waiters.back()});
        }
        completed += static_cast<uint32_t>(random.between(0, queue.outstanding()));
        if (completed != queue.next() - queue.outstanding()) queue.complete(completed - 1);
        SendQueue::Record record;
        while (queue.take(record)) {
            ASSERT_FALSE(records.empty());
            ASSERT_EQ(record.cookie, records.front()) << "depth " << depth;
            records.pop_front();
        }
        void* waiter = nullptr;
        while (queue.take_waiter(waiter)) {
            ASSERT_FALSE(waiters.empty());
            ASSERT_EQ(waiter, waiters.front());
            waiters.pop_front();
        }
        const bool any = queue.any_cookie([](void*) { return true; });
        EXPECT_EQ(any, !records.empty());
    }
    queue.complete(queue.next() - 1);
    SendQueue::Record record;
    while (queue.take(record)) {
        ASSERT_FALSE(records.empty());
        ASSERT_EQ(record.cookie, records.front());
        records.pop_front();
    }
    EXPECT_TRUE(records.empty());
    EXPECT_TRUE(queue.idle());
}

// Places for control frames are kept from data, one or several at a time.
TEST(SendQueue, KeepsPlaces) {
    SendQueue queue;
    queue.open(10);
    EXPECT_FALSE(queue.takes_data(1));  // none is for data at first
    queue.reserve(2);
    for (uint32_t left = 8; left != 0; --left) {
        EXPECT_TRUE(queue.takes_data());
        EXPECT_TRUE(queue.takes_data(left));
        EXPECT_FALSE(queue.takes_data(left + 1));
        queue.posted(queue.signal_due(), true);
    }
    EXPECT_FALSE(queue.takes_data());
    EXPECT_FALSE(queue.takes_data(1));
}

TEST(SendQueue, NothingIsTakenAsUsualWhileAFrameIsHeldBack) {
    SendQueue queue;
    queue.open(64);
    queue.reserve(4);
    queue.posted(true, true);
    queue.posted(false, true);
    queue.hold(true);
    EXPECT_TRUE(queue.held() && !queue.takes_frames() && !queue.takes_unsignaled());
    EXPECT_TRUE(queue.takes_data() && !queue.last_is_signaled() && !queue.users_idle());
    queue.complete(0);
    EXPECT_TRUE(queue.held() && !queue.takes_frames() && !queue.takes_unsignaled());
    queue.hold(false);
    EXPECT_TRUE(!queue.held() && queue.takes_frames() && queue.takes_unsignaled());
}

// Frames may wait behind so many work requests that are certainly under way.
TEST(BatchMarks, CountFromTheFirstOneThatIsNotComplete) {
    SendQueue queue;
    queue.open(64, UINT32_MAX - 2);
    queue.reserve(4);
    queue.change_marks([](BatchMarks& marks) { marks.enable(4, 64); });
    const auto due = [&] { return queue.marks().due(queue.next()); };
    const auto mark_due = [&] { return queue.marks().mark_due(queue.next()); };
    for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(queue.takes_frames() && !mark_due() && !due());
        queue.posted_unsignaled(1);
    }
    // All of them may be complete, but nobody knows.
    EXPECT_TRUE(!queue.takes_frames() && queue.takes_unsignaled());
    EXPECT_TRUE(mark_due() && !due());
    queue.posted(true, true);
    const uint32_t mark = queue.next();
    queue.change_marks([=](BatchMarks& marks) { marks.mark(mark); });
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(queue.takes_frames() && !mark_due() && !due());
        queue.posted_unsignaled(1);
    }
    EXPECT_TRUE(due() && !queue.takes_frames() && !mark_due());
    queue.change_marks([=](BatchMarks& marks) { marks.see(mark); });
    EXPECT_TRUE(!due() && queue.takes_frames());
    EXPECT_EQ(queue.outstanding(), 8u) << "complete() is still to come";
}

TEST(BatchMarks, EndOneAfterTheOther) {
    BatchMarks marks;
    marks.open(0);
    marks.enable(2, 2);
    for (const uint32_t next : {1u, 2u, 3u}) marks.mark(next);
    EXPECT_TRUE(marks.due(3));
    marks.see(1);
    EXPECT_FALSE(marks.due(3)) << "only the last mark is known now";
    EXPECT_TRUE(marks.due(4));
    marks.see(4);
    EXPECT_TRUE(!marks.due(4) && !marks.mark_due(4) && marks.first_stop(10) == 6);
    EXPECT_TRUE(marks.mark_due(6));
}

TEST(BatchMarks, SufficeAloneInABurst) {
    BatchMarks marks;
    marks.open(0);
    marks.enable(4, 16);
    marks.mark(10);
    EXPECT_TRUE(!marks.due(10) && marks.first_stop(100) == 13);
    marks.hurry();
    EXPECT_TRUE(marks.due(10) && marks.first_stop(100) == 10);
    marks.looked(false);
    EXPECT_TRUE(!marks.due(12) && marks.due(13));
    marks.hurry();
    marks.polled(10);
    EXPECT_EQ(marks.first_stop(100), 14u) << "the burst is over";
}

TEST(BatchMarks, AreFartherApartAfterEachLookInVain) {
    BatchMarks marks;
    marks.open(0);
    marks.enable(2, 5);
    const auto distance = [&] {
        uint32_t next = 1;
        while (!marks.mark_due(next)) ++next;
        return next;
    };
    EXPECT_EQ(distance(), 2u);
    marks.looked(true);
    EXPECT_EQ(distance(), 4u);
    EXPECT_EQ(marks.first_stop(100), 4u);
    marks.looked(true);
    EXPECT_EQ(distance(), 5u);
    marks.mark(10);
    marks.polled(9);
    EXPECT_EQ(marks.first_stop(100), 14u);
    marks.polled(10);
    EXPECT_EQ(marks.first_stop(100), 12u);
    marks.looked(true);
    EXPECT_EQ(marks.first_stop(100), 14u);
    marks.looked(false);
    EXPECT_EQ(marks.first_stop(100), 12u);
}

TEST(BatchMarks, AreOffAtFirst) {
    BatchMarks marks;
    marks.open(0);
    EXPECT_TRUE(!marks.due(100) && !marks.mark_due(100) && marks.first_stop(100) == 100);
}

TEST(SendQueue, NumbersStartOverAfterTheLast) {
    each_schedule(300, [](Random random) -> std::string {
        cross(static_cast<uint32_t>(random.between(1, 300)), random);
        return testing::Test::HasFailure() ? "see above" : "";
    });
}

TEST(SendQueue, FailuresAreToldApartAcrossTheLastNumber) {
    SendQueue queue;
    queue.open(10, 0 - 3u);
    for (int i = 0; i < 6; ++i) queue.posted(false, i < 5);
    queue.complete(0 - 3u);
    queue.fail(1);
    EXPECT_TRUE(queue.users_lost());
    SendQueue other;
    other.open(10, 0 - 3u);
    for (int i = 0; i < 6; ++i) other.posted(false, i < 2);
    other.fail(0);
    EXPECT_FALSE(other.users_lost()) << "what has failed was nobody's";
}

TEST(SendQueue, WaitersMayBeGivenUp) {
    SendQueue queue;
    queue.open(8);
    queue.posted(true, true);
    int one = 0, other = 0;
    queue.wait({cookie(1), &one});
    queue.wait({cookie(2), &other});
    queue.wait({cookie(3), &one});
    void* waiter = nullptr;
    EXPECT_FALSE(queue.take_waiter(waiter));
    for (const int each : {1, 3}) {
        EXPECT_TRUE(queue.drop_waiter(&one, waiter));
        EXPECT_EQ(waiter, cookie(each));
    }
    EXPECT_FALSE(queue.drop_waiter(&one, waiter));
    queue.complete(0);
    EXPECT_TRUE(queue.take_waiter(waiter)) << "the others' stay";
    EXPECT_EQ(waiter, cookie(2));
    EXPECT_FALSE(queue.has_waiters());
}

TEST(SendQueue, WaitersAreTakenInOrderThoughSomeAlwaysWait) {
    SendQueue queue;
    queue.open(8);
    uintptr_t waiting = 0;
    uintptr_t taken = 0;
    for (uint32_t number = 0; number < 1000; ++number) {
        queue.posted(true, true);
        queue.wait({cookie(++waiting), nullptr});
        queue.posted(true, true);
        queue.wait({cookie(++waiting), nullptr});
        queue.complete(2 * number);
        for (void* waiter = nullptr; queue.take_waiter(waiter);) EXPECT_EQ(waiter, cookie(++taken));
        EXPECT_EQ(taken, waiting - 1);
    }
}

}  // namespace
}  // namespace tern
