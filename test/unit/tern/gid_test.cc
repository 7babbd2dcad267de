// SPDX-License-Identifier: BSD-3-Clause
// The choice of an entry of a GID table.
#include "verbs/gid.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace tern::verbs {
namespace {

ibv_gid gid_of(const std::string& text) {
    ibv_gid gid{};
    EXPECT_EQ(inet_pton(AF_INET6, text.c_str(), gid.raw), 1) << text;
    return gid;
}

struct Row {
    const char* address;
    bool roce_v2;
};

// The address of the chosen entry; empty if none is chosen. Indices differ from positions, as in a
// table with unset entries.
std::string chosen(std::initializer_list<Row> rows, bool ethernet = true) {
    std::vector<GidEntry> entries;
    for (const Row& row : rows)
        entries.push_back(
            {static_cast<uint8_t>(3 + 2 * entries.size()), gid_of(row.address), row.roce_v2});
    const std::optional<uint8_t> index = choose_gid(entries, ethernet);
    if (!index) return {};
    for (const GidEntry& entry : entries)
        if (entry.index == *index) return (rows.begin() + (&entry - entries.data()))->address;
    return "an index that is not in the table";
}

TEST(GidTest, NoEntriesGiveNone) {
    EXPECT_EQ(chosen({}), "");
    EXPECT_EQ(chosen({}, false), "");
}

TEST(GidTest, RoutableComesBeforeLinkLocal) {
    EXPECT_EQ(chosen({{"fe80::1", true}, {"::ffff:10.0.0.1", true}}), "::ffff:10.0.0.1");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"2001:db8::1", true}}), "2001:db8::1");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"fd00::1", true}}), "fd00::1");
    EXPECT_EQ(chosen({{"::ffff:169.254.1.1", true}, {"::ffff:192.168.0.1", true}}),
              "::ffff:192.168.0.1");
}

// The kernel's order: each address as RoCE v1 and as v2, link-local ones first.
TEST(GidTest, KernelsOwnOrder) {
    EXPECT_EQ(chosen({{"fe80::1", false},
                      {"fe80::1", true},
                      {"::ffff:10.0.0.1", false},
                      {"::ffff:10.0.0.1", true},
                      {"::ffff:10.0.0.2", true}}),
              "::ffff:10.0.0.1");
}

TEST(GidTest, FirstOfTheSameKindIsTaken) {
    EXPECT_EQ(chosen({{"fe80::1", true}, {"2001:db8::1", true}, {"2001:db8::2", true}}),
              "2001:db8::1");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"fe80::2", true}}), "fe80::1");
}

// A node with addresses of both families agrees with nodes that have only IPv4.
TEST(GidTest, Ipv4ComesBeforeIpv6) {
    EXPECT_EQ(chosen({{"fe80::1", true}, {"2001:db8::1", true}, {"::ffff:10.0.0.1", true}}),
              "::ffff:10.0.0.1");
    EXPECT_EQ(chosen({{"2001:db8::1", true}, {"::ffff:169.254.1.1", true}}), "2001:db8::1");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"::ffff:10.0.0.1", false}}), "fe80::1")
        << "the type decides first";
}

TEST(GidTest, LinkLocalIsTakenForLackOfOthers) {
    EXPECT_EQ(chosen({{"fe80::1", false}, {"fe80::1", true}}), "fe80::1");
    EXPECT_EQ(chosen({{"::ffff:10.0.0.1", false}, {"fe80::1", true}}), "fe80::1")
        << "RoCE v1 is not routed whatever its address is";
}

TEST(GidTest, TypesThatAreNotKnownLeaveTheAddress) {
    EXPECT_EQ(chosen({{"fe80::1", false}, {"::ffff:10.0.0.1", false}}), "::ffff:10.0.0.1");
}

TEST(GidTest, InfiniBandTakesTheFirst) {
    EXPECT_EQ(chosen({{"fe80::1", false}, {"2001:db8::1", false}}, false), "fe80::1");
}

TEST(GidTest, LinkLocalIsTenBitsOfPrefix) {
    EXPECT_TRUE(is_link_local(gid_of("fe80::")));
    EXPECT_TRUE(is_link_local(gid_of("febf:ffff::1")));
    EXPECT_FALSE(is_link_local(gid_of("fec0::1")));
    EXPECT_FALSE(is_link_local(gid_of("fd80::1")));
    EXPECT_FALSE(is_link_local(gid_of("::ffff:254.128.0.1")));
    EXPECT_FALSE(is_link_local(gid_of("::ffff:169.253.0.1")));
    EXPECT_FALSE(is_link_local(gid_of("2001:db8::169.254.0.1")));
}

TEST(GidTest, ZerosAreNoAddress) {
    EXPECT_TRUE(is_zero(gid_of("::")));
    EXPECT_FALSE(is_routable(gid_of("::")));
    EXPECT_FALSE(is_zero(gid_of("::1")));
}

}  // namespace
}  // namespace tern::verbs
