// SPDX-License-Identifier: BSD-3-Clause
// Tagged messages that are announced, and fetched by their receivers.
#include <thread>

#include "tag.h"
#include "traffic.h"

namespace uct_test {
namespace {

constexpr const char* kSchemes[] = {"superpipeline", "zcopy", "auto"};

TEST_F(TagTest, RendezvousFillsThePostedReceive) {
    for (const char* scheme : kSchemes) {
        TagPair pair(Settings{{"RNDV_SCHEME", scheme}});
        Declared from(pair.a.entity.host(), 3 << 20);
        uint64_t seed = 0;
        for (const std::size_t length : {0, 1, 100, 4096, 12345, 1 << 20, 3 << 20}) {
            SCOPED_TRACE(scheme + std::to_string(length));
            fill(from.part(0, length), ++seed);
            Receive receive(pair.b, length + (seed & 1) * 500);
            ASSERT_STATUS(UCS_OK, receive.post(seed));
            Completion completion;
            ASSERT_NE(pair.begin(seed, from, length, completion), nullptr);
            ASSERT_TRUE(pair.until([&] { return receive.done() && completion.calls != 0; }));
            EXPECT_STATUS(UCS_OK, receive.status);
            EXPECT_STATUS(UCS_OK, completion.status);
            EXPECT_EQ(receive.consumed, 1);
            EXPECT_EQ(receive.completed, 1);
            EXPECT_EQ(receive.tag, seed);
            EXPECT_EQ(receive.immediate, 0u);
            EXPECT_TRUE(receive.in_place);
            ASSERT_EQ(receive.length, length);
            EXPECT_TRUE(filled(receive.bytes(), seed));
            EXPECT_TRUE(receive.clean());
        }
        EXPECT_TRUE(pair.b.mailbox->messages.empty());
        EXPECT_EQ(pair.close_and_count()["tag_rndv_matched"], seed);
    }
}

TEST_F(TagTest, RendezvousTooLongForTheReceive) {
    TagPair pair;
    const RendezvousMessage message(pair, 100'000, 99'999);
    ASSERT_TRUE(pair.until([&] { return message.over(); }));
    EXPECT_STATUS(UCS_ERR_MESSAGE_TRUNCATED, message.receive.status);
    EXPECT_EQ(message.receive.length, 100'000u);
    EXPECT_STATUS(UCS_OK, message.completion.status);
    EXPECT_TRUE(message.receive.clean());
}

// UCP does so: it gets the message from the request's address and tells the sender, which cancels.
TEST_F(TagTest, UnexpectedRendezvousIsTheUsersToFetch) {
    for (const std::size_t length : {10'000, 1 << 20}) {
        TagPair pair;
        Declared from(pair.a.entity.host(), length), to(pair.b.entity.host(), length);
        fill(from.part(0, length), 7);
        const Endpoint back = pair.b.entity.connect(pair.a.entity);
        Completion fetched;
        std::unique_ptr<RemoteKey> key;
        pair.b.mailbox->on_message = [&](const Unexpected& request) {
            key = std::make_unique<RemoteKey>(pair.b.entity.host(), request.remote);
            const uct_iov_t iov = to.iov(0, request.length);
            EXPECT_TRUE(accepted({&pair.a.entity}, [&] {
                return get_zcopy(back, {&iov, 1}, request.address, *key, &fetched);
            }));
            EXPECT_EQ(fetched.calls, 0) << "from within get_zcopy";
        };
        Completion completion;
        // Makes the connection for the get.
        ASSERT_TRUE(accepted(pair.all, [&] { return tag_short(back, 1, {}); }));
        void* operation = pair.begin(99, from, length, completion, "what the user says");
        ASSERT_TRUE(pair.until([&] { return fetched.calls != 0; }));
        const Unexpected& request = pair.b.mailbox->messages.at(0);
        EXPECT_TRUE(request.request);
        EXPECT_EQ(request.tag, 99u);
        EXPECT_EQ(request.data, "what the user says");
        EXPECT_EQ(request.length, length);
        EXPECT_TRUE(filled(to.part(0, length), 7));
        EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), operation));
        linger(pair.all, milliseconds(5));
        EXPECT_EQ(completion.calls, 0) << "it was canceled";
    }
}

TEST_F(TagTest, AnEmptyUnexpectedRendezvousHasAnAddress) {
    Completion completion;  // called when the endpoint goes
    TagPair pair;
    const ucs_status_ptr_t operation =
        uct_ep_tag_rndv_zcopy(pair.ep.get(), 5, "h", 1, nullptr, 0, 0, &completion);
    if (UCS_PTR_IS_ERR(operation)) {
        ASSERT_STATUS(UCS_ERR_NO_RESOURCE, UCS_PTR_STATUS(operation));
        Declared from(pair.a.entity.host(), 8);
        (void)pair.begin(5, from, 0, completion, "h");
    }
    ASSERT_TRUE(pair.until([&] { return !pair.b.mailbox->messages.empty(); }));
    EXPECT_NE(pair.b.mailbox->messages[0].address, 0u);
    EXPECT_EQ(pair.b.mailbox->messages[0].length, 0u);
}

TEST_F(TagTest, ARequestIsTheUsersInAnyCase) {
    TagPair pair;
    Receive receive(pair.b, 8);
    ASSERT_STATUS(UCS_OK, receive.post(1));
    const std::string header(1000, 'x');
    for (int i = 0; i < 2; ++i)
        ASSERT_TRUE(accepted(pair.all, [&] { return tag_request(pair.ep, 1, header); }));
    auto& box = pair.b.mailbox->messages;
    ASSERT_TRUE(pair.until([&] { return receive.done() && !box.empty(); }));
    EXPECT_EQ(receive.consumed, 1);
    EXPECT_EQ(receive.requested, 1);
    EXPECT_EQ(receive.completed, 0);
    EXPECT_EQ(receive.header, header);
    EXPECT_STATUS(UCS_OK, receive.status);
    EXPECT_NE(receive.flags & UCT_TAG_RECV_CB_INLINE_DATA, 0u);
    EXPECT_TRUE(receive.clean());
    ASSERT_EQ(box.size(), 1u);
    EXPECT_TRUE(box[0].request);
    EXPECT_EQ(box[0].address, 0u);
    EXPECT_EQ(box[0].data, header);
}

// More messages at a time than queues and rings have room for; the order of sending is opposite to
// that of posting.
TEST_F(TagTest, ManyAtATime) {
    constexpr std::size_t kCount = 120;
    constexpr std::size_t kLength = 30'000;
    TagPair pair(Settings{{"TX_QUEUE_LEN", "32"},
                          {"RX_QUEUE_LEN", "32"},
                          {"TX_BUFFERS", "8"},
                          {"rndv_windows", "2"}});
    Declared from(pair.a.entity.host(), kLength);
    fill(from.part(0, kLength), 3);
    std::deque<Receive> receives;
    std::deque<Completion> completions(kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
        receives.emplace_back(pair.b, kLength);
        ASSERT_STATUS(UCS_OK, receives.back().post(i / 2));
    }
    for (std::size_t i = 0; i < kCount; ++i)
        (void)pair.begin((kCount - 1 - i) / 2, from, kLength - (i % 2), completions[i]);
    ASSERT_TRUE(pair.until([&] {
        return std::ranges::all_of(receives, [](const Receive& each) { return each.done(); }) &&
               std::ranges::all_of(completions, [](const Completion& each) { return each.calls; });
    }));
    for (std::size_t i = 0; i < kCount; ++i) {
        EXPECT_STATUS(UCS_OK, receives[i].status);
        EXPECT_STATUS(UCS_OK, completions[i].status);
        EXPECT_EQ(receives[i].length, kLength - i % 2) << "the first of a tag was sent first";
        EXPECT_TRUE(filled(receives[i].bytes(), 3));
    }
}

// The receive belongs to its message: not even a forced cancel may end it.
TEST_F(TagTest, AMatchedReceiveIsNotCanceled) {
    TagPair pair;
    RendezvousMessage message(pair, 1 << 20);
    Receive& receive = message.receive;
    ASSERT_TRUE(pair.until([&] { return receive.consumed; }));
    if (!receive.done()) {
        EXPECT_STATUS(UCS_ERR_BUSY, receive.cancel(true));
        EXPECT_STATUS(UCS_OK, receive.cancel(false));
    }
    ASSERT_TRUE(pair.until([&] { return message.over(); }));
    EXPECT_STATUS(UCS_OK, receive.status);
    EXPECT_TRUE(message.right());
}

// The receiver fetches memory whose declaration has ended.
TEST_F(TagTest, ACanceledSendIsRefused) {
    TagPair pair;
    RendezvousMessage message(pair, 100'000);
    EXPECT_STATUS(UCS_OK, uct_ep_tag_rndv_cancel(pair.ep.get(), message.operation));
    message.from.undeclare();
    ASSERT_TRUE(pair.until([&] { return message.receive.done(); }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(message.receive.status));
    EXPECT_TRUE(message.receive.clean());
    linger(pair.all, milliseconds(5));
    EXPECT_EQ(message.completion.calls, 0);
    // The endpoint still works.
    Receive next(pair.b, 8);
    ASSERT_STATUS(UCS_OK, next.post(2));
    pair.send(2, pattern(1, 8));
    ASSERT_TRUE(pair.until([&] { return next.done(); }));
    EXPECT_STATUS(UCS_OK, next.status);
}

TEST_F(TagTest, NobodyWaitsForAPeerThatHasGone) {
    TagPair pair;
    Declared from(pair.a.entity.host(), 1 << 20);
    Completion completion;
    (void)pair.announce(1, from, from.size(), completion);
    pair.b.entity.close();
    ASSERT_TRUE(eventually({&pair.a.entity}, [&] { return completion.calls != 0; }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(completion.status));
}

// The peer has the request and does not answer. No work request is under way to it that could fail.
TEST_F(TagTest, TheDeathOfAPeerThatHasNotAnsweredIsNoticed) {
    Team team;
    const int victim = team.spawn([](Link& link) {
        TagEntity self(impatient());
        link.send(self.entity.address());
        bool told = false;
        for (;;) {
            self.entity.progress();
            if (self.mailbox->messages.empty() || std::exchange(told, true)) continue;
            link.send();
        }
    });
    TagEntity self(impatient());
    const Endpoint ep = self.entity.connect(team[victim].receive<Address>());
    Declared from(self.entity.host(), 1 << 20);
    Completion completion;
    (void)tag_rndv({&self.entity}, ep, 1, from, from.size(), completion);
    linger({&self.entity}, milliseconds(200));
    team[victim].receive();
    team.kill(victim);
    // A program that computes, or yields its processor to others, polls seldom.
    ASSERT_TRUE(eventually({&self.entity}, [&] {
        std::this_thread::sleep_for(milliseconds(2));
        return completion.calls != 0;
    }));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(completion.status));
}

TEST_F(TagTest, AnEndpointTakesItsSendsAlong) {
    TagPair pair;
    Declared from(pair.a.entity.host(), 1 << 20);
    const Endpoint other = pair.a.entity.connect(pair.b.entity);
    Completion completion;
    (void)pair.announce(1, from, from.size(), completion);
    pair.ep.reset();
    EXPECT_EQ(completion.calls, 1);
    EXPECT_STATUS(UCS_ERR_CANCELED, completion.status);
    ASSERT_TRUE(accepted(pair.all, [&] { return tag_short(other, 2, {}); }));
    ASSERT_TRUE(pair.until([&] { return pair.b.mailbox->messages.size() == 2; }));
}

// The receiver closes at any point of a transfer: the sender must be told.
TEST_F(TagTest, AReceiverGoesInTheMiddle) {
    for (int steps = 0; steps < 40; steps += 3) {
        SCOPED_TRACE(steps);
        TagPair pair;
        ASSERT_TRUE(accepted(pair.all, [&] { return tag_short(pair.ep, 2, {}); }));
        ASSERT_TRUE(flush_wait(pair.all, pair.ep));
        const RendezvousMessage message(pair, 1 << 20);
        for (int i = 0; i < steps; ++i) progress(pair.all);
        pair.b.entity.close();
        ASSERT_TRUE(eventually({&pair.a.entity}, [&] { return message.completion.calls != 0; }));
        EXPECT_EQ(message.completion.calls, 1);
    }
}

// The sender closes: the receive must end with an error or with the whole message.
TEST_F(TagTest, ASenderGoesInTheMiddle) {
    for (int steps = 0; steps < 40; steps += 3) {
        SCOPED_TRACE(steps);
        TagPair pair;
        ASSERT_TRUE(accepted(pair.all, [&] { return tag_short(pair.ep, 2, {}); }));
        ASSERT_TRUE(flush_wait(pair.all, pair.ep));
        const RendezvousMessage message(pair, 1 << 20);
        for (int i = 0; i < steps; ++i) progress(pair.all);
        pair.ep.reset();
        pair.a.entity.close();
        ASSERT_TRUE(eventually({&pair.b.entity}, [&] { return message.receive.done(); }));
        EXPECT_TRUE(message.receive.status != UCS_OK || message.right());
    }
}

// An interface must not sleep before it has reported a canceled receive.
TEST_F(TagTest, ACancelKeepsAwake) {
    TagPair pair;
    Receive receive(pair.b, 8);
    ASSERT_STATUS(UCS_OK, receive.post(1));
    const auto arm = [&] { return uct_iface_event_arm(pair.b.entity.iface(), UCT_EVENT_RECV); };
    int fd;
    ASSERT_STATUS(UCS_OK, uct_iface_event_fd_get(pair.b.entity.iface(), &fd));
    ASSERT_TRUE(pair.until([&] { return arm() == UCS_OK; }));
    ASSERT_STATUS(UCS_OK, receive.cancel(false));
    EXPECT_STATUS(UCS_ERR_BUSY, arm());
    EXPECT_STATUS(UCS_INPROGRESS, uct_iface_flush(pair.b.entity.iface(), 0, nullptr));
    ASSERT_TRUE(pair.until([&] { return receive.done(); }));
    EXPECT_TRUE(pair.until([&] { return arm() == UCS_OK; }));
}

}  // namespace
}  // namespace uct_test
