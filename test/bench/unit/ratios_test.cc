// SPDX-License-Identifier: BSD-3-Clause
// Which rows of kept ratios fail.
#include "bench/report/ratios.h"

#include <gtest/gtest.h>

#include "bench/report/text.h"

namespace report {
namespace {

Judgement judged(const std::string& kept, const std::string& measured) {
    return judge(ratios_in(kept), ratios_in(measured));
}
bool fails(const std::string& was, const std::string& is) {
    return !judged("p|t|8|rc|" + was, "p|t|8|rc|" + is).failures.empty();
}

TEST(Ratios, AreReadAsTheyAreWritten) {
    const std::string text =
        "cx5|uct: stream|8|rc_verbs|1.2500\n"
        "cx5|uct: stream|64|rc_mlx5, modelled|0.9000  # why it loses\n";
    const std::vector<Ratio> rows = ratios_in("# a comment\n\n" + text);
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[1].peer, "rc_mlx5, modelled");
    EXPECT_EQ(rows[1].bytes, 64U);
    EXPECT_EQ(rows[1].reason, "why it loses");
    EXPECT_EQ(text_of(rows), text);
    EXPECT_EQ(comments_in("# one\n# two\n" + text + "# three\n"), "# one\n# two\n");
}

TEST(Ratios, BrokenLinesAreRefused) {
    for (const char* line : {"p|t|8|rc", "p|t|eight|rc|1", "p|t|8|rc|", "p|t|8|rc|fast",
                             "p|t|8|rc|-1", "p|t|8|rc|nan", "p||8|rc|1", "# no|row\nrow"})
        EXPECT_THROW(ratios_in(line), Failure) << line;
    EXPECT_THROW(ratios_in("p|t|8|rc|1\np|t|8|rc|2"), Failure) << "twice";
}

TEST(Ratios, OfAWinnerMayChangeUntilItLoses) {
    EXPECT_FALSE(fails("1.5000", "0.9800"));
    EXPECT_TRUE(fails("1.5000", "0.9799"));
    EXPECT_TRUE(fails("0.9800", "0.9799"));
    // As files have it.
    EXPECT_FALSE(fails("0.9800", "0.97996"));
}

TEST(Ratios, OfALoserMayNotFallByMoreThanOnePerCent) {
    EXPECT_FALSE(fails("0.9000", "0.8911"));
    EXPECT_TRUE(fails("0.9000", "0.8909"));
    EXPECT_FALSE(fails("0.9000", "1.5000"));
}

TEST(Ratios, RowsThatAreMissingOrNewFail) {
    const Judgement found = judged("p|t|8|rc|1.0\np|t|16|rc|1.0", "p|t|8|rc|1.0\np|u|0|rc|1.5");
    ASSERT_EQ(found.failures.size(), 2U);
    EXPECT_EQ(found.failures[0], "new: p, u, over rc: 1.5000");
    EXPECT_EQ(found.failures[1], "missing: p, t, 16 bytes, over rc: was 1.0000");
}

TEST(Ratios, OverTheBestPeerAreTheLeastOfEachTest) {
    const auto rows =
        with_best_peers(ratios_in("p|t|8|rc|1.5\np|t|8|dc|0.5\np|t|16|rc|2\nq|t|8|rc|3"));
    EXPECT_EQ(text_of({rows.begin() + 4, rows.end()}),
              "p|t|8|the best peer|0.5000\n"
              "p|t|16|the best peer|2.0000\n"
              "q|t|8|the best peer|3.0000\n");
}

TEST(Ratios, LosersNeedAReason) {
    EXPECT_EQ(judged("p|t|8|rc|0.9", "p|t|8|rc|0.9").notes.size(), 1U);
    EXPECT_TRUE(judged("p|t|8|rc|0.9 # why", "p|t|8|rc|0.9").notes.empty());
}

TEST(Ratios, ReasonsStayWithLosers) {
    const auto kept = ratios_in("p|t|8|rc|0.9 # why\np|t|16|rc|0.9 # why not");
    const auto rows = with_reasons(kept, ratios_in("p|t|16|rc|0.8\np|t|8|rc|1.1"));
    EXPECT_EQ(text_of(rows), "p|t|16|rc|0.8000  # why not\np|t|8|rc|1.1000\n");
}

TEST(Ratios, AreSortedWithTheirMean) {
    const std::string table = as_sorted_table(ratios_in("p|t|8|rc|4\np|t|16|rc|0.25\nq|t|8|rc|2"));
    EXPECT_NE(table.find("p, tern over rc: 2 rows, 1 below 0.98, geometric mean 1.000\n"),
              std::string::npos)
        << table;
    EXPECT_LT(table.find("0.2500"), table.find("4.0000"));
}

}  // namespace
}  // namespace report
