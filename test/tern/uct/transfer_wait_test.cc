// SPDX-License-Identifier: BSD-3-Clause
// Long messages while programs sleep or wait for resources.
#include <algorithm>
#include <deque>
#include <tuple>

#include "sleeper.h"
#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace transfer_wait_test {

constexpr std::size_t kSize = 2 << 20;
constexpr const char* kSchemes[] = {"superpipeline", "zcopy"};

struct Peer {
    Address address;
    Remote memory;
};

class TransferWaitTest : public TernTest {};

class SleepersTest : public TransferWaitTest,
                     public testing::WithParamInterface<std::tuple<const char*, const char*>> {};

// Both sides sleep whenever they may.
TEST_P(SleepersTest, AllIsDone) {
    const auto [scheme, poll] = GetParam();
    const Settings settings{{"RNDV_SCHEME", scheme}, {"POLL", poll}};
    Team team;
    const int owner = team.spawn([&](Link& link) {
        Entity self(settings);
        Declared memory(self.host(), kSize);
        bool done = false;
        self.handle(1, [&](Bytes) { done = true; });
        const int fd = event_fd(self);
        link.send(Peer{self.address(), memory.remote()});
        EXPECT_TRUE(sleep_until(self, fd, [&] { return done; }));
        EXPECT_TRUE(filled(memory.part(0, kSize - 3), 9));
        link.send();
    });
    Entity self(settings);
    const Peer peer = team[owner].receive<Peer>();
    const RemoteKey key(self.host(), peer.memory);
    Declared near(self.host(), kSize);
    const Endpoint ep = self.connect(peer.address);
    const int fd = event_fd(self);
    for (uint64_t i = 0; i < 10; ++i) {
        const std::size_t length = kSize - 3;
        const bool get = i % 2 != 0;
        if (!get) fill(near.part(0, length), i == 8 ? 9 : i);
        if (get) fill(near.part(0, length), 99);
        const auto list = pieces(near, 0, length, 1 + i % 3);
        Completion completion;
        ucs_status_t status = UCS_ERR_NO_RESOURCE;
        ASSERT_TRUE(sleep_until(self, fd, [&] {
            if (status == UCS_ERR_NO_RESOURCE)
                status = get ? get_zcopy(ep, list, peer.memory.address, key, &completion)
                             : put_zcopy(ep, list, peer.memory.address, key, &completion);
            return completion.calls == 1;
        })) << i;
        ASSERT_STATUS(UCS_OK, completion.status);
        ASSERT_TRUE(filled(near.part(0, length), get ? (i == 9 ? 9 : i - 1) : (i == 8 ? 9 : i)));
    }
    ASSERT_TRUE(accepted({&self}, [&] { return am_bcopy(ep, 1, pattern(0, 8)); }));
    ASSERT_TRUE(flush_wait({&self}, ep));
    team[owner].receive();
}

// Pending requests are called when there is room.
TEST_F(TransferWaitTest, PutsByPendingRequests) {
    Entity a({{"TX_QUEUE_LEN", "32"}, {"rndv_windows", "1"}}), b(Settings{{"rndv_windows", "1"}});
    const Group all{&a, &b};
    Declared near(a.host(), kSize), far(b.host(), kSize);
    const RemoteKey key(a.host(), far.remote());
    const Endpoint ep = a.connect(b);
    constexpr std::size_t kEach = 10000, kCount = kSize / kEach;
    fill(near.part(0, kSize), 3);
    std::deque<Completion> completions;
    std::deque<Pending> requests;
    std::size_t waited = 0;
    for (std::size_t i = 0; i < kCount; ++i) {
        Completion& completion = completions.emplace_back();
        const auto put = [&, i] {
            const uct_iov_t iov = near.iov(i * kEach, kEach);
            return put_zcopy(ep, {&iov, 1}, far.remote().address + i * kEach, key, &completion);
        };
        ucs_status_t status = put();
        while (status == UCS_ERR_NO_RESOURCE) {
            Pending& request = requests.emplace_back([put] {
                const ucs_status_t result = put();
                return result == UCS_INPROGRESS ? UCS_OK : result;
            });
            if (uct_ep_pending_add(ep.get(), &request, 0) == UCS_OK) {
                ++waited;
                break;
            }
            requests.pop_back();
            progress(all);
            status = put();
        }
    }
    EXPECT_GT(waited, 0u);
    ASSERT_TRUE(eventually(all, [&] {
        return std::ranges::all_of(completions, [](const Completion& it) { return it.calls == 1; });
    }));
    EXPECT_TRUE(filled(far.part(0, kCount * kEach), 3));
}

INSTANTIATE_TEST_SUITE_P(Schemes, SleepersTest,
                         testing::Combine(testing::ValuesIn(kSchemes),
                                          testing::Values("auto", "cq", "memory")),
                         [](const auto& test) {
                             return std::string(std::get<0>(test.param)) + "_" +
                                    std::get<1>(test.param);
                         });

}  // namespace transfer_wait_test
}  // namespace uct_test
