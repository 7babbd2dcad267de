// SPDX-License-Identifier: BSD-3-Clause
// Endpoints destroyed with operations under way, and invalid arguments.
#include <poll.h>

#include <deque>
#include <memory>

#include "../../softhca/device/fabric.h"
#include "transfer.h"

namespace uct_test {
namespace {

namespace softhca = conformance::softhca;

class EpEndTest : public TernTest {
  protected:
    void TearDown() override {
        if (!IsSkipped()) end_faults();
    }
};

// Two interfaces; `a` may put to and get from memory of `b`.
struct LongTransfers {
    static constexpr std::size_t kBytes = 1 << 20;
    Entity a, b;
    Declared target{b.host(), kBytes}, source{a.host(), kBytes};
    const RemoteKey key{a.host(), target.remote()};
    const uint64_t at = reinterpret_cast<uint64_t>(target.data());
    const uct_iov_t iov = source.iov(0, kBytes);
};

// All completions are called before the endpoint is gone, and the memory may then be reused.
TEST_F(EpEndTest, OperationsUnderWayAreCanceled) {
    Entity a, b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    Endpoint ep = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    std::deque<Completion> completions;
    Completion flush;
    {
        Declared memory(a.host(), 4096);
        const uct_iov_t iov = memory.iov(0, 4096);
        for (;;) {
            const ucs_status_t status = am_zcopy(ep, 1, {}, {&iov, 1}, &completions.emplace_back());
            if (status == UCS_INPROGRESS) continue;
            completions.pop_back();
            if (status == UCS_ERR_NO_RESOURCE) break;
        }
        (void)uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush);
        ep.reset();
        for (const Completion& it : completions) EXPECT_EQ(it.calls, 1);
        EXPECT_EQ(flush.calls, 1);
    }
    linger({&a, &b});
    EXPECT_TRUE(a.failures().empty());
    std::size_t later = 0;
    b.handle(2, [&](Bytes) { ++later; });
    ep = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 2, pattern(0, 8)); }));
    EXPECT_TRUE(eventually({&a, &b}, [&] { return later == 1; }));
}

TEST_F(EpEndTest, TransfersUnderWayAreCanceled) {
    LongTransfers world;
    Entity &a = world.a, &b = world.b;
    for (const int turns : {0, 1, 5, 20}) {
        Endpoint ep = a.connect(b);
        Completion put, get;
        ASSERT_TRUE(accepted({&a, &b}, [&] {
            return put_zcopy(ep, {&world.iov, 1}, world.at, world.key, &put);
        }));
        ASSERT_TRUE(accepted({&a, &b}, [&] {
            return get_zcopy(ep, {&world.iov, 1}, world.at, world.key, &get);
        }));
        for (int i = 0; i < turns; ++i) progress({&a, &b});
        ep.reset();
        EXPECT_EQ(put.calls, 1) << "after " << turns;
        EXPECT_EQ(get.calls, 1) << "after " << turns;
        linger({&a, &b}, milliseconds(5));
    }
    EXPECT_TRUE(a.failures().empty());
}

// Another endpoint uses the same connection, which goes on.
TEST_F(EpEndTest, OthersOfTheConnectionStay) {
    Entity a, b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    Endpoint one = a.connect(b), other = a.connect(b);
    Memory memory(a.host(), 4096);
    const uct_iov_t iov = memory.iov(0, 4096);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(other, 1, pattern(0, 8)); }));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    Completion completion;
    ASSERT_STATUS(UCS_INPROGRESS, am_zcopy(one, 1, {}, {&iov, 1}, &completion));
    one.reset();
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(other, 1, pattern(0, 8)); }));
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 3 && completion.calls == 1; }));
}

// Destroying an endpoint ends its flush at once: UCP relies on that when it destroys a worker.
TEST_F(EpEndTest, FlushOfOneThatSharesAConnectionEndsWithIt) {
    LongTransfers world;
    Entity &a = world.a, &b = world.b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    // 0: the connection is not up yet; 1: messages are under way; 2: so is a transfer.
    for (const int stage : {0, 1, 2}) {
        Endpoint one = a.connect(b), other = a.connect(b);
        Completion put, flushed, stays;
        const std::size_t before = received;
        for (const Endpoint* ep : {&one, &other})
            ASSERT_STATUS(UCS_OK, am_short(*ep, 1, pattern(0, 8)));
        if (stage != 0) {
            ASSERT_TRUE(eventually({&a, &b}, [&] { return received == before + 2; }));
            ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(one, 1, pattern(0, 8)); }));
        }
        if (stage == 2) {
            ASSERT_TRUE(accepted({&a, &b}, [&] {
                return put_zcopy(one, {&world.iov, 1}, world.at, world.key, &put);
            }));
        }
        for (auto [ep, completion] : {std::pair{&one, &flushed}, {&other, &stays}})
            ASSERT_STATUS(UCS_INPROGRESS,
                          uct_ep_flush(ep->get(), UCT_FLUSH_FLAG_LOCAL, completion));
        one.reset();
        EXPECT_EQ(flushed.calls, 1) << "stage " << stage;
        EXPECT_STATUS(UCS_ERR_CANCELED, flushed.status);
        EXPECT_EQ(stays.calls, 0) << "stage " << stage;
        EXPECT_TRUE(eventually({&a, &b},
                               [&] {
                                   return stays.calls == 1 &&
                                          received == before + (stage != 0 ? 3 : 2) &&
                                          put.calls == (stage == 2 ? 1 : 0);
                               }))
            << "stage " << stage;
        EXPECT_STATUS(UCS_OK, stays.status);
        other.reset();
        linger({&a, &b}, milliseconds(5));
    }
    EXPECT_TRUE(a.failures().empty());
}

