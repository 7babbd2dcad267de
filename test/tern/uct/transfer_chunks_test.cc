// SPDX-License-Identifier: BSD-3-Clause
// The settings of the chunks of a long message have their effects.
#include "transfer.h"

namespace uct_test {
namespace transfer_chunks_test {

// 24 sub-blocks: fewer than a ring has slots, so the number of chunks depends on nothing else.
constexpr std::size_t kLength = 24 * 4096;

// How many chunks a put has with one more setting.
uint64_t chunks(const std::string& name, const std::string& value) {
    // Copies are eight times as fast as the network, so chunks may grow.
    const Settings settings{{"RNDV_SCHEME", "superpipeline"},
                            {"RNDV_COSTS", "copy=8GBps,net=1GBps,pin=30GBps,pin_latency=5us"},
                            {name, value}};
    Entity a(settings), b(settings);
    const Group both{&a, &b};
    Declared near(a.host(), kLength), far(b.host(), kLength);
    const RemoteKey key(a.host(), far.remote());
    Endpoint ep = a.connect(b);
    fill(near.part(0, kLength), 7);
    const uct_iov_t iov = near.iov(0, kLength);
    EXPECT_STATUS(UCS_OK, put_wait(both, ep, {&iov, 1}, far.remote().address, key));
    EXPECT_TRUE(filled(far.part(0, kLength), 7));
    ep.reset();
    linger(both, milliseconds(5));
    return a.close_and_count()["rndv_chunks"];
}

TEST(TransferChunksTest, HaveTheFirstLength) {
    EXPECT_EQ(chunks("rndv_chunk_first", "12288"), 4u) << "the default: 3, 4, 6 and 11 sub-blocks";
    EXPECT_EQ(chunks("rndv_chunk_first", "4096"), 7u) << "1, 1, 2, 3, 5, 7 and 5";
    EXPECT_EQ(chunks("rndv_chunk_first", "1048576"), 2u)
        << "21, the most that a ring allows, and 3";
}

TEST(TransferChunksTest, Grow) {
    EXPECT_EQ(chunks("rndv_chunk_growth", "1"), 8u) << "3 each";
    EXPECT_EQ(chunks("rndv_chunk_growth", "2"), 4u) << "3, 6, 12 and 3";
    EXPECT_EQ(chunks("rndv_chunk_growth", "1000"), 2u) << "3 and 21";
}

TEST(TransferChunksTest, ShareTheRing) {
    EXPECT_EQ(chunks("rndv_buffers", "63"), 24u) << "one sub-block each";
    EXPECT_EQ(chunks("rndv_buffers", "16"), 8u) << "3 each";
    EXPECT_EQ(chunks("rndv_buffers", "7"), 5u) << "3, 4, 6, 9 and 2";
}

}  // namespace transfer_chunks_test
}  // namespace uct_test
