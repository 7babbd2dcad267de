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
    for (const size_t length : {0, 1, 11, 12, 13, 500, 4096, 65536}) {
        for (const size_t max_value : {kPmi1MinValue, kPmi1MinValue + 1, kPmi1MaxValue}) {
            const auto address = some_bytes(&random, length);
            ValueDecoder decoder;
            for (const std::string& value : encode_values(address, max_value)) {
                EXPECT_LE(value.size(), max_value);
                EXPECT_FALSE(decoder.complete());
                ASSERT_TRUE(decoder.take(value));
            }
            EXPECT_TRUE(decoder.complete());
            EXPECT_EQ(decoder.address(), address);
        }
    }
}

TEST(Values, DamagedOnesAreRefused) {
    for (const char* first : {"", "0000000", "0000000x", "00010001", "0000000200ff00", "000000010",
                              "00000001fg", "00000001-1", "unknown", "+0000001aa"}) {
        EXPECT_FALSE(ValueDecoder().take(first)) << first;
    }
    ValueDecoder decoder;
    EXPECT_TRUE(decoder.take("00000002ff"));
    EXPECT_FALSE(decoder.take(""));  // would never end
    EXPECT_FALSE(decoder.take("f"));
    EXPECT_TRUE(decoder.take("00"));
    EXPECT_TRUE(decoder.complete());
    EXPECT_FALSE(decoder.take("00"));
}

// Changes bytes of right values at random: what comes is refused or has the right length, and no
// more than was announced.
TEST(Values, RandomDamageDoesNoHarm) {
    const uint32_t seed = tern::test::any_seed();
    std::mt19937 random(seed);
    for (int round = 0; round < 3000; ++round) {
        auto values = encode_values(some_bytes(&random, random() % 60), kPmi1MinValue);
        std::string& value = values[random() % values.size()];
        value[random() % value.size()] = static_cast<char>(random());
        ValueDecoder decoder;
        for (const std::string& each : values) {
            if (!decoder.take(each)) break;
        }
        const size_t announced = std::strtoul(values[0].substr(0, 8).c_str(), nullptr, 16);
        EXPECT_TRUE(!decoder.complete() || decoder.address().size() == announced);
        EXPECT_LE(decoder.address().size(), kMaxAddress);
    }
}

}  // namespace
}  // namespace rwapi