// The peer makes no progress: a fence, queued behind a transfer, must not hold up the end of both.
TEST_F(EpEndTest, FlushByForceEndsWhatAFenceWaitsFor) {
    LongTransfers world;
    Entity &a = world.a, &b = world.b;
    for (const bool more : {false, true}) {
        Endpoint ep = a.connect(b);
        ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 1, pattern(0, 8)); }));
        ASSERT_TRUE(flush_wait({&a, &b}, ep));
        Completion put, flushed;
        ASSERT_STATUS(UCS_INPROGRESS, put_zcopy(ep, {&world.iov, 1}, world.at, world.key, &put));
        ASSERT_STATUS(UCS_OK, uct_ep_fence(ep.get(), 0));
        Pending request([] { return UCS_ERR_NO_RESOURCE; });
        if (more) {
            ASSERT_STATUS(UCS_OK, uct_ep_pending_add(ep.get(), &request, 0));
            ASSERT_STATUS(UCS_OK, uct_ep_fence(ep.get(), 0));
            EXPECT_STATUS(UCS_ERR_NO_RESOURCE,
                          uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_CANCEL, &flushed));
        }
        uct_ep_pending_purge(
            ep.get(), [](uct_pending_req_t*, void*) {}, nullptr);
        ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_CANCEL, &flushed));
        EXPECT_TRUE(eventually({&a}, [&] { return put.calls == 1 && flushed.calls == 1; }));
        EXPECT_STATUS(UCS_ERR_CANCELED, put.status);
        ep.reset();
    }
    EXPECT_TRUE(a.failures().empty());
}

// A user that is told that the flush is over frees what the endpoint's operations complete into: so
// they end before. They share a connection with another endpoint, which stays.
TEST_F(EpEndTest, FlushByForceOfOneThatSharesAConnection) {
    LongTransfers world;
    Entity &a = world.a, &b = world.b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    Endpoint one = a.connect(b), other = a.connect(b);
    for (const Endpoint* ep : {&one, &other})
        ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(*ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait({&a, &b}, one));
    EXPECT_STATUS(UCS_OK, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, nullptr));
    Completion put, earlier, flushed;
    ASSERT_STATUS(UCS_INPROGRESS, put_zcopy(one, {&world.iov, 1}, world.at, world.key, &put));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_LOCAL, &earlier));
    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, &flushed));
    uct_ep_pending_purge(
        one.get(), [](uct_pending_req_t*, void*) {}, nullptr);
    EXPECT_STATUS(UCS_ERR_CANCELED, am_short(one, 1, pattern(0, 8)));
    EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, nullptr));
    ASSERT_TRUE(eventually({&a}, [&] { return flushed.calls == 1; })) << "the peer does nothing";
    EXPECT_EQ(put.calls, 1);
    EXPECT_STATUS(UCS_ERR_CANCELED, put.status);
    EXPECT_EQ(earlier.calls, 1);
    EXPECT_STATUS(UCS_OK, uct_ep_flush(one.get(), UCT_FLUSH_FLAG_CANCEL, nullptr));
    one.reset();
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(other, 1, pattern(0, 8)); }));
    EXPECT_TRUE(eventually({&a, &b}, [&] { return received == 3; }));
    // When all have been, nobody is left for whom the connection would stay.
    ASSERT_TRUE(flush_wait({&a, &b}, other));
    one = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(one, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait({&a, &b}, one));
    Completion first, last, flushed_first, flushed_last;
    ASSERT_STATUS(UCS_INPROGRESS, put_zcopy(one, {&world.iov, 1}, world.at, world.key, &first));
    ASSERT_STATUS(UCS_INPROGRESS, put_zcopy(other, {&world.iov, 1}, world.at, world.key, &last));
    for (auto [ep, flush] : {std::pair{&one, &flushed_first}, {&other, &flushed_last}})
        EXPECT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep->get(), UCT_FLUSH_FLAG_CANCEL, flush));
    EXPECT_TRUE(
        eventually({&a}, [&] { return flushed_first.calls == 1 && flushed_last.calls == 1; }));
    for (const Completion* canceled : {&first, &last}) {
        EXPECT_EQ(canceled->calls, 1);
        EXPECT_STATUS(UCS_ERR_CANCELED, canceled->status);
    }
    EXPECT_TRUE(a.failures().empty());
}

