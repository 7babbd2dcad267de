// SPDX-License-Identifier: BSD-3-Clause

// How much one call of progress registers and copies, with many long messages under way.

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "rendezvous_node.h"
#include "tern/verbs/handles.h"

namespace tern::test {
namespace {

constexpr size_t kMB = 1 << 20;
// With the rest of the last page.
const size_t kRing =
    (size_t{RendezvousSettings().ring_slots()} * SubBlocks::kSlot + 4095) / 4096 * 4096;

// Gets by one node of the memory of another.
class ProgressBudgetTest : public testing::Test {
  protected:
    struct Get {
        size_t in_place = 0;  // bytes
        bool begun = false;
    };

    void prepare(SchemeSetting scheme, size_t count, size_t length, uint32_t rings = 16,
                 MonitorKind monitor = MonitorKind::kNone) {
        asker_ = std::make_unique<RendezvousNode>(scheme, PollMode::kAuto, rings, costs_, monitor);
        owner_ = std::make_unique<RendezvousNode>(scheme, PollMode::kAuto, rings, costs_, monitor);
        length_ = length;
        from_.assign(count * length, std::byte{0x5a});
        to_.assign(count * length, std::byte{});
        gets_.assign(count, {});
        region_ = owner_->regions.declare(from_.data(), from_.size(), kLocalRead | kRemoteAll);
        std::string why;
        channel_ = asker_->engine->attach(owner_->engine->address(), this, why);
        ASSERT_TRUE(channel_) << why;
    }
    void TearDown() override {
        asker_.reset();
        if (owner_) (void)owner_->regions.undeclare(region_);
        memory_ = {};
        owner_.reset();
    }
    // Reads of `from_` need no help of its owner then.
    void open() {
        memory_ = verbs::MemoryRegion(ibv_reg_mr(device().pd.get(), from_.data(), from_.size(),
                                                 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
        ASSERT_TRUE(memory_);
    }
    // Both sides use each buffer for the `times`th time with the next get.
    void use_before(uint32_t times) {
        for (uint32_t i = 1; i < times; ++i)
            for (size_t get = 0; get < gets_.size(); ++get) {
                (void)asker_->pins.note(to_.data() + get * length_, length_);
                (void)owner_->pins.note(from_.data() + get * length_, length_);
            }
    }
    void begin() {
        for (size_t i = 0; i < gets_.size(); ++i) {
            if (gets_[i].begun) continue;
            const Buffers::Piece piece{to_.data() + i * length_, length_};
            const uint64_t address = reinterpret_cast<uint64_t>(from_.data()) + i * length_;
            const Status status =
                asker_->rendezvous->get(*channel_, {&piece, 1}, address, owner_->key(region_),
                                        memory_ ? memory_->rkey : 0, {}, {this});
            if (status != Status::kInProgress) break;
            gets_[i].begun = true;
        }
    }
    // The bytes that have been placed since the last call.
    size_t placed() {
        size_t more = 0;
        for (size_t i = 0; i < gets_.size(); ++i) {
            size_t& at = gets_[i].in_place;
            const void* end = memchr(to_.data() + i * length_ + at, 0, length_ - at);
            const size_t now =
                end != nullptr
                    ? static_cast<size_t>(static_cast<const std::byte*>(end) - to_.data()) -
                          i * length_
                    : length_;
            more += now - at;
            at = now;
        }
        return more;
    }
    bool done() const { return asker_->completions.size() >= gets_.size(); }
    void expect_all() {
        EXPECT_EQ(from_, to_);
        for (const Status status : asker_->completions) EXPECT_EQ(status, Status::kOk);
    }
    bool run_until(const std::function<bool()>& done) {
        return until(
            [this] {
                asker_->poll();
                owner_->poll();
            },
            done);
    }
    // Runs all to the end. `check(node)` is called before and after each poll of a node.
    template <class Before, class After>
    void run(Before&& before, After&& after) {
        const auto step = [&] {
            for (RendezvousNode* node : {asker_.get(), owner_.get()}) {
                before(*node);
                if (node == asker_.get()) begin();
                node->poll();
                after(*node);
            }
        };
        EXPECT_TRUE(until(step, [&] { return done() || HasFailure(); }));
    }

    Costs costs_ = *find_costs("graphene");
    const double copies_ = kProgressTime * costs_.copy.memory_bandwidth;  // bytes in a call
    size_t length_ = 0;
    std::vector<std::byte> from_;
    std::vector<std::byte> to_;
    std::vector<Get> gets_;
    std::unique_ptr<RendezvousNode> asker_;
    std::unique_ptr<RendezvousNode> owner_;
    Region* region_ = nullptr;
    verbs::MemoryRegion memory_;
    Channel* channel_ = nullptr;
};

// Both sides register as much as a call allows.
class RegistrationTest : public ProgressBudgetTest {
  protected:
    void run_and_check() {
        const double most =
            (kLongestProgress - costs_.registration.latency) * costs_.registration.bandwidth;
        uint64_t before = 0;
        run([&](RendezvousNode& node) { before = node.registered; },
            [&](RendezvousNode& node) {
                EXPECT_LE(static_cast<double>(node.registered - before), most);
            });
        const uint64_t all = asker_->registered + (memory_ ? 0 : owner_->registered);
        EXPECT_GE(all, from_.size() * (memory_ ? 1 : 2));
        expect_all();
    }
};

TEST_F(RegistrationTest, OfABufferThatIsUsedAgain) {
    prepare(SchemeSetting::kAuto, 1, 64 * kMB + 4711);
    use_before(3);
    run_and_check();
}

TEST_F(RegistrationTest, OfManyBuffers) {
    prepare(SchemeSetting::kZeroCopy, 12, 5 * kMB - 4711);
    run_and_check();
}

TEST_F(RegistrationTest, OfManyBuffersThatAreUsedAgain) {
    prepare(SchemeSetting::kAuto, 40, 300'000);
    use_before(3);
    run_and_check();
}

// All of a buffer is pinned before it is asked for.
TEST_F(RegistrationTest, WithoutRings) {
    prepare(SchemeSetting::kZeroCopy, 6, 7 * kMB + 4711, 1);
    run_and_check();
}

TEST_F(RegistrationTest, OfWhatIsRead) {
    prepare(SchemeSetting::kAuto, 3, 20 * kMB + 4711);
    open();
    use_before(3);
    run_and_check();
}

// The owner writes all of a buffer whose pieces are pinned, though the asker is away meanwhile.
TEST_F(RegistrationTest, PartsThatArePinnedAreToldAtOnce) {
    prepare(SchemeSetting::kZeroCopy, 1, 20 * kMB, 16, MonitorKind::kUcm);
    use_before(3);
    run_and_check();
    gets_.assign(1, {});
    const uint64_t registered = asker_->registered;
    const uint64_t before = owner_->rendezvous->counters().gathered_bytes;
    for (int i = 0; i < 4; ++i) {
        begin();
        asker_->poll();
        owner_->poll();
    }
    EXPECT_TRUE(
        until([&] { owner_->poll(); },
              [&] { return owner_->rendezvous->counters().gathered_bytes - before == length_; }));
    EXPECT_EQ(asker_->registered, registered);
    run([](RendezvousNode&) {}, [](RendezvousNode&) {});
}

// A program that begins a transfer before each call of progress delays others, but stops none.
TEST_F(ProgressBudgetTest, NewTransfersDoNotOvertakeWhatWasPutOff) {
    const auto longest = static_cast<size_t>(ProgressBudget::longest_registration(costs_));
    constexpr size_t kNewcomers = 100;
    prepare(SchemeSetting::kAuto, 1, longest, 16, MonitorKind::kUcm);
    use_before(3);
    std::vector<std::byte> short_from(kNewcomers * 65536, std::byte{1});
    std::vector<std::byte> short_to(short_from.size());
    Region* region =
        owner_->regions.declare(short_from.data(), short_from.size(), kLocalRead | kRemoteAll);
    EXPECT_TRUE(run_until([&] { return channel_->up(); }));
    size_t calls = 0;
    for (size_t i = 0; i < kNewcomers; ++i) {
        // Their second use: this side has the buffer watched.
        (void)asker_->pins.note(short_to.data() + i * 65536, 65536);
        const Buffers::Piece piece{short_to.data() + i * 65536, 65536};
        EXPECT_EQ(asker_->rendezvous->get(*channel_, {&piece, 1},
                                          reinterpret_cast<uint64_t>(short_from.data()) + i * 65536,
                                          owner_->key(region), 0, {}, {this}),
                  Status::kInProgress);
        if (i == 0) begin();
        asker_->poll();
        owner_->poll();
        calls += asker_->registered == 0;
    }
    EXPECT_GE(asker_->completions.size(), 10u);
    // The first of the others has its ring made before.
    EXPECT_LE(calls, 12u) << "calls of progress before the long buffer was registered";
    EXPECT_TRUE(run_until([&] { return asker_->completions.size() == kNewcomers + 1; }));
    asker_.reset();
    (void)owner_->regions.undeclare(region);
}

TEST_F(ProgressBudgetTest, RingsAreLentInTheOrderOfTheRequests) {
    prepare(SchemeSetting::kSuperpipeline, 40, 100'000, 1);
    EXPECT_TRUE(run_until([&] { return channel_->up(); }));
    for (Get& get : gets_) get.begun = true;
    size_t next = 0;
    run(
        [&](RendezvousNode& node) {
            if (&node == asker_.get() && next != gets_.size()) gets_[next++].begun = false;
        },
        [&](RendezvousNode&) {
            (void)placed();
            for (size_t i = 1; i < gets_.size(); ++i)
                if (gets_[i].in_place != 0) {
                    EXPECT_EQ(gets_[i - 1].in_place, length_) << "before " << i;
                }
        });
}

// To look whether pieces are pinned takes time, too.
TEST_F(ProgressBudgetTest, LooksForPinsCount) {
    costs_.registration.bandwidth /= 100;
    costs_.registration.look = 0.8e-6;
    prepare(SchemeSetting::kZeroCopy, 48, 5 * kMB, 64, MonitorKind::kUcm);
    use_before(3);
    run([](RendezvousNode&) {}, [](RendezvousNode&) {});
    asker_->completions.clear();
    gets_.assign(gets_.size(), {});
    uint64_t before = 0;
    uint64_t most = 0;
    run([&](RendezvousNode& node) { before = node.pins.counters().hits; },
        [&](RendezvousNode& node) {
            if (&node == asker_.get()) most = std::max(most, node.pins.counters().hits - before);
        });
    EXPECT_LE(static_cast<double>(most) * costs_.registration.look, kLongestProgress) << most;
}

// Rings and staging memory are registered when they are first needed.
TEST_F(ProgressBudgetTest, RegistersFewRings) {
    prepare(SchemeSetting::kSuperpipeline, 16, kMB);
    uint64_t before = 0;
    run([&](RendezvousNode& node) { before = node.rendezvous->registered_bytes(); },
        [&](RendezvousNode& node) {
            EXPECT_LE(node.rendezvous->registered_bytes() - before, kRing);
        });
    EXPECT_GE(asker_->rendezvous->registered_bytes(), 8 * kRing);
    EXPECT_GE(owner_->rendezvous->registered_bytes(), 2 * kRing);
    expect_all();
}

class CopyTest : public ProgressBudgetTest {
  protected:
    // Everything has been posted that the receiver's rings and reads take, and nothing taken.
    void let_arrive() {
        EXPECT_TRUE(until(
            [&] {
                begin();
                asker_->poll();
                owner_->poll();
            },
            [&] { return gets_.back().begun && channel_->up(); }));
        for (int i = 0; i < 1000; ++i) owner_->poll();
    }
    void expect_steps_of_the_receiver(double longest) {
        let_arrive();
        (void)placed();
        run([](RendezvousNode&) {},
            [&](RendezvousNode& node) {
                if (&node != asker_.get()) return;
                EXPECT_LE(static_cast<double>(placed()), copies_ + longest);
            });
        expect_all();
    }
};

TEST_F(CopyTest, OutOfRings) {
    prepare(SchemeSetting::kSuperpipeline, 16, kMB);
    expect_steps_of_the_receiver(64 * 1024);
}

TEST_F(CopyTest, OfReads) {
    prepare(SchemeSetting::kSuperpipeline, 16, kMB);
    open();
    expect_steps_of_the_receiver(128 * 1024);
}

TEST_F(CopyTest, IntoStagingMemory) {
    prepare(SchemeSetting::kSuperpipeline, 16, kMB);
    uint64_t before = 0;
    run([&](RendezvousNode& node) { before = node.rendezvous->counters().staged_bytes; },
        [&](RendezvousNode& node) {
            const uint64_t copied = node.rendezvous->counters().staged_bytes - before;
            EXPECT_LE(static_cast<double>(copied), copies_ + 128 * 1024);
        });
    expect_all();
}

}  // namespace
}  // namespace tern::test
