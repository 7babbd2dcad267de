// SPDX-License-Identifier: BSD-3-Clause
// Rights of keys: transfers without the right must be refused. Memory stays unchanged, the caller
// is told, and the endpoint keeps working.
#include <algorithm>
#include <array>
#include <deque>
#include <random>
#include <vector>

#include "traffic.h"
#include "transfer.h"

namespace uct_test {
namespace transfer_rights_test {

constexpr std::size_t kSize = 256 * 1024;
constexpr uint64_t kOld = 1, kNew = 2;  // seeds

class TransferRightsTest : public TernTest {
  protected:
    void SetUp() override {
        TernTest::SetUp();
        if (!IsSkipped()) reset();
    }
    void reset() {
        fill(near_.part(0, kSize), kNew);
        fill(far_.part(0, kSize), kOld);
    }
    ucs_status_t put(std::size_t length, uint64_t to, const RemoteKey& key) {
        const uct_iov_t iov = near_.iov(0, length);
        return put_wait(all_, ep_, {&iov, 1}, to, key);
    }
    ucs_status_t get(std::size_t length, uint64_t from, const RemoteKey& key) {
        const uct_iov_t iov = near_.iov(0, length);
        return get_wait(all_, ep_, {&iov, 1}, from, key);
    }
    // Checks that the memory of both sides is unchanged, and that the endpoint works.
    void expect_untouched(const Declared& far) {
        EXPECT_TRUE(filled(near_.part(0, kSize), kNew));
        EXPECT_TRUE(filled(far.part(0, far.size()), kOld));
        EXPECT_EQ(a_.failures().size() + b_.failures().size(), 0u);
        std::size_t received = 0;
        b_.handle(1, [&](Bytes) { ++received; });
        ASSERT_TRUE(accepted(all_, [&] { return am_bcopy(ep_, 1, pattern(0, 100)); }));
        ASSERT_TRUE(eventually(all_, [&] { return received == 1; }));
        ASSERT_STATUS(UCS_OK, put(kSize, far_.remote().address, key_));
        EXPECT_TRUE(filled(far_.part(0, kSize), kNew));
        reset();
    }