// An empty put needs no key; if the peer has gone, the put makes the endpoint fail.
TEST_F(EpEndTest, EmptyPutWithoutAKey) {
    Entity a(impatient());
    auto b = std::make_unique<Entity>(impatient());
    const Endpoint ep = a.connect(*b);
    ASSERT_STATUS(UCS_OK, uct_ep_put_short(ep.get(), nullptr, 0, 0, 0));
    ASSERT_TRUE(flush_wait({&a, b.get()}, ep));
    b.reset();
    ASSERT_STATUS(UCS_OK, uct_ep_put_short(ep.get(), nullptr, 0, 0, 0));
    EXPECT_TRUE(eventually({&a}, [&] { return a.failures(ep) == 1; }));
}

// The peer refuses a put without a key, and neither process crashes.
TEST_F(EpEndTest, PutWithoutAKeyFails) {
    Entity a, b;
    const Endpoint ep = a.connect(b);
    ASSERT_STATUS(UCS_OK, uct_ep_put_short(ep.get(), "12345678", 8, 4096, 0));
    EXPECT_TRUE(eventually({&a, &b}, [&] { return a.failures(ep) == 1; }));
}

TEST_F(EpEndTest, WrongAlignmentIsRefused) {
    const auto open = [](uint64_t fields, std::size_t alignment, std::size_t offset) {
        Entity entity({}, std::make_shared<Host>(), [&](uct_iface_params_t& params) {
            params.field_mask |= fields;
            params.am_alignment = alignment;
            params.am_align_offset = offset;
        });
    };
    constexpr uint64_t kAlignment = UCT_IFACE_PARAM_FIELD_AM_ALIGNMENT;
    constexpr uint64_t kBoth = kAlignment | UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET;
    EXPECT_NO_THROW(open(kAlignment, 64, 0));
    EXPECT_NO_THROW(open(kBoth, 64, 63));
    EXPECT_ANY_THROW(open(kAlignment, 0, 0));
    EXPECT_ANY_THROW(open(kAlignment, 3, 0));
    // UCP passes such an offset: it counts modulo the alignment.
    EXPECT_NO_THROW(open(kBoth, 8, 8));
    EXPECT_ANY_THROW(open(UCT_IFACE_PARAM_FIELD_AM_ALIGN_OFFSET, 8, 1));
}

// Endpoints and operations under way fail, and so do new endpoints.
TEST_F(EpEndTest, DeviceThatFailsEndsThemAll) {
    NEEDS_SOFTWARE_HCA();
    Entity a, b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    const Endpoint ep = a.connect(b), waiting = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    Memory memory(a.host(), 4096);
    const uct_iov_t iov = memory.iov(0, 4096);
    Completion completion, flush;
    ASSERT_STATUS(UCS_INPROGRESS, am_zcopy(ep, 1, {}, {&iov, 1}, &completion));
    ASSERT_STATUS(UCS_INPROGRESS, uct_ep_flush(ep.get(), UCT_FLUSH_FLAG_LOCAL, &flush));
    softhca::inject("device-fatal");
    EXPECT_TRUE(eventually(
        {&a}, [&] { return a.failures(ep) == 1 && completion.calls == 1 && flush.calls == 1; }));
    EXPECT_STATUS(UCS_ERR_IO_ERROR, a.failures()[0].status);
    EXPECT_NE(completion.status, UCS_OK);
    const Endpoint late = a.connect(b);
    const ucs_status_t status = am_short(late, 1, pattern(0, 8));
    EXPECT_TRUE(UCS_STATUS_IS_ERR(status) && status != UCS_ERR_NO_RESOURCE) << Status{status};
}

// The failure of the device wakes a sleeper.
TEST_F(EpEndTest, DeviceThatFailsWakesSleepers) {
    NEEDS_SOFTWARE_HCA();
    Entity a, b;
    std::size_t received = 0;
    b.handle(1, [&](Bytes) { ++received; });
    const Endpoint ep = a.connect(b);
    ASSERT_TRUE(accepted({&a, &b}, [&] { return am_short(ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(eventually({&a, &b}, [&] { return received == 1; }));
    int fd = -1;
    ASSERT_STATUS(UCS_OK, uct_iface_event_fd_get(a.iface(), &fd));
    ASSERT_TRUE(eventually({&a, &b}, [&] {
        return uct_iface_event_arm(a.iface(), UCT_EVENT_RECV | UCT_EVENT_SEND_COMP) == UCS_OK;
    }));
    softhca::inject("device-fatal");
    pollfd event{fd, POLLIN, 0};
    EXPECT_EQ(poll(&event, 1, static_cast<int>(deadline().count())), 1);
    EXPECT_TRUE(eventually({&a}, [&] { return a.failures(ep) == 1; }));
}

}  // namespace
}  // namespace uct_test
