// SPDX-License-Identifier: BSD-3-Clause
// Shared by the tests of direct messages.
#pragma once

#include "tag.h"

namespace uct_test {

inline constexpr uct_tag_t kTag = 0x0001'0000'0000'0007;

inline Settings direct(Settings more = {}) {
    Settings settings{
        {"TM_TUPLES", "4"}, {"tm_depth", "4"}, {"tm_tuple_after", "2"}, {"TM_TUPLE_MIN", "0"}};
    for (const auto& [name, value] : more) settings.insert_or_assign(name, value);
    return settings;
}

class DirectTest : public TagTest {
  protected:
    void SetUp() override {
        if (!conformance::Hca().has(IBV_DEVICE_XRC)) GTEST_SKIP() << "no XRC";
    }
    // Exchanges messages with posted receives until the tag has an XRC queue, and the sender has
    // learned so.
    static void warm(TagPair& pair, uct_tag_t tag = kTag) {
        for (uint64_t i = 0; i < 8; ++i) {
            Receive receive(pair.b, 64);
            ASSERT_STATUS(UCS_OK, receive.post(tag));
            linger(pair.all, milliseconds(1));  // for the grant
            pair.send(tag, pattern(i, 33));
            ASSERT_TRUE(pair.until([&] { return receive.done(); }));
            EXPECT_TRUE(same(receive.bytes(), pattern(i, 33)));
            linger(pair.all, milliseconds(2));
        }
    }
};

}  // namespace uct_test
