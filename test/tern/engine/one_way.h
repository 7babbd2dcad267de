// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <string>

#include "node.h"

namespace tern::test {

inline constexpr const char* kNoBlocks =
    "no blocks, because the device does not promise the order of writes";

inline bool readable(int fd, int limit) {
    pollfd it{fd, POLLIN, 0};
    return ::poll(&it, 1, limit) == 1;
}

// A node that sends to another one, into a block.
class OneWayTest : public testing::Test {
  protected:
    explicit OneWayTest(const EngineSettings& settings = quick_settings())
        : sender(settings), receiver(settings) {}

    // Sends as many messages as the block takes to be granted. `sleeper`: the side that will sleep.
    // Skips the test where no block is granted.
    void begin(Node& sleeper, size_t messages, const std::string& text) {
        if (!writes_in_order()) GTEST_SKIP() << kNoBlocks;
        std::string why;
        channel = sender.engine->attach(receiver.engine->address(), this, why);
        ASSERT_TRUE(channel) << why;
        fd = sleeper.engine->sleep()->event_fd(why);
        ASSERT_GE(fd, 0) << why;
        for (size_t i = 0; i < messages; ++i) ASSERT_TRUE(sender.send(*channel, 1, text, receiver));
        ASSERT_TRUE(
            until([this] { poll(); }, [&] { return receiver.messages.size() == messages; }));
        ASSERT_EQ(receiver.engine->usage().hot_peers, 1u);
        // Time for the receiver to learn where the sender's words are.
        for (int i = 0; i < 1000; ++i) poll();
        receiver.messages.clear();
    }
    void TearDown() override {
        if (channel != nullptr) sender.engine->leave(channel, this);
    }
    void poll() {
        sender.poll();
        receiver.poll();
    }

    Node sender, receiver;
    Channel* channel = nullptr;
    int fd = -1;
};

}  // namespace tern::test
