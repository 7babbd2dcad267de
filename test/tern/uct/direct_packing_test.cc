// SPDX-License-Identifier: BSD-3-Clause
// Messages that are packed for the direct path while their receives are canceled.
#include "direct.h"
#include "traffic.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace uct_test {
namespace {

// A message whose pack callback acts, and counts its calls: UCP packs the bytes behind the message
// if it is called again.
class PackedOnce {
  public:
    PackedOnce(uint64_t seed, std::size_t length, std::function<void()> then = {})
        : message_(length), then_(std::move(then)) {
        fill(message_, seed);
    }
    ucs_status_t send(const Endpoint& ep) {
        const ssize_t sent = uct_ep_tag_eager_bcopy(ep.get(), kTag, 0, pack, this, 0);
        return sent < 0 ? static_cast<ucs_status_t>(sent) : UCS_OK;
    }
    int calls = 0;

  private:
    static std::size_t pack(void* to, void* self) {
        auto& it = *static_cast<PackedOnce*>(self);
        ++it.calls;
        memcpy(to, it.message_.data(), it.message_.size());
        if (it.then_) it.then_();
        return it.message_.size();
    }

    std::vector<std::byte> message_;
    std::function<void()> then_;
};

// The grant goes between the question whether there is one and the sending.
TEST_F(DirectTest, AMessageIsPackedOnceIfItsReceiveIsCanceledMeanwhile) {
    for (const bool exhausted : {false, true}) {
        TagPair pair(direct());
        pair.b.entity.handle(0, [](Bytes) {});
        warm(pair);
        Receive receive(pair.b, 20000);  // granted for a message of any length
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        linger(pair.all, milliseconds(5));
        while (exhausted && am_bcopy(pair.ep, 0, pattern(0, 3000)) == UCS_OK) continue;
        bool canceled = false;
        PackedOnce message(5, 2000, [&] {
            if (std::exchange(canceled, true)) return;
            EXPECT_STATUS(UCS_OK, receive.cancel(true));
        });
        const bool at_once = message.send(pair.ep) == UCS_OK;
        EXPECT_NE(at_once, exhausted);
        ASSERT_TRUE(at_once || accepted(pair.all, [&] { return message.send(pair.ep); }));
        ASSERT_TRUE(
            pair.until([&] { return receive.done() || !pair.b.mailbox->messages.empty(); }));
        EXPECT_EQ(message.calls, 1) << "exhausted: " << exhausted;
        EXPECT_TRUE(canceled && receive.clean());
        EXPECT_EQ(pair.b.mailbox->messages.front().data.size(), 2000u);
    }
}

// The same by chance: a receiver cancels while another thread sends.
TEST_F(DirectTest, AMessageIsPackedOnceWhileReceivesAreCanceled) {
    constexpr std::size_t kLength = 300;
    std::mt19937_64 random(any_seed());
    TagPair pair(direct());
    warm(pair);
    const Group sending{&pair.a.entity}, receiving{&pair.b.entity};
    std::atomic<unsigned> wanted{0};
    std::atomic<bool> over{false};
    unsigned again = 0;
    std::thread sender([&] {
        for (unsigned round = 0; !over; progress(sending)) {
            if (round == wanted) continue;
            PackedOnce message(++round, kLength);
            while (!over && message.send(pair.ep) != UCS_OK) progress(sending);
            again += message.calls > 1;
        }
    });
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    for (unsigned round = 1; std::chrono::steady_clock::now() < end && !HasFailure(); ++round) {
        Receive receive(pair.b, kLength);
        ASSERT_STATUS(UCS_OK, receive.post(kTag));
        if (round % 4 == 0) linger(receiving, milliseconds(1));  // for a grant
        wanted = round;
        for (unsigned turns = random() % 32; turns != 0; --turns) progress(receiving);
        bool canceled = !receive.done() && receive.cancel(true) == UCS_OK;
        auto& messages = pair.b.mailbox->messages;
        EXPECT_TRUE(eventually(receiving, [&] {
            return (canceled || receive.done()) && (!messages.empty() || receive.status == UCS_OK);
        }));
        canceled |= receive.status == UCS_ERR_CANCELED;  // decided after the call
        if (!canceled) {
            EXPECT_TRUE(filled(receive.bytes(), round));
        } else if (!messages.empty()) {
            EXPECT_TRUE(filled(std::as_bytes(std::span(messages.front().data)), round));
            messages.pop_front();
        }
    }
    over = true;
    sender.join();
    EXPECT_EQ(again, 0u);
    EXPECT_GT(pair.close_and_count()["direct_received"], 0u);
}

}  // namespace
}  // namespace uct_test
