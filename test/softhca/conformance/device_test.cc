// SPDX-License-Identifier: BSD-3-Clause
// Devices, ports, and the tables of a port.
#include <arpa/inet.h>

#include <cerrno>
#include <cstring>

#include "work.h"

namespace conformance {
namespace {

class DeviceTest : public testing::Test {
  protected:
    Hca hca_;
};

TEST(DeviceListTest, ListEndsInNullAndIsCounted) {
    int count = -1;
    ibv_device** list = ibv_get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_GT(count, 0);
    for (int i = 0; i < count; ++i) {
        ASSERT_NE(list[i], nullptr);
        EXPECT_STRNE(ibv_get_device_name(list[i]), "");
        for (int j = 0; j < i; ++j) {
            EXPECT_STRNE(ibv_get_device_name(list[i]), ibv_get_device_name(list[j]));
            EXPECT_NE(ibv_get_device_guid(list[i]), ibv_get_device_guid(list[j]));
        }
    }
    EXPECT_EQ(list[count], nullptr);
    ibv_free_device_list(list);
}

TEST_F(DeviceTest, ContextNamesItsDeviceAfterTheListIsFreed) {
    EXPECT_STRNE(ibv_get_device_name(hca_.get()->device), "");
    EXPECT_GE(hca_.get()->async_fd, 0);
    EXPECT_GE(hca_.get()->num_comp_vectors, 1);
}

TEST_F(DeviceTest, OpenedTwiceGivesIndependentContexts) {
    Context other = open_device();
    ASSERT_NE(other, nullptr);
    ASSERT_NE(other.get(), hca_.get());
    Pd pd = hca_.make_pd();
    other.reset();
    Region region(pd.get(), 4096);
    EXPECT_NE(region.lkey(), 0u);
}

TEST_F(DeviceTest, OpensManyTimesOver) {
    for (int i = 0; i < 20; ++i) ASSERT_NE(open_device(), nullptr);
}

TEST_F(DeviceTest, GuidOfTheDeviceIsThatOfItsAttributes) {
    EXPECT_NE(hca_.attr().node_guid, 0u);
    EXPECT_EQ(ibv_get_device_guid(hca_.get()->device), hca_.attr().node_guid);
}

TEST_F(DeviceTest, LimitsAreUsable) {
    const ibv_device_attr& attr = hca_.attr();
    EXPECT_GE(attr.phys_port_cnt, 1);
    EXPECT_GE(attr.max_qp, 2);
    EXPECT_GE(attr.max_qp_wr, 64);
    EXPECT_GE(attr.max_sge, 2);
    EXPECT_GE(attr.max_cq, 2);
    EXPECT_GE(attr.max_cqe, 256);
    EXPECT_GE(attr.max_mr, 2);
    EXPECT_GE(attr.max_pd, 2);
    EXPECT_GE(attr.max_mr_size, uint64_t{1} << 20);
    EXPECT_NE(attr.page_size_cap & 4096, 0u);
    EXPECT_GE(attr.max_qp_rd_atom, 1);
    EXPECT_GE(attr.max_qp_init_rd_atom, 1);
    EXPECT_GE(attr.max_pkeys, 1);
}

TEST_F(DeviceTest, ExtendedQueryAgreesWithThePlainOne) {
    ibv_device_attr_ex extended{};
    ASSERT_EQ(ibv_query_device_ex(hca_.get(), nullptr, &extended), 0);
    const ibv_device_attr& plain = hca_.attr();
    EXPECT_EQ(extended.orig_attr.node_guid, plain.node_guid);
    EXPECT_EQ(extended.orig_attr.max_qp, plain.max_qp);
    EXPECT_EQ(extended.orig_attr.max_cqe, plain.max_cqe);
    EXPECT_EQ(extended.orig_attr.max_srq_wr, plain.max_srq_wr);
    EXPECT_EQ(extended.orig_attr.phys_port_cnt, plain.phys_port_cnt);
}

TEST_F(DeviceTest, ExtendedQueryRefusesUnknownInput) {
    const ibv_query_device_ex_input input{.comp_mask = 1};
    ibv_device_attr_ex extended{};
    EXPECT_EQ(ibv_query_device_ex(hca_.get(), &input, &extended), EINVAL);
}

TEST_F(DeviceTest, PortUnderTestIsActive) {
    const ibv_port_attr& port = hca_.port_attr();
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_GE(port.active_mtu, IBV_MTU_256);
    EXPECT_LE(port.active_mtu, port.max_mtu);
    EXPECT_LE(port.max_mtu, IBV_MTU_4096);
    EXPECT_GE(port.gid_tbl_len, 1);
    EXPECT_GE(port.pkey_tbl_len, 1);
    EXPECT_GE(port.max_msg_sz, 1u << 20);
    if (port.link_layer != IBV_LINK_LAYER_ETHERNET) {
        EXPECT_GT(port.lid, 0);
        EXPECT_LT(port.lid, 0xc000) << "that is the range of multicast";
    }
}

TEST_F(DeviceTest, EveryPhysicalPortCanBeQueried) {
    for (int port = 1; port <= hca_.attr().phys_port_cnt; ++port) {
        ibv_port_attr attr{};
        EXPECT_EQ(ibv_query_port(hca_.get(), static_cast<uint8_t>(port), &attr), 0);
    }
}

TEST_F(DeviceTest, PortsThatDoNotExistAreRefused) {
    for (int port : {0, hca_.attr().phys_port_cnt + 1, 255}) {
        const auto number = static_cast<uint8_t>(port);
        ibv_port_attr attr{};
        ibv_gid gid{};
        uint16_t pkey = 0;
        EXPECT_NE(ibv_query_port(hca_.get(), number, &attr), 0) << port;
        EXPECT_NE(ibv_query_gid(hca_.get(), number, 0, &gid), 0) << port;
        EXPECT_NE(ibv_query_pkey(hca_.get(), number, 0, &pkey), 0) << port;
    }
}

TEST_F(DeviceTest, GidTableHasAGidAndAnEnd) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(hca_.get(), hca_.port(), 0, &gid), 0);
    EXPECT_NE(gid.global.interface_id, 0u);
    EXPECT_NE(ibv_query_gid(hca_.get(), hca_.port(), hca_.port_attr().gid_tbl_len, &gid), 0);
    EXPECT_NE(ibv_query_gid(hca_.get(), hca_.port(), -1, &gid), 0);
}

