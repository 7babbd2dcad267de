// SPDX-License-Identifier: BSD-3-Clause
// The choice of entries of a GID table.
#include "tern/verbs/gid.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstring>
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

// Indices differ from positions, as in a table with unset entries.
GidChoice choose(const std::vector<Row>& rows) {
    std::vector<GidEntry> entries;
    for (const Row& row : rows)
        entries.push_back(
            {static_cast<uint8_t>(3 + 2 * entries.size()), gid_of(row.address), row.roce_v2});
    return choose_gids(entries);
}

// The addresses of the chosen entries with the version of RoCE, the first family first.
std::string chosen(const std::vector<Row>& rows) {
    const GidChoice choice = choose(rows);
    std::string text;
    for (size_t i = 0; i < kGidFamilies; ++i) {
        const auto family = static_cast<GidFamily>(i);
        if (!choice.set.has(family)) continue;
        const Row& row = rows.at((choice.of(family) - 3u) / 2);
        EXPECT_EQ(row.roce_v2, is_roce_v2(family));
        EXPECT_EQ(memcmp(gid_of(row.address).raw, choice.set.of(kind_of(family)).data(), 16), 0);
        if (!text.empty()) text += ", ";
        text += std::string(row.address) + (row.roce_v2 ? " v2" : " v1");
    }
    return text;
}

TEST(GidTest, NoEntriesGiveNone) {
    EXPECT_EQ(choose_gids({}).set, GidSet{});
}

// The kernel's order: each address as RoCE v1 and as v2, link-local ones first.
TEST(GidTest, KernelsOwnOrder) {
    EXPECT_EQ(chosen({{"fe80::1", false},
                      {"fe80::1", true},
                      {"::ffff:10.0.0.1", false},
                      {"::ffff:10.0.0.1", true},
                      {"::ffff:10.0.0.2", false},
                      {"::ffff:10.0.0.2", true}}),
              "::ffff:10.0.0.1 v2, fe80::1 v2, ::ffff:10.0.0.1 v1, fe80::1 v1");
}

TEST(GidTest, Ipv4ComesBeforeIpv6AndLinkLocal) {
    EXPECT_EQ(chosen({{"fe80::1", true}, {"2001:db8::1", true}, {"::ffff:10.0.0.1", true}}),
              "::ffff:10.0.0.1 v2, 2001:db8::1 v2, fe80::1 v2");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"fd00::1", true}}), "fd00::1 v2, fe80::1 v2");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"::ffff:10.0.0.1", false}}),
              "fe80::1 v2, ::ffff:10.0.0.1 v1")
        << "the version decides first";
}

TEST(GidTest, FirstOfTheSameKindIsTaken) {
    EXPECT_EQ(chosen({{"fe80::1", true}, {"2001:db8::1", true}, {"2001:db8::2", true}}),
              "2001:db8::1 v2, fe80::1 v2");
    EXPECT_EQ(chosen({{"fe80::1", true}, {"fe80::2", true}}), "fe80::1 v2");
    EXPECT_EQ(chosen({{"fe80::1", false}, {"fe80::2", true}}), "fe80::2 v2")
        << "an address has one GID of a kind";
    EXPECT_EQ(chosen({{"fe80::1", false}, {"fe80::2", true}, {"fe80::2", false}}),
              "fe80::2 v2, fe80::2 v1");
}

// They are of one link, and not all hosts have them.
TEST(GidTest, UnusualLinkLocalAddressesAreTakenForLackOfOthers) {
    EXPECT_EQ(chosen({{"::ffff:169.254.1.1", true}, {"fe80::1", true}}), "fe80::1 v2");
    EXPECT_EQ(chosen({{"fe80:1::1", true}, {"::ffff:192.168.0.1", false}}),
              "::ffff:192.168.0.1 v1");
    EXPECT_EQ(chosen({{"::ffff:169.254.1.1", true}}), "::ffff:169.254.1.1 v2");
    EXPECT_EQ(chosen({{"fe80:1::1", true}, {"::ffff:169.254.1.1", true}}), "fe80:1::1 v2");
}

TEST(GidTest, FamilyInCommonIsTheFirst) {
    for (unsigned a = 0; a < 64; ++a)
        for (unsigned b = 0; b < 64; ++b) {
            const GidSet one{.families = static_cast<uint8_t>(a)};
            const GidSet other{.families = static_cast<uint8_t>(b)};
            const auto common = common_family(one, other);
            ASSERT_EQ(common, common_family(other, one));
            ASSERT_EQ(common.has_value(), (a & b) != 0);
            if (!common) continue;
            EXPECT_TRUE(one.has(*common) && other.has(*common));
            for (size_t i = 0; i < static_cast<size_t>(*common); ++i)
                EXPECT_FALSE(one.has(GidFamily(i)) && other.has(GidFamily(i)));
        }
}

TEST(GidTest, FamiliesAreVersionAndKind) {
    for (const GidKind kind : {GidKind::kIpv4, GidKind::kIpv6, GidKind::kLinkLocal})
        for (const bool roce_v2 : {true, false}) {
            const GidFamily family = gid_family(kind, roce_v2);
            EXPECT_EQ(kind_of(family), kind);
            EXPECT_EQ(is_roce_v2(family), roce_v2);
        }
    EXPECT_EQ(kind_of(gid_of("::ffff:10.0.0.1")), GidKind::kIpv4);
    EXPECT_EQ(kind_of(gid_of("fe80::1")), GidKind::kLinkLocal);
    EXPECT_EQ(kind_of(gid_of("fe80:0:0:1::1")), GidKind::kIpv6);
    EXPECT_EQ(kind_of(gid_of("::1")), GidKind::kIpv6);
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
    EXPECT_FALSE(is_zero(gid_of("::1")));
}

}  // namespace
}  // namespace tern::verbs