    Entity a_, b_;
    const Group all_{&a_, &b_};
    Declared near_{a_.host(), kSize}, far_{b_.host(), kSize};
    RemoteKey key_{a_.host(), far_.remote()};
    Endpoint ep_ = a_.connect(b_);
};

TEST_F(TransferRightsTest, OutOfBounds) {
    const uint64_t begin = far_.remote().address;
    const struct {
        uint64_t at;
        std::size_t length;
    } bad[] = {{begin - 1, 1},
               {begin + kSize, 1},
               {begin + kSize - 1, 2},
               {begin - 1, kSize},
               {begin + 1, kSize},
               {begin - 4096, kSize},
               {0, 1},
               {UINT64_MAX, kSize},
               {UINT64_MAX - kSize + 1, kSize},
               {begin + kSize, kSize},
               {begin ^ uint64_t{1} << 63, 8}};
    for (const auto& [at, length] : bad) {
        EXPECT_STATUS(UCS_ERR_IO_ERROR, put(length, at, key_)) << at - begin << " " << length;
        EXPECT_STATUS(UCS_ERR_IO_ERROR, get(length, at, key_)) << at - begin << " " << length;
    }
    expect_untouched(far_);
}

// UCP declares memory for one purpose and passes its key for another.
TEST_F(TransferRightsTest, KeysGiveAllRights) {
    for (const unsigned rights : {UCT_MD_MEM_ACCESS_LOCAL_READ, UCT_MD_MEM_ACCESS_LOCAL_WRITE,
                                  UCT_MD_MEM_ACCESS_REMOTE_GET, UCT_MD_MEM_ACCESS_REMOTE_PUT}) {
        Declared other(b_.host(), kSize, rights);
        const RemoteKey key(a_.host(), other.remote());
        fill(near_.part(0, kSize), kNew);
        EXPECT_STATUS(UCS_OK, put(kSize, other.remote().address, key));
        EXPECT_TRUE(filled(other.part(0, kSize), kNew));
        fill(other.part(0, kSize), kOld);
        EXPECT_STATUS(UCS_OK, get(kSize, other.remote().address, key));
        EXPECT_TRUE(filled(near_.part(0, kSize), kOld));
    }
}

TEST_F(TransferRightsTest, KeyOfWhatIsDeclaredNoMore) {
    Declared other(b_.host(), kSize);
    fill(other.part(0, kSize), kOld);
    const RemoteKey key(a_.host(), other.remote());
    EXPECT_STATUS(UCS_OK, put(10, other.remote().address, key));
    fill(other.part(0, kSize), kOld);
    other.undeclare();
    EXPECT_STATUS(UCS_ERR_IO_ERROR, put(kSize, other.remote().address, key));
    EXPECT_STATUS(UCS_ERR_IO_ERROR, get(kSize, other.remote().address, key));
    expect_untouched(other);
    // The next region may reuse the table's entry, but the old key must not fit.
    Declared next(b_.host(), kSize);
    fill(next.part(0, kSize), kOld);
    EXPECT_STATUS(UCS_ERR_IO_ERROR, put(kSize, next.remote().address, key));
    EXPECT_STATUS(UCS_ERR_IO_ERROR, get(kSize, next.remote().address, key));
    expect_untouched(next);
}

TEST_F(TransferRightsTest, KeysThatAreMadeUp) {
    const uint64_t seed = any_seed();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 300; ++i) {
        Remote forged = far_.remote();
        // The first eight bytes of a key are index and generation.
        auto& byte = forged.key[random() % 8];
        const std::byte before = byte;
        byte = static_cast<std::byte>(random());
        if (byte == before) continue;
        const RemoteKey key(a_.host(), forged);
        EXPECT_STATUS(UCS_ERR_IO_ERROR, put(1 + random() % kSize, forged.address, key));
        EXPECT_STATUS(UCS_ERR_IO_ERROR, get(1 + random() % kSize, forged.address, key));
    }
    expect_untouched(far_);
}

// Refused and accepted puts are under way at the same time.
TEST_F(TransferRightsTest, RefusedAmongOthers) {
    Declared secret(b_.host(), kSize);
    fill(secret.part(0, kSize), kOld);
    const RemoteKey wrong(a_.host(), secret.remote());
    secret.undeclare();
    std::deque<Completion> completions;
    constexpr std::size_t kEach = 30000;
    for (std::size_t i = 0; i < 40; ++i) {
        const bool bad = i % 3 == 0;
        const std::size_t at = i / 8 * kEach;
        const uct_iov_t iov = near_.iov(at, kEach);
        const uint64_t to = (bad ? secret : far_).remote().address + at;
        Completion& completion = completions.emplace_back();
        ASSERT_TRUE(accepted(all_, [&] {
            return put_zcopy(ep_, {&iov, 1}, to, bad ? wrong : key_, &completion);
        }));
    }
    ASSERT_TRUE(eventually(all_, [&] {
        return std::ranges::all_of(completions, [](const Completion& it) { return it.calls == 1; });
    }));
    for (std::size_t i = 0; i < 40; ++i)
        EXPECT_STATUS(i % 3 == 0 ? UCS_ERR_IO_ERROR : UCS_OK, completions[i].status) << i;
    EXPECT_TRUE(filled(far_.part(0, 5 * kEach), kNew));
    fill(far_.part(0, kSize), kOld);
    expect_untouched(secret);
}

// Short puts to memory that is not open are carried out like long ones.
TEST_F(TransferRightsTest, ShortPutsThroughTheOwner) {
    const std::size_t most = std::min<std::size_t>(a_.attr().cap.put.max_bcopy, 8192);
    for (std::size_t length = 0; length <= most; length += length < 70 ? 1 : 501) {
        const std::size_t at = 64 + length % 8;
        const Bytes bytes = near_.part(0, length);
        fill(far_.part(0, at + length + 64), kOld);
        ASSERT_TRUE(accepted(all_, [&] {
            const uint64_t to = far_.remote().address + at;
            return length % 2 && length <= a_.attr().cap.put.max_short
                       ? put_short(ep_, bytes, to, key_)
                       : put_bcopy(ep_, bytes, to, key_);
        }));
        // The put has copied the bytes already.
        fill(near_.part(0, length), kOld + 100);
        ASSERT_TRUE(flush_wait(all_, ep_));
        fill(near_.part(0, length), kNew);
        ASSERT_TRUE(filled(far_.part(at, length), kNew)) << length;
        ASSERT_TRUE(filled(far_.part(0, at), kOld)) << length;
        ASSERT_TRUE(filled(far_.part(at + length, 64), kOld, at + length)) << length;
    }
}

TEST_F(TransferRightsTest, ManyShortPutsThroughTheOwner) {
    for (std::size_t i = 0; i < 3000; ++i) {
        ASSERT_TRUE(accepted(all_, [&] {
            return put_bcopy(ep_, near_.part(i * 80, 80), far_.remote().address + i * 80, key_);
        })) << i;
    }
    ASSERT_TRUE(flush_wait(all_, ep_));
    EXPECT_TRUE(filled(far_.part(0, 3000 * 80), kNew));
}

TEST_F(TransferRightsTest, ShortGets) {
    Declared open(b_.host(), kSize, UCT_MD_MEM_ACCESS_ALL);
    fill(open.part(0, kSize), kOld);
    const RemoteKey open_key(a_.host(), open.remote());
    const std::size_t most = a_.attr().cap.get.max_bcopy;
    const auto unpack = [](void* to, const void* from, std::size_t length) {
        const auto* bytes = static_cast<const std::byte*>(from);
        static_cast<std::vector<std::byte>*>(to)->assign(bytes, bytes + length);
    };
    for (std::size_t length = 0; length <= most; length += length < 10 ? 1 : 511)
        for (const bool direct : {false, true}) {
            std::vector<std::byte> got;
            Completion completion;
            ucs_status_t status = UCS_OK;
            const uint64_t from = (direct ? open : far_).remote().address + 8;
            ASSERT_TRUE(accepted(all_, [&] {
                return status = uct_ep_get_bcopy(ep_.get(), unpack, &got, length, from,
                                                 (direct ? open_key : key_).get(), &completion);
            }));
            ASSERT_TRUE(
                eventually(all_, [&] { return status == UCS_OK || completion.calls == 1; }));
            EXPECT_STATUS(UCS_OK, completion.status);
            ASSERT_EQ(got.size(), length);
            EXPECT_TRUE(filled(got, kOld, 8));
        }
}

// Gets without completions; a flush waits for all of them.
TEST_F(TransferRightsTest, ManyShortGets) {
    std::vector<std::byte> got(kSize);
    struct Place {
        std::byte* to;
    };
    std::deque<Place> places;
    const auto unpack = [](void* place, const void* from, std::size_t length) {
        std::memcpy(static_cast<Place*>(place)->to, from, length);
    };
    constexpr std::size_t kEach = 128;
    for (std::size_t at = 0; at < kSize; at += kEach) {
        places.push_back({got.data() + at});
        ASSERT_TRUE(accepted(all_, [&] {
            return uct_ep_get_bcopy(ep_.get(), unpack, &places.back(), kEach,
                                    far_.remote().address + at, key_.get(), nullptr);
        }));
    }
    ASSERT_TRUE(flush_wait(all_, ep_));
    EXPECT_TRUE(filled(got, kOld));
}

// A short put has no completion: its refusal is reported as the endpoint's failure.
TEST_F(TransferRightsTest, RefusedShortPut) {
    Declared secret(b_.host(), kSize);
    fill(secret.part(0, kSize), kOld);
    const RemoteKey wrong(a_.host(), secret.remote());
    secret.undeclare();
    ASSERT_TRUE(accepted(
        all_, [&] { return put_bcopy(ep_, near_.part(0, 100), secret.remote().address, wrong); }));
    ASSERT_TRUE(eventually(all_, [&] { return a_.failures(ep_) == 1; }));
    EXPECT_TRUE(filled(secret.part(0, kSize), kOld));
    ep_ = a_.connect(b_);
    ASSERT_STATUS(UCS_OK, put(kSize, far_.remote().address, key_));
    EXPECT_TRUE(filled(far_.part(0, kSize), kNew));
}

// Rights concern peers only: this side may use its own memory whatever the rights are.
TEST_F(TransferRightsTest, NearMemoryNeedsNoRights) {
    Declared plain(a_.host(), kSize, UCT_MD_MEM_ACCESS_LOCAL_READ);
    fill(plain.part(0, kSize), kNew);
    const uct_iov_t iov = plain.iov(0, kSize);
    EXPECT_STATUS(UCS_OK, put_wait(all_, ep_, {&iov, 1}, far_.remote().address, key_));
    EXPECT_TRUE(filled(far_.part(0, kSize), kNew));
}

}  // namespace transfer_rights_test
}  // namespace uct_test
