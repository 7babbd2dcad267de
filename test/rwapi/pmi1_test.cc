// SPDX-License-Identifier: BSD-3-Clause
// The format of PMI-1, and the server of rwapi-run.
#include "rwapi/bootstrap/pmi1_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "common/seed.h"
#include "rwapi/run/pmi_server.h"

namespace rwapi {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

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

std::vector<std::string> lines_of(const PmiServer::Replies& replies) {
    std::vector<std::string> lines;
    for (const auto& [rank, line] : replies.lines) {
        lines.push_back(std::to_string(rank) + " " + line);
    }
    return lines;
}

class PmiServerTest : public testing::Test {
  protected:
    PmiServerTest() {
        for (const uint32_t rank : {0u, 1u, 2u})
            take(rank, "cmd=init pmi_version=1 pmi_subversion=1");
    }
    std::vector<std::string> take(uint32_t rank, std::string_view line) {
        const auto replies = server.take(rank, line);
        EXPECT_EQ(replies.error, "");
        return lines_of(replies);
    }
    std::string error_of(uint32_t rank, std::string_view line) {
        const auto replies = server.take(rank, line);
        EXPECT_THAT(lines_of(replies), IsEmpty());
        return replies.error;
    }
    PmiServer server{3};
};

TEST_F(PmiServerTest, KeepsValues) {
    EXPECT_THAT(take(0, "cmd=put kvsname=job key=k value=v"),
                ElementsAre("0 cmd=put_result rc=0 msg=success"));
    EXPECT_THAT(take(2, "cmd=get kvsname=job key=k"),
                ElementsAre("2 cmd=get_result rc=0 msg=success value=v"));
    EXPECT_THAT(take(2, "cmd=get kvsname=job key=l"), ElementsAre(HasSubstr("rc=-1")));
    EXPECT_THAT(take(1, "cmd=put kvsname=job key=k value=w"), ElementsAre(HasSubstr("rc=-1")));
    EXPECT_THAT(take(1, "cmd=put kvsname=job key=m value=" + std::string(kPmi1MaxValue, 'x')),
                ElementsAre(HasSubstr("rc=-1")));
}

TEST_F(PmiServerTest, LimitsTheValuesOfAProcess) {
    std::vector<std::string> lines;
    for (int i = 0; i <= 4096; ++i) {
        lines = take(0, "cmd=put kvsname=job key=k" + std::to_string(i) + " value=v");
    }
    EXPECT_THAT(lines, ElementsAre(HasSubstr("rc=-1")));
    EXPECT_THAT(take(1, "cmd=put kvsname=job key=l value=v"), ElementsAre(HasSubstr("rc=0")));
}

TEST_F(PmiServerTest, ABarrierEndsWhenAllAreInIt) {
    for (int round = 0; round < 2; ++round) {
        EXPECT_THAT(take(1, "cmd=barrier_in"), IsEmpty());
        EXPECT_THAT(take(0, "cmd=barrier_in"), IsEmpty());
        EXPECT_THAT(take(2, "cmd=barrier_in"),
                    ElementsAre("0 cmd=barrier_out rc=0", "1 cmd=barrier_out rc=0",
                                "2 cmd=barrier_out rc=0"));
    }
}

// It ends when all that live are in it.
TEST_F(PmiServerTest, ABarrierFailsWhenAProcessHasEnded) {
    take(1, "cmd=barrier_in");
    EXPECT_THAT(lines_of(server.end(2)), IsEmpty());
    EXPECT_THAT(take(0, "cmd=barrier_in"),
                ElementsAre("0 cmd=barrier_out rc=-1 msg=process_2_has_ended",
                            "1 cmd=barrier_out rc=-1 msg=process_2_has_ended"));
    take(1, "cmd=barrier_in");
    EXPECT_THAT(lines_of(server.end(0)),
                ElementsAre("1 cmd=barrier_out rc=-1 msg=process_2_has_ended"));
}

TEST_F(PmiServerTest, WhatADeadProcessHasPutIsNotGot) {
    take(2, "cmd=put kvsname=job key=two value=v");
    take(1, "cmd=put kvsname=job key=one value=w");
    server.end(2);
    EXPECT_THAT(take(0, "cmd=get kvsname=job key=two"),
                ElementsAre("0 cmd=get_result rc=-1 msg=process_2_has_ended value=unknown"));
    EXPECT_THAT(take(0, "cmd=get kvsname=job key=one"), ElementsAre(HasSubstr("rc=0")));
}

TEST_F(PmiServerTest, KnowsWhoIsInTheJob) {
    EXPECT_TRUE(server.is_in_job(0));
    EXPECT_THAT(take(0, "cmd=finalize"), ElementsAre("0 cmd=finalize_ack rc=0"));
    EXPECT_FALSE(server.is_in_job(0));
    EXPECT_FALSE(PmiServer(1).is_in_job(0));
}

TEST_F(PmiServerTest, AbortHasAStatus) {
    EXPECT_EQ(server.take(1, "cmd=abort exitcode=9").abort, 9);
    EXPECT_EQ(server.take(1, "cmd=abort exitcode=0").abort, 1);
    EXPECT_EQ(server.take(1, "cmd=abort").abort, 1);
}

TEST_F(PmiServerTest, RefusesWhatIsAgainstTheProtocol) {
    EXPECT_NE(error_of(0, ""), "");
    EXPECT_NE(error_of(0, "cmd=spawn nprocs=1"), "");
    EXPECT_NE(error_of(0, "cmd=get kvsname=other key=k"), "");
    EXPECT_NE(error_of(0, "cmd=put kvsname=job value=v"), "");
    EXPECT_NE(error_of(0, "cmd=init pmi_version=1 pmi_subversion=1"), "");
    take(0, "cmd=barrier_in");
    EXPECT_NE(error_of(0, "cmd=barrier_in"), "");
    take(1, "cmd=finalize");
    EXPECT_NE(error_of(1, "cmd=get_maxes"), "");
    PmiServer fresh(1);
    EXPECT_NE(fresh.take(0, "cmd=get_maxes").error, "");
    EXPECT_NE(fresh.take(0, "cmd=init pmi_version=2 pmi_subversion=0").error, "");
}

}  // namespace
}  // namespace rwapi
