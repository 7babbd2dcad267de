// SPDX-License-Identifier: BSD-3-Clause
// The format of PMI-1.
#include "rwapi/bootstrap/pmi1_message.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "common/seed.h"

namespace rwapi {
namespace {

TEST(Pmi1Message, HasWordsInAnyOrder) {
    const auto message = Pmi1Message::parse("cmd=get_result rc=0 msg=success  value=a=b ");
    ASSERT_TRUE(message);
    EXPECT_EQ(message->command(), "get_result");
    EXPECT_EQ(message->number("rc", 0, 0), 0);
    EXPECT_EQ(message->text("value"), "a=b");
    EXPECT_EQ(message->text("valu"), std::nullopt);
}

TEST(Pmi1Message, RefusesWhatIsNoMessage) {
    for (const std::string_view line : {"", " ", "cmd", "=x", "rc=0 cmd=x", "cmd=x y", "cmd=x =y",
                                        "cmd=x a=1 a=2", "cmd=x cmd=y"}) {
        EXPECT_FALSE(Pmi1Message::parse(line)) << line;
    }
    EXPECT_FALSE(Pmi1Message::parse(std::string_view("cmd=x a=\0b", 10)));
    std::string many = "cmd=x";
    for (int i = 0; i < 1000; ++i) many += " a" + std::to_string(i) + "=";
    EXPECT_FALSE(Pmi1Message::parse(many));
}

TEST(Pmi1Message, NumbersHaveBounds) {
    for (const std::string_view text : {"", "-1", "8", "+3", "3x", " 3", "0x3", "99999999999"}) {
        EXPECT_EQ(parse_number(text, 0, 7), std::nullopt) << text;
    }
    EXPECT_EQ(parse_number("7", 0, 7), 7);
    EXPECT_EQ(parse_number("-2", -2, 7), -2);
}

TEST(LineBuffer, PutsLinesTogether) {
    LineBuffer lines;
    EXPECT_TRUE(lines.append("cmd=a\ncm"));
    EXPECT_EQ(lines.next(), "cmd=a");
    EXPECT_EQ(lines.next(), std::nullopt);
    EXPECT_TRUE(lines.append("d=b\n\n"));
    EXPECT_EQ(lines.next(), "cmd=b");
    EXPECT_EQ(lines.next(), "");
    EXPECT_EQ(lines.next(), std::nullopt);
}

TEST(LineBuffer, GivesUpAtALineThatIsTooLong) {
    LineBuffer lines;
    EXPECT_TRUE(lines.append(std::string(kPmi1MaxLine, 'x')));
    EXPECT_FALSE(lines.append("x"));
    EXPECT_FALSE(lines.append("\ncmd=a\n"));
    EXPECT_EQ(lines.next(), std::nullopt);

    LineBuffer at_once;
    EXPECT_FALSE(at_once.append("cmd=a\n" + std::string(kPmi1MaxLine + 1, 'x') + "\n"));
}

std::vector<std::byte> some_bytes(std::mt19937* random, size_t length) {
    std::vector<std::byte> bytes(length);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>((*random)());
    return bytes;
}

TEST(Values, AnAddressOfAnyLengthComesBack) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    for (const size_t length : {1, 11, 12, 500, 4096, 65536}) {
        const auto address = some_bytes(&random, length);
        std::vector<std::byte> decoded;
        ASSERT_TRUE(decode_value(encode_value(address), decoded));
        EXPECT_EQ(decoded, address);
    }
}

TEST(Values, DamagedOnesAreRefused) {
    std::vector<std::byte> address;
    for (const char* value : {"", "0", "0f0", "fg", "-1", "+1", " 1", "0x", "unknown"})
        EXPECT_FALSE(decode_value(value, address)) << value;
    EXPECT_FALSE(decode_value(std::string(2 * kMaxAddress + 2, '0'), address));
}

// Changes bytes of right values at random: what comes is refused or has the right length.
TEST(Values, RandomDamageDoesNoHarm) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    for (int round = 0; round < 3000; ++round) {
        std::string value = encode_value(some_bytes(&random, 1 + random() % 60));
        value[random() % value.size()] = static_cast<char>(random());
        std::vector<std::byte> address;
        EXPECT_TRUE(!decode_value(value, address) || address.size() == value.size() / 2);
    }
}

}  // namespace
}  // namespace rwapi
