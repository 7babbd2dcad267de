// SPDX-License-Identifier: BSD-3-Clause
// Full frames of long messages, and messages of a single frame that are answered, from memory that
// comes back: they go in place.
#include <sys/mman.h>

#include <cstdlib>
#include <deque>
#include <optional>

#include "message.h"
#include "transfer.h"

namespace uct_test {
namespace message_in_place_test {

constexpr std::size_t kHeader = 16;
constexpr std::size_t kFrames = 4;  // of a message
constexpr int kMessages = 20;

// Copies are said to be slow, so that a pin is worth its cost from the second use on.
Settings slow_copies() {
    return {{"RNDV_COSTS", "copy=1MBps,pin=10GBps,pin_latency=1us"}, {"RNDV_PIN_AFTER", "2"}};
}

// Two interfaces, and private memory of the sender's, which is declared for each message, as by UCX
// 1.13.
class MessageInPlaceTest : public TernTest {
  protected:
    // Those that are made when a device is opened, to measure them.
    static uint64_t first_registrations() {
        Entity entity(slow_copies());
        return entity.close_and_count()["pin_registrations"];
    }

    void SetUp() override {
        TernTest::SetUp();
        if (IsSkipped()) return;
        b_.handle(1, [this](Bytes frame) {
            ++frames_;
            good_ += filled(frame.subspan(kHeader), seed_, at_);
            at_ += frame.size() - kHeader;
        });
        b_.handle(2, [](Bytes) {});
        map(nullptr, 0);
        ASSERT_TRUE(accepted(all_, [&] { return am_short(ep_, 2, pattern(0, 8)); }));
        ASSERT_TRUE(flush_wait(all_, ep_));
    }
    void TearDown() override {
        if (data_ != nullptr) munmap(data_, kFrames * payload());
    }

    std::size_t payload() const { return a_.attr().cap.am.max_zcopy - kHeader; }
    void map(void* at, int flags) {
        at = mmap(at, kFrames * payload(), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        check(at != MAP_FAILED ? UCS_OK : UCS_ERR_NO_MEMORY, "mmap");
        data_ = static_cast<std::byte*>(at);
    }
    void map_again() {
        munmap(data_, kFrames * payload());
        map(data_, MAP_FIXED);
    }

    // A message of frames with so many bytes each, new ones each time. The memory is the user's
    // again after the completions: then it is overwritten.
    void message(std::size_t length) {
        const std::span<std::byte> memory{data_, kFrames * length};
        fill(memory, ++seed_);
        at_ = 0;
        frames_ = good_ = 0;
        uct_mem_h handle;
        check(uct_md_mem_reg(a_.host().md(), memory.data(), memory.size(), kRma, &handle),
              "uct_md_mem_reg");
        Completion completion(kFrames);
        for (std::size_t i = 0; i < kFrames; ++i) {
            const uct_iov_t iov{memory.data() + i * length, length, handle, 0, 1};
            ucs_status_t status = UCS_OK;
            ASSERT_TRUE(accepted(all_, [&] {
                return status = am_zcopy(ep_, 1, pattern(1, kHeader), {&iov, 1}, &completion);
            }));
            completion.count -= status == UCS_OK;
        }
        ASSERT_TRUE(eventually(Group{&a_}, [&] { return completion.count == 0; }));
        check(uct_md_mem_dereg(a_.host().md(), handle), "uct_md_mem_dereg");
        fill(memory, seed_ + 1000);
        ASSERT_TRUE(eventually(all_, [&] { return frames_ == kFrames; }));
        EXPECT_EQ(good_, kFrames) << "message " << seed_;
    }
    void messages(std::size_t length, int count = kMessages) {
        for (int i = 0; i < count; ++i) ASSERT_NO_FATAL_FAILURE(message(length));
    }
    Counters count() {
        ep_.reset();
        linger(all_, milliseconds(5));
        return a_.close_and_count();
    }

    Entity a_{slow_copies()}, b_;
    const Group all_{&a_, &b_};
    Endpoint ep_ = a_.connect(b_);
    std::byte* data_ = nullptr;
    uint64_t seed_ = 0;
    std::size_t at_ = 0;  // in the message: where the next frame's bytes begin
    std::size_t frames_ = 0, good_ = 0;
};

TEST_F(MessageInPlaceTest, FullFramesFromMemoryThatComesBack) {
    const uint64_t registrations = first_registrations();
    messages(payload());
    const Counters counters = count();
    EXPECT_EQ(counters["zcopy"] + counters["bcopy"], uint64_t{kMessages * kFrames});
    EXPECT_GE(counters["zcopy"], uint64_t{kMessages - 4} * kFrames) << counters.json();
    EXPECT_EQ(counters["pin_registrations"], registrations + 1)
        << "the declared memory gets one pin: " << counters.json();
}

TEST_F(MessageInPlaceTest, NotFramesThatAreNotFull) {
    messages(payload() / 2);
    const Counters counters = count();
    EXPECT_EQ(counters["zcopy"], 0u);
    EXPECT_EQ(counters["bcopy"], uint64_t{kMessages * kFrames});
}

// A message of one frame, from memory that comes back, and one of the peer's. `in_turns`: the peer
// sends when it has the message, and before otherwise.
class AnswerTest : public MessageInPlaceTest {
  protected:
    void SetUp() override {
        MessageInPlaceTest::SetUp();
        if (IsSkipped()) return;
        a_.handle(3, [this](Bytes) { ++answers_; });
        back_ = b_.connect(a_);
    }
    void round(bool in_turns) {
        const std::size_t length = payload() / 2;
        const uct_iov_t iov = memory_->iov(0, length);
        fill(memory_->part(0, length), ++seed_);
        at_ = 0;
        frames_ = good_ = answers_ = 0;
        const auto answer = [&] {
            ASSERT_TRUE(accepted(all_, [&] { return am_short(back_, 3, pattern(0, 8)); }));
        };
        Completion completion;
        ucs_status_t status = UCS_OK;
        ASSERT_TRUE(accepted(all_, [&] {
            return status = am_zcopy(ep_, 1, pattern(1, kHeader), {&iov, 1}, &completion);
        }));
        completion.count -= status == UCS_OK;
        if (!in_turns) answer();
        ASSERT_TRUE(eventually(Group{&b_}, [&] { return frames_ == 1; }));
        if (in_turns) answer();
        ASSERT_TRUE(eventually(Group{&a_}, [&] { return answers_ == 1 && completion.count == 0; }));
        EXPECT_EQ(good_, 1u) << "message " << seed_;
    }
    // Returns how many of kRounds messages went in place, when the peers are hot.
    uint64_t rounds(bool in_turns) {
        memory_.emplace(a_.host(), payload());
        for (int i = 0; i < 2 * kRounds; ++i) round(in_turns);
        const Counters counters = count();
        memory_.reset();
        EXPECT_EQ(counters["zcopy"] + counters["bcopy"], uint64_t{2 * kRounds});
        return counters["zcopy"];
    }

