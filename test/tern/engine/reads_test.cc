// SPDX-License-Identifier: BSD-3-Clause

// Reads and atomics that a connection may have outstanding: as many as both devices can.

#include <vector>

#include "node.h"

namespace tern::test {
namespace reads_test {

verbs::Port port_with(uint8_t reads) {
    verbs::Port on = port();
    on.reads = reads;
    return on;
}

// What the device says of the connection's queue pair.
void expect_reads(const Channel& channel, uint8_t reads) {
    ibv_qp_attr attributes{};
    ibv_qp_init_attr unused{};
    ASSERT_EQ(ibv_query_qp(channel.qp.get(), &attributes,
                           IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &unused),
              0);
    EXPECT_EQ(attributes.max_rd_atomic, reads);
    EXPECT_EQ(attributes.max_dest_rd_atomic, reads);
}

TEST(ReadsTest, AreAsManyAsBothDevicesCan) {
    ASSERT_GE(port().reads, 1);
    ASSERT_LE(port().reads, verbs::kMostReads);
    EXPECT_LE(port().reads, device().attributes.max_qp_rd_atom);
    const uint8_t most = port().reads;
    const uint8_t few = std::max<uint8_t>(most / 4, 1);
    for (const auto& [here, there] : std::vector<std::pair<uint8_t, uint8_t>>{
             {most, most}, {most, few}, {few, most}, {1, few}}) {
        SCOPED_TRACE(testing::Message() << int{here} << " and " << int{there});
        Node a(quick_settings(), port_with(here)), b(quick_settings(), port_with(there));
        int user_a = 0, user_b = 0;
        std::string why;
        Channel* const to = a.engine->attach(b.engine->address(), &user_a, why);
        ASSERT_NE(to, nullptr) << why;
        ASSERT_TRUE(a.send(*to, 1, "hello", b));
        ASSERT_TRUE(
            until([&] { a.poll(), b.poll(); }, [&] { return to->up() && !b.messages.empty(); }));
        Channel* const from = b.engine->attach(a.engine->address(), &user_b, why);
        ASSERT_NE(from, nullptr) << why;
        ASSERT_NO_FATAL_FAILURE(expect_reads(*to, std::min(here, there)));
        ASSERT_NO_FATAL_FAILURE(expect_reads(*from, std::min(here, there)));
    }
}

}  // namespace reads_test
}  // namespace tern::test
