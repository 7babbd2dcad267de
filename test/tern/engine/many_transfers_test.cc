// SPDX-License-Identifier: BSD-3-Clause

// How many transfers a call of progress looks at, with many under way.

#include <vector>

#include "rendezvous_node.h"
#include "tern/verbs/handles.h"

namespace tern::test {
namespace {

constexpr size_t kLength = 8192;

// Gets by one node of the memory of another.
class ManyTransfersTest : public testing::Test {
  protected:
    void prepare(size_t count) {
        from_.assign(count * kLength, std::byte{0x5a});
        to_.assign(count * kLength, std::byte{});
        region_ = owner_.regions.declare(from_.data(), from_.size(), kLocalRead | kRemoteAll);
        std::string why;
        channel_ = asker_.engine->attach(owner_.engine->address(), this, why);
        ASSERT_TRUE(channel_) << why;
        EXPECT_TRUE(until([&] { asker_.poll(), owner_.poll(); }, [&] { return channel_->up(); }));
    }
    ~ManyTransfersTest() override { (void)owner_.regions.undeclare(region_); }
    // Begins as many as there is room for. `rkey`: of open memory, or 0.
    void begin(uint32_t rkey) {
        for (; begun_ * kLength < to_.size(); ++begun_) {
            const Buffers::Piece piece{to_.data() + begun_ * kLength, kLength};
            const uint64_t address = reinterpret_cast<uint64_t>(from_.data()) + begun_ * kLength;
            if (asker_.rendezvous->get(*channel_, {&piece, 1}, address, owner_.key(region_), rkey,
                                       {}, {this}) != Status::kInProgress)
                break;
        }
    }
    bool all_begun() const { return begun_ * kLength == to_.size(); }
    bool done() const { return asker_.completions.size() * kLength == to_.size(); }
    // Both nodes work until all is over.
    void finish() {
        EXPECT_TRUE(until([&] { asker_.poll(), owner_.poll(); }, [&] { return done(); }));
        EXPECT_EQ(from_, to_);
    }

    RendezvousNode asker_{SchemeSetting::kZeroCopy}, owner_{SchemeSetting::kZeroCopy};
    std::vector<std::byte> from_, to_;
    Region* region_ = nullptr;
    Channel* channel_ = nullptr;
    size_t begun_ = 0;
};

// Each read is posted by one look, and ends by one; only the first that waits for room is looked at
// in vain.
TEST_F(ManyTransfersTest, ReadsAreLookedAtWhenSomethingHasHappened) {
    constexpr size_t kGets = 1000;
    ASSERT_NO_FATAL_FAILURE(prepare(kGets));
    verbs::MemoryRegion open(ibv_reg_mr(device().pd.get(), from_.data(), from_.size(),
                                        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    ASSERT_TRUE(open);
    size_t calls = 0;
    EXPECT_TRUE(until(
        [&] {
            begin(open->rkey);
            asker_.poll();
            ++calls;
        },
        [&] { return done(); }));
    EXPECT_EQ(from_, to_);
    EXPECT_LE(asker_.rendezvous->steps(), 4 * kGets + calls);
}

// What waits for the peer is not looked at, however much it is.
TEST_F(ManyTransfersTest, ThoseThatWaitForThePeerAreNotLookedAt) {
    constexpr size_t kGets = 1000;
    ASSERT_NO_FATAL_FAILURE(prepare(kGets));
    // The owner sees nothing of it.
    size_t idle = 0;
    EXPECT_TRUE(until(
        [&] {
            const size_t before = begun_;
            begin(0);
            asker_.poll();
            idle = begun_ == before ? idle + 1 : 0;
        },
        [&] { return idle == 2000; }));
    EXPECT_GT(begun_, 50u);
    const uint64_t before = asker_.rendezvous->steps();
    constexpr size_t kCalls = 100;
    for (size_t i = 0; i < kCalls; ++i) asker_.poll();
    EXPECT_LE(asker_.rendezvous->steps() - before, kCalls) << begun_ << " have begun";
    EXPECT_TRUE(until(
        [&] {
            begin(0);
            asker_.poll(), owner_.poll();
        },
        [&] { return all_begun(); }));
    // And the owner has all, and nothing to do before the asker is heard of.
    for (size_t i = 0; i < 2000; ++i) owner_.poll();
    const uint64_t served = owner_.rendezvous->steps();
    for (size_t i = 0; i < kCalls; ++i) owner_.poll();
    EXPECT_LE(owner_.rendezvous->steps() - served, kCalls);
    finish();
}

}  // namespace
}  // namespace tern::test