    static constexpr int kRounds = 200;
    Endpoint back_;
    std::optional<Declared> memory_;
    std::size_t answers_ = 0;
};

TEST_F(AnswerTest, SingleFramesIfThePeersSendInTurns) {
    NEEDS_BLOCKS();
    EXPECT_GE(rounds(true), uint64_t{kRounds});
}

TEST_F(AnswerTest, NotSingleFramesIfThePeersSendAtOnce) {
    EXPECT_LE(rounds(false), 4u) << "those that begin a block";
}

// Memory that is mapped anew at the same place has other pages.
TEST_F(MessageInPlaceTest, UntilTheMemoryIsUnmapped) {
    for (int i = 0; i < 5; ++i) {
        messages(payload());
        map_again();
    }
    const Counters counters = count();
    EXPECT_GE(counters["zcopy"], uint64_t{5} * (kMessages - 4) * kFrames) << counters.json();
    EXPECT_GE(counters["pin_invalidations"], 4u) << counters.json();
}

TEST_F(MessageInPlaceTest, NotIfPinsCannotBeKept) {
    count();
    ASSERT_EQ(setenv("UCX_TERN_PIN_MONITOR", "none", 1), 0);
    {
        Entity a(slow_copies());
        const Group all{&a, &b_};
        Endpoint ep = a.connect(b_);
        Declared memory(a.host(), payload());
        for (int i = 0; i < kMessages; ++i) {
            const uct_iov_t iov = memory.iov(0, payload());
            ASSERT_TRUE(accepted(all, [&] {
                return am_zcopy(ep, 2, pattern(1, kHeader), {&iov, 1}, nullptr);
            }));
        }
        ASSERT_TRUE(flush_wait(all, ep));
        ep.reset();
        linger(all, milliseconds(5));
        EXPECT_EQ(a.close_and_count()["zcopy"], 0u);
    }
    unsetenv("UCX_TERN_PIN_MONITOR");
}

}  // namespace message_in_place_test
}  // namespace uct_test
