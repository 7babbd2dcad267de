// SPDX-License-Identifier: BSD-3-Clause
// Which way the packets of a path take, and how many links a port has: read from folders that are
// laid out like sysfs.
#include "tern/verbs/port.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <string>

#include "common/seed.h"
#include "sysfs.h"

namespace tern::verbs {
namespace {

namespace fs = std::filesystem;

// A flow label that is not 0 decides the source port, so links that are chosen by its remainder
// differ for up to kMostPaths links.
TEST(FlowLabelTest, PathsOfAPairAreOnDifferentLinks) {
    std::mt19937_64 random(test::any_seed());
    for (int i = 0; i < 10'000; ++i) {
        const uint64_t pair = random();
        for (const unsigned links : {2u, 4u, 8u, 16u}) {
            std::set<unsigned> used;
            for (unsigned path = 0; path < links; ++path) {
                const uint32_t label = flow_label(pair, path);
                EXPECT_NE(label, 0u);
                EXPECT_EQ(label >> 20, 0u);
                EXPECT_GE(udp_source_port(label), 0xc000);
                used.insert(udp_source_port(label) % links);
            }
            ASSERT_EQ(used.size(), links) << pair;
        }
    }
}

// A switch that hashes the port spreads the pairs, too.
TEST(FlowLabelTest, PairsHaveDifferentPorts) {
    std::mt19937_64 random(test::any_seed());
    std::set<uint16_t> ports;
    for (int i = 0; i < 1000; ++i) ports.insert(udp_source_port(flow_label(random(), 0)));
    EXPECT_GT(ports.size(), 500u);
}

class TakePathTest : public testing::Test {
  protected:
    ibv_ah_attr on_path(unsigned path, uint8_t lmc = 0) const {
        ibv_ah_attr address{};
        address.dlid = port_.ethernet ? 0 : 64;
        take_path(address, port_, path, lmc, 5);
        return address;
    }

    Port port_;
};

TEST_F(TakePathTest, ByPathBitsOnInfiniBand) {
    port_.attributes.lmc = 2;
    for (unsigned path = 0; path < kMostPaths; ++path) {
        const ibv_ah_attr address = on_path(path, 2);
        EXPECT_EQ(address.dlid, 64 + path % 4);
        EXPECT_EQ(address.src_path_bits, path % 4);
        EXPECT_EQ(address.grh.flow_label, 0u);
    }
}

// Both sides compute the same.
TEST_F(TakePathTest, OnlyBitsThatBothPortsHave) {
    port_.attributes.lmc = 3;
    EXPECT_EQ(on_path(7, 1).dlid, 65);
    port_.attributes.lmc = 1;
    EXPECT_EQ(on_path(7, 3).dlid, 65);
    port_.attributes.lmc = 0;
    EXPECT_EQ(on_path(7, 3).dlid, 64);
}

// Routers forward by the GID alone.
TEST_F(TakePathTest, NoBitsWithoutLids) {
    port_.attributes.lmc = 2;
    ibv_ah_attr address{};
    take_path(address, port_, 1, 2, 5);
    EXPECT_EQ(address.dlid, 0);
    EXPECT_EQ(address.src_path_bits, 0);
}

TEST_F(TakePathTest, ByFlowLabelOnEthernet) {
    port_.ethernet = true;
    EXPECT_EQ(on_path(0).grh.flow_label, 0u);  // the kernel chooses
    EXPECT_EQ(on_path(1).grh.flow_label, flow_label(5, 1));
    port_.paths = 2;
    EXPECT_EQ(on_path(0).grh.flow_label, flow_label(5, 0));
    EXPECT_EQ(on_path(1).dlid, 0);
}

class BondedPortsTest : public SysfsTest {
  protected:
    static void write(const fs::path& file, const std::string& text) {
        fs::create_directories(file.parent_path());
        std::ofstream(file) << text << "\n";
    }
    // The GID entry 3 of the device's port 1 belongs to this network interface.
    void on(const std::string& interface) const {
        write(root_ / "hca0/ports/1/gid_attrs/ndevs/3", interface);
    }
    void lower(const std::string& interface, const std::string& below) const {
        fs::create_directories(root_ / "net" / interface);
        fs::create_directories(root_ / "net" / below);
        fs::create_directory_symlink(root_ / "net" / below,
                                     root_ / "net" / interface / ("lower_" + below));
    }
    unsigned count() const { return bonded_ports(root_ / "hca0", 1, 3, root_ / "net"); }
};

TEST_F(BondedPortsTest, OfABond) {
    on("bond0");
    lower("bond0", "eth0");
    lower("bond0", "eth1");
    write(root_ / "net/bond0/bonding/ad_num_ports", "2");
    EXPECT_EQ(count(), 2u);
}

TEST_F(BondedPortsTest, BelowAVlan) {
    on("bond0.100");
    lower("bond0.100", "bond0");
    write(root_ / "net/bond0/bonding/ad_num_ports", "4");
    EXPECT_EQ(count(), 4u);
}

TEST_F(BondedPortsTest, OneWithoutABond) {
    EXPECT_EQ(count(), 1u);
    on("eth0");
    EXPECT_EQ(count(), 1u);
    lower("eth0.5", "eth0");
    on("eth0.5");
    EXPECT_EQ(count(), 1u);
}

// In other modes the file is empty.
TEST_F(BondedPortsTest, OneInOtherModes) {
    on("bond0");
    write(root_ / "net/bond0/bonding/ad_num_ports", "");
    EXPECT_EQ(count(), 1u);
    write(root_ / "net/bond0/bonding/ad_num_ports", "0");
    EXPECT_EQ(count(), 1u);
}

TEST_F(BondedPortsTest, AtMostAsManyAsThereArePaths) {
    on("bond0");
    write(root_ / "net/bond0/bonding/ad_num_ports", "300");
    EXPECT_EQ(count(), kMostPaths);
}

TEST_F(BondedPortsTest, InterfacesInACircle) {
    on("a");
    lower("a", "b");
    lower("b", "a");
    EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace tern::verbs
