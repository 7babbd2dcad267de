// SPDX-License-Identifier: BSD-3-Clause
#include "softhca/core/text.h"
#include "common/seed.h"

#include <gtest/gtest.h>

#include <random>

namespace softhca {
namespace {

TEST(Text, Numbers) {
    EXPECT_EQ(parse_number("0"), 0u);
    EXPECT_EQ(parse_number("18446744073709551615"), UINT64_MAX);
    EXPECT_EQ(parse_number("0xfF"), 255u);
    for (const char* bad :
         {"", "-1", "+1", " 1", "1 ", "1.0", "0x", "0x-1", "0xg", "18446744073709551616"})
        EXPECT_EQ(parse_number(bad), std::nullopt) << bad;
}

TEST(Text, Bytes) {
    EXPECT_EQ(parse_bytes("12"), 12u);
    EXPECT_EQ(parse_bytes("3K"), 3072u);
    EXPECT_EQ(parse_bytes("1G"), 1u << 30);
    EXPECT_EQ(parse_bytes("17179869183G"), 17179869183ull << 30);
    for (const char* bad : {"", "K", "1KB", "1k", "17179869184G"})
        EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
}

TEST(Text, Times) {
    EXPECT_EQ(parse_time_ns("2.3"), 2300u);
    EXPECT_EQ(parse_time_ns("5ns"), 5u);
    EXPECT_EQ(parse_time_ns("0.0004"), 0u);
    EXPECT_EQ(parse_time_ns("0.0006"), 1u);
    EXPECT_EQ(parse_time_ns("1.5ms"), 1'500'000u);
    EXPECT_EQ(parse_time_ns("1000s"), 1'000'000'000'000u);
    for (const char* bad :
         {"", "us", "1 us", "1m", "1US", "-1", "1001s", "nan", "inf", "0x10", "1e99"})
        EXPECT_EQ(parse_time_ns(bad), std::nullopt) << bad;
}

TEST(Text, TimesReadBack) {
    EXPECT_EQ(time_text(0), "0ns");
    EXPECT_EQ(time_text(999), "999ns");
    EXPECT_EQ(time_text(2300), "2.3us");
    EXPECT_EQ(time_text(1'000'000'000), "1s");
    const uint32_t seed = tern::test::any_seed();
    std::mt19937_64 random(seed);
    for (int i = 0; i < 100'000; ++i) {
        const uint64_t ns = random() % (uint64_t{1} << random() % 40);
        ASSERT_EQ(parse_time_ns(time_text(ns)), ns) << time_text(ns);
    }
}

TEST(Text, Lists) {
    std::string seen;
    const auto visit = [&](const ListEntry& entry) -> std::optional<std::string> {
        seen.append("[")
            .append(entry.key)
            .append(entry.has_value ? "=" : "")
            .append(entry.value)
            .append("]");
        if (entry.key == "stop") return "stopped";
        return std::nullopt;
    };
    EXPECT_EQ(for_each_entry(", a = 1 ,b,,c==2,d=,", visit), std::nullopt);
    EXPECT_EQ(seen, "[a=1][b][c==2][d=]");
    seen.clear();
    EXPECT_EQ(for_each_entry("x,stop,y", visit), "stopped");
    EXPECT_EQ(seen, "[x][stop]");
    EXPECT_EQ(for_each_entry("", visit), std::nullopt);
}

}  // namespace
}  // namespace softhca