TEST_F(DeviceTest, GidEntryThatIsNotSetIsZeroAndSaysSo) {
    const int index = hca_.unset_gid_index();
    if (index < 0) GTEST_SKIP() << "every index is set";
    ibv_gid_entry entry{};
    const int rc =
        ibv_query_gid_ex(hca_.get(), hca_.port(), static_cast<uint32_t>(index), &entry, 0);
    if (is_unsupported(rc)) GTEST_SKIP() << "no ibv_query_gid_ex";
    EXPECT_EQ(rc, ENODATA);
}

TEST_F(DeviceTest, GidEntryAgreesWithTheGid) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(hca_.get(), hca_.port(), 0, &gid), 0);
    ibv_gid_entry entry{};
    const int rc = ibv_query_gid_ex(hca_.get(), hca_.port(), 0, &entry, 0);
    if (is_unsupported(rc)) GTEST_SKIP() << "no ibv_query_gid_ex";
    ASSERT_EQ(rc, 0);
    EXPECT_EQ(std::memcmp(&entry.gid, &gid, sizeof gid), 0);
    EXPECT_EQ(entry.gid_index, 0u);
    EXPECT_EQ(entry.port_num, hca_.port());
    const bool ethernet = hca_.port_attr().link_layer == IBV_LINK_LAYER_ETHERNET;
    EXPECT_EQ(entry.gid_type != IBV_GID_TYPE_IB, ethernet);
}

TEST_F(DeviceTest, GidTableListsTheFirstGid) {
    ibv_gid gid{};
    ASSERT_EQ(ibv_query_gid(hca_.get(), hca_.port(), 0, &gid), 0);
    ibv_gid_entry entries[64];
    const ssize_t count = ibv_query_gid_table(hca_.get(), entries, 64, 0);
    if (count < 0 && is_unsupported(static_cast<int>(-count)))
        GTEST_SKIP() << "no ibv_query_gid_table";
    ASSERT_GE(count, 1);
    bool found = false;
    for (ssize_t i = 0; i < count; ++i) {
        found |= entries[i].port_num == hca_.port() && entries[i].gid_index == 0 &&
                 std::memcmp(&entries[i].gid, &gid, sizeof gid) == 0;
    }
    EXPECT_TRUE(found);
}

TEST_F(DeviceTest, PkeyTableHasTheDefaultPartitionAndAnEnd) {
    uint16_t pkey = 0;
    ASSERT_EQ(ibv_query_pkey(hca_.get(), hca_.port(), 0, &pkey), 0);
    EXPECT_EQ(ntohs(pkey) & 0x7fff, 0x7fff);
    EXPECT_EQ(ibv_get_pkey_index(hca_.get(), hca_.port(), pkey), 0);
    EXPECT_NE(ibv_query_pkey(hca_.get(), hca_.port(), hca_.port_attr().pkey_tbl_len, &pkey), 0);
    EXPECT_NE(ibv_query_pkey(hca_.get(), hca_.port(), -1, &pkey), 0);
}

TEST_F(DeviceTest, NoEventIsPendingAtFirst) {
    EXPECT_FALSE(readable(hca_.get()->async_fd, kQuiet));
}

}  // namespace
}  // namespace conformance
