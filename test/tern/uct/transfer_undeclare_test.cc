// SPDX-License-Identifier: BSD-3-Clause
// Memory that is deregistered while a peer's transfer is in progress: from then on the memory is
// not accessed, the peer is told, and other transfers go on.
#include <uct/api/v2/uct_v2.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <tuple>

#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace transfer_undeclare_test {

constexpr std::size_t kSize = 256 * 1024;
constexpr uint64_t kSent = 1, kLater = 2, kOther = 3;  // seeds
constexpr const char* kSchemes[] = {"superpipeline", "zcopy"};

// Rings and staging memory of a few slots: each transfer takes many turns. Half a second of
// patience: a connection that fails must be one that the test has made to fail, on a busy machine
// too.
Settings by(const std::string& scheme) {
    return impatient({{"RNDV_SCHEME", scheme},
                      {"RNDV_WINDOW", "32k"},
                      {"rndv_windows", "2"},
                      {"TIMEOUT", "67ms"},
                      {"RETRY_COUNT", "6"}});
}

class UndeclareTest : public TernTest,
                      public testing::WithParamInterface<std::tuple<const char*, bool, bool>> {
  protected:
    const UnpublishedKeys unpublished_;
    const std::string scheme_ = std::get<0>(GetParam());
    const bool get_ = std::get<1>(GetParam());
    const bool unmap_ = std::get<2>(GetParam());

    // Begins a transfer of `far`, and one of other memory of the same peer; deregisters `far` after
    // `turns` turns. Returns the status of the first transfer.
    ucs_status_t attempt(unsigned turns) {
        // Buffers that are used again would be pinned as a whole, and sent in one turn.
        Settings settings = by(scheme_);
        settings["RNDV_PIN_AFTER"] = "1000";
        Entity a(settings), b(settings);
        const Group all{&a, &b};
        Declared near(a.host(), kSize), near_other(a.host(), kSize);
        Declared far(b.host(), kSize), other(b.host(), kSize);
        const RemoteKey key(a.host(), far.remote()), other_key(a.host(), other.remote());
        const Endpoint ep = a.connect(b);
        const uct_iov_t iov = near.iov(0, kSize), other_iov = near_other.iov(0, kSize);
        fill((get_ ? far : near).part(0, kSize), kSent);
        fill(near_other.part(0, kSize), kOther);
        // Makes the connection before, and lets both sides learn about each other.
        EXPECT_STATUS(UCS_OK,
                      put_wait(all, ep, {&other_iov, 1}, other.remote().address, other_key));
        fill(other.part(0, kSize), kLater);
        Completion completion, beside;
        const uint64_t to = far.remote().address;
        EXPECT_TRUE(accepted(all, [&] {
            return get_ ? get_zcopy(ep, {&iov, 1}, to, key, &completion)
                        : put_zcopy(ep, {&iov, 1}, to, key, &completion);
        }));
        EXPECT_TRUE(accepted(all, [&] {
            return put_zcopy(ep, {&other_iov, 1}, other.remote().address, other_key, &beside);
        }));
        for (unsigned i = 0; i < turns; ++i) progress(all);
        if (!get_ && completion.calls == 1 && completion.status == UCS_OK) {
            EXPECT_TRUE(filled(far.part(0, kSize), kSent)) << "complete, " << turns;
        }
        // Memory that is only deregistered may be read to the end: that of a get is invalidated.
        Completion gone;
        if (get_)
            far.invalidate(gone);
        else
            far.undeclare();
        if (unmap_)
            far.unmap();
        else
            fill(far.part(0, kSize), kLater);
        EXPECT_TRUE(eventually(all, [&] { return completion.calls == 1 && beside.calls == 1; }));
        linger(all, milliseconds(1));
        if (!unmap_) {
            EXPECT_TRUE(filled(far.part(0, kSize), kLater)) << "written to after " << turns;
        }
        if (completion.status == UCS_OK && get_) {
            EXPECT_TRUE(filled(near.part(0, kSize), kSent));
        }
        if (beside.status == UCS_OK) {
            EXPECT_TRUE(filled(other.part(0, kSize), kOther));
        }
        // With the superpipeline processors copy: no connection has to be closed.
        if (scheme_ == "superpipeline") {
            EXPECT_STATUS(UCS_OK, beside.status);
            EXPECT_EQ(a.failures().size() + b.failures().size(), 0u);
        }
        expect_good(a, b, ep, scheme_ != "superpipeline", near, other, other_key);
        return completion.status;
    }

    // All rings and staging memory must be free again.
    static void expect_good(Entity& a, Entity& b, const Endpoint& old, bool may_close,
                            const Declared& near, const Declared& far, const RemoteKey& key) {
        const Group all{&a, &b};
        const uct_iov_t iov = near.iov(0, kSize);
        // If the other side has closed the connection, this one may learn it by the next operation.
        const bool failed =
            a.failures(old) != 0 ||
            (may_close && put_wait(all, old, {&iov, 1}, far.remote().address, key) != UCS_OK);
        Endpoint fresh;
        if (failed) {
            EXPECT_TRUE(eventually(all, [&] { return a.failures(old) != 0; }));
            fresh = a.connect(b);
        }
        const Endpoint& ep = failed ? fresh : old;
        for (uint64_t i = 0; i < 3; ++i) {
            fill(near.part(0, kSize), 10 + i);
            ASSERT_STATUS(UCS_OK, put_wait(all, ep, {&iov, 1}, far.remote().address, key));
            ASSERT_TRUE(filled(far.part(0, kSize), 10 + i));
            fill(far.part(0, kSize), 20 + i);
            ASSERT_STATUS(UCS_OK, get_wait(all, ep, {&iov, 1}, far.remote().address, key));
            ASSERT_TRUE(filled(near.part(0, kSize), 20 + i));
        }
    }
};

