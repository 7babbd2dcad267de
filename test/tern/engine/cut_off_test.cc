// SPDX-License-Identifier: BSD-3-Clause

// Channels that are left at once, while completions of theirs are handled or set aside.

#include <cstring>
#include <vector>

#include "node.h"

namespace tern::test {
namespace cut_off_test {

class CutOffTest : public testing::Test {
  protected:
    static constexpr int kAccess =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

    void SetUp() override {
        std::string why;
        channel_ = a_.engine->attach(b_.engine->address(), &user_, why);
        ASSERT_NE(channel_, nullptr) << why;
        ASSERT_TRUE(until(
            [&] {
                a_.poll();
                b_.poll();
            },
            [&] { return channel_->up(); }));
    }
    void put(int count) {
        const ibv_sge piece{.addr = reinterpret_cast<uint64_t>(memory_.data()),
                            .length = 64,
                            .lkey = memory_.lkey()};
        for (int i = 0; i < count; ++i)
            ASSERT_EQ(a_.engine->one_sided()->put_in_place(
                          *channel_, piece, reinterpret_cast<uint64_t>(memory_.data()) + 1024,
                          memory_.rkey(), &cookies_[i]),
                      Status::kOk);
    }

    Node a_, b_;
    verbs::RegisteredMemory memory_{device().pd.get(), 4096, kAccess};
    Channel* channel_ = nullptr;
    uint64_t cookies_[8] = {};
    int user_ = 0;
};

// Leaves the channel when the first completion is reported, while others have been taken off the
// queue with it.
struct Leaver {
    Node& node;
    Channel& channel;
    void* user;
    std::vector<Status> before;  // reported by the poll, until the channel is left
    size_t after = 0;            // reported when it has been left

    void message(uint32_t, const void*, uint32_t) {}
    bool keeps(uint32_t, std::byte*, uint32_t) { return false; }
    bool tagged(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    bool control(Channel&, uint32_t, const std::byte*, uint32_t) { return false; }
    bool notified(Channel&, uint32_t) { return false; }
    void completed(void*, Status status) {
        before.push_back(status);
        if (before.size() != 1) return;
        node.engine->leave_at_once(channel, user);
        after = node.completions.size();
    }
};

TEST_F(CutOffTest, WhileItsCompletionsAreHandled) {
    ASSERT_NO_FATAL_FAILURE(put(6));
    Leaver leaver{a_, *channel_, &user_, {}};
    ASSERT_TRUE(until(
        [&] {
            unsigned count = 0;
            (void)a_.engine->poll(leaver, count);
        },
        [&] { return !leaver.before.empty(); }));
    EXPECT_EQ(leaver.after, 5u) << "all are reported before the call returns";
    EXPECT_EQ(leaver.before.size(), 1u) << "none is reported twice";
}

TEST_F(CutOffTest, WhileItsCompletionsAreSetAside) {
    ASSERT_NO_FATAL_FAILURE(put(6));
    for (int i = 0; i < 6; ++i) a_.engine->keep_completion();
    a_.engine->leave_at_once(*channel_, &user_);
    EXPECT_EQ(a_.completions.size(), 6u);
    for (int i = 0; i < 1000; ++i) a_.poll();
    EXPECT_EQ(a_.completions.size(), 6u);
}

}  // namespace cut_off_test
}  // namespace tern::test
