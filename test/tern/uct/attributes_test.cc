// SPDX-License-Identifier: BSD-3-Clause
// Attributes and addresses of interfaces.
#include <gmock/gmock.h>

#include "message.h"

namespace uct_test {
namespace {

class Attributes : public testing::Test {};
class TernAttributes : public TernTest {};

TEST_F(TernAttributes, CapabilitiesAreThoseOfTheDesign) {
    Entity entity;
    for (const uint64_t flag :
         {UCT_IFACE_FLAG_AM_SHORT, UCT_IFACE_FLAG_AM_BCOPY, UCT_IFACE_FLAG_AM_ZCOPY,
          UCT_IFACE_FLAG_PUT_SHORT, UCT_IFACE_FLAG_PUT_BCOPY, UCT_IFACE_FLAG_PENDING,
          UCT_IFACE_FLAG_CONNECT_TO_IFACE, UCT_IFACE_FLAG_CB_SYNC, UCT_IFACE_FLAG_EP_CHECK,
          UCT_IFACE_FLAG_ERRHANDLE_PEER_FAILURE}) {
        EXPECT_TRUE(entity.has(flag)) << "bit " << __builtin_ctzll(flag);
    }
    // Capabilities that Tern must not claim.
    for (const uint64_t flag :
         {UCT_IFACE_FLAG_AM_DUP, UCT_IFACE_FLAG_CONNECT_TO_EP, UCT_IFACE_FLAG_CB_ASYNC}) {
        EXPECT_FALSE(entity.has(flag)) << "bit " << __builtin_ctzll(flag);
    }
    for (const uint64_t flag :
         {UCT_IFACE_FLAG_EVENT_FD, UCT_IFACE_FLAG_EVENT_RECV, UCT_IFACE_FLAG_EVENT_SEND_COMP}) {
        EXPECT_TRUE(entity.attr().cap.event_flags & flag) << "bit " << __builtin_ctzll(flag);
    }
}

TEST_F(TernAttributes, SegmentSizeIsTheLongestBufferedMessage) {
    for (const std::size_t size : {1024, 8192, 16384}) {
        Entity entity(Settings{{"SEG_SIZE", std::to_string(size)}});
        EXPECT_LE(entity.attr().cap.am.max_bcopy, size);
        EXPECT_GT(entity.attr().cap.am.max_bcopy, size - 128);
    }
}

TEST_F(TernAttributes, NonsenseSettingsAreRefused) {
    for (const auto& [name, value] :
         Settings{{"BLOCK_MAX", "many"}, {"POLL", "sometimes"}, {"NO_SUCH_SETTING", "1"}}) {
        EXPECT_THROW(Entity(Settings{{name, value}}), std::runtime_error) << name;
    }
}

TEST_F(Attributes, LimitsMakeSense) {
    Entity entity;
    const auto& am = entity.attr().cap.am;
    if (entity.has(UCT_IFACE_FLAG_AM_SHORT)) {
        EXPECT_GE(am.max_short, sizeof(uint64_t));
        EXPECT_LE(am.max_short, am.max_bcopy);
    }
    EXPECT_GE(am.max_bcopy, 64u);
    EXPECT_LE(am.max_bcopy, kLongest);
    if (entity.has(UCT_IFACE_FLAG_AM_ZCOPY)) {
        EXPECT_LE(am.max_zcopy, kLongest);
        EXPECT_GE(am.max_iov, 1u);
        EXPECT_LE(am.max_hdr, am.max_zcopy);
        EXPECT_LE(am.min_zcopy, am.max_zcopy);
        EXPECT_GT(am.opt_zcopy_align, 0u);
        EXPECT_GT(am.align_mtu, 0u);
    }
    EXPECT_GT(entity.attr().bandwidth.dedicated + entity.attr().bandwidth.shared, 0);
    EXPECT_GT(entity.attr().latency.c, 0);
    EXPECT_LT(entity.attr().latency.c, 1e-3);
    EXPECT_GE(entity.attr().latency.m, 0);
    EXPECT_GT(entity.attr().overhead, 0);
    EXPECT_GE(entity.attr().dev_num_paths, 1u);
    EXPECT_GT(entity.attr().max_num_eps, 1u);
}

TEST_F(TernAttributes, DeviceIsNamedAsUcxDoes) {
    Host host;
    EXPECT_THAT(host.device(), testing::MatchesRegex("[a-z0-9_]+:[0-9]+"));
}

TEST_F(Attributes, AddressesAreFixedAndOfTheInterface) {
    Entity one, other;
    EXPECT_EQ(one.attr().device_addr_len, other.attr().device_addr_len);
    EXPECT_EQ(one.attr().iface_addr_len, other.attr().iface_addr_len);
    EXPECT_EQ(one.address().device, one.address().device);
    EXPECT_EQ(one.address().interface, one.address().interface);
    EXPECT_NE(one.address().interface, other.address().interface);
    // Nothing is written beyond the announced length.
    const Address address = one.address();
    for (std::size_t i = one.attr().iface_addr_len; i < address.interface.size(); ++i) {
        EXPECT_EQ(address.interface[i], std::byte{}) << i;
    }
    for (std::size_t i = one.attr().device_addr_len; i < address.device.size(); ++i) {
        EXPECT_EQ(address.device[i], std::byte{}) << i;
    }
}

TEST_F(Attributes, PeerIsReachable) {
    Entity one, other;
    const Address there = other.address();
    EXPECT_TRUE(uct_iface_is_reachable(one.iface(), there.dev(), there.iface()));
    const Address here = one.address();
    EXPECT_TRUE(uct_iface_is_reachable(one.iface(), here.dev(), here.iface()));
}

TEST_F(TernAttributes, GarbageIsNotReachable) {
    Entity entity;
    Address address = entity.address();
    address.device.fill(std::byte{0xff});
    EXPECT_FALSE(uct_iface_is_reachable(entity.iface(), address.dev(), address.iface()));
    address.device.fill(std::byte{0});
    EXPECT_FALSE(uct_iface_is_reachable(entity.iface(), address.dev(), address.iface()));
}

TEST_F(Attributes, ManyInterfacesOpenAndClose) {
    auto host = std::make_shared<Host>();
    for (int i = 0; i < 10; ++i) {
        Entity one({}, host), other({}, host);
        EXPECT_EQ(one.progress(), 0u);
    }
}

}  // namespace
}  // namespace uct_test