TEST_P(UndeclareTest, AtEveryTurn) {
    unsigned cut = 0;
    for (unsigned turns = 0;; ++turns) {
        SCOPED_TRACE(turns);
        ASSERT_LT(turns, 2000u);
        const ucs_status_t status = attempt(turns);
        if (HasFailure()) return;
        cut += status != UCS_OK;
        // By now the transfer ends before its memory is deregistered.
        if (status == UCS_OK && turns > 20) break;
    }
    EXPECT_GT(cut, 1u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, UndeclareTest,
                         testing::Combine(testing::ValuesIn(kSchemes), testing::Bool(),
                                          testing::Bool()),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param)) +
                                    (std::get<1>(test.param) ? "_get" : "_put") +
                                    (std::get<2>(test.param) ? "_unmapped" : "");
                         });

class InvalidateTest : public TernTest {};

TEST_F(InvalidateTest, DomainSaysThatItCan) {
    Host host;
    uct_md_attr_t attr;
    check(uct_md_query(host.md(), &attr), "uct_md_query");
    EXPECT_TRUE(attr.cap.flags & UCT_MD_FLAG_INVALIDATE);
}

// Invalidates memory whose key a peer has, pinned or open.
TEST_F(InvalidateTest, CompletesAndNothingIsPinned) {
    for (const unsigned rights : {kRma, unsigned{UCT_MD_MEM_ACCESS_ALL}}) {
        Entity a(Settings{{"RNDV_SCHEME", "zcopy"}}), b(Settings{{"RNDV_SCHEME", "zcopy"}});
        const Group all{&a, &b};
        Declared near(a.host(), kSize), far(b.host(), kSize, rights);
        const RemoteKey key(a.host(), far.remote());
        Endpoint ep = a.connect(b);
        const uct_iov_t iov = near.iov(0, kSize);
        for (int i = 0; i < 4; ++i)
            ASSERT_STATUS(UCS_OK, put_wait(all, ep, {&iov, 1}, far.remote().address, key));
        const bool counted = on_software_hca();
        const uint64_t before = counted ? objects("memory_regions") : 0;
        Completion completion(2);
        far.invalidate(completion);
        EXPECT_EQ(completion.count, 1);
        EXPECT_STATUS(UCS_OK, completion.status);
        if (counted) {
            EXPECT_LT(objects("memory_regions"), before);
        }
        fill(far.part(0, kSize), kLater);
        EXPECT_NE(put_wait(all, ep, {&iov, 1}, far.remote().address, key), UCS_OK);
        EXPECT_TRUE(filled(far.part(0, kSize), kLater));
    }
}

// A thread deregisters memory while another one transfers it, in the same memory domain.
class UndeclareThreadTest : public TernTest, public testing::WithParamInterface<const char*> {};

TEST_P(UndeclareThreadTest, ByAnotherThread) {
    const uint64_t seed = any_seed();
    Entity a(by(GetParam())), b(by(GetParam()));
    std::mutex mutex;
    Remote published;
    std::atomic<bool> over{false};
    std::atomic<unsigned> done{0}, cut{0};
    std::string wrong;
    std::thread thread([&] {
        try {
            const Group all{&a, &b};
            Declared near(a.host(), kSize);
            const uct_iov_t iov = near.iov(0, kSize);
            Endpoint ep = a.connect(b);
            std::size_t failures = 0;
            while (!over) {
                Remote remote;
                {
                    const std::lock_guard lock(mutex);
                    remote = published;
                }
                if (remote.address == 0) continue;
                const RemoteKey key(a.host(), remote);
                Completion completions[2];
                for (Completion& it : completions) {
                    const bool get = &it == completions;
                    (void)accepted(all, [&] {
                        const ucs_status_t status =
                            a.failures().size() != failures ? UCS_OK
                            : get ? get_zcopy(ep, {&iov, 1}, remote.address, key, &it)
                                  : put_zcopy(ep, {&iov, 1}, remote.address, key, &it);
                        if (status != UCS_INPROGRESS && status != UCS_ERR_NO_RESOURCE) it.calls = 1;
                        return status == UCS_ERR_NO_RESOURCE ? status : UCS_OK;
                    });
                }
                if (!eventually(all,
                                [&] { return completions[0].calls + completions[1].calls == 2; }))
                    fail("a transfer does not end");
                for (const Completion& it : completions) ++(it.status == UCS_OK ? done : cut);
                if (a.failures().size() == failures) continue;
                failures = a.failures().size();
                ep = a.connect(b);
            }
        } catch (const std::exception& error) {
            wrong = error.what();
            over = true;
        }
    });
    std::mt19937_64 random(seed);
    const auto end = Clock::now() + deadline();
    for (int i = 0; !over && Clock::now() < end && (i < 150 || done < 20 || cut < 20); ++i) {
        Declared memory(b.host(), kSize);
        {
            const std::lock_guard lock(mutex);
            published = memory.remote();
        }
        // From far less to far more time than a transfer takes on any machine.
        std::this_thread::sleep_for(std::chrono::microseconds(1U << random() % 18));
        memory.undeclare();
        memory.unmap();
    }
    over = true;
    thread.join();
    EXPECT_EQ(wrong, "");
    EXPECT_GE(done, 20u);
    EXPECT_GE(cut, 20u);
}

INSTANTIATE_TEST_SUITE_P(Schemes, UndeclareThreadTest, testing::ValuesIn(kSchemes),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace transfer_undeclare_test
}  // namespace uct_test
