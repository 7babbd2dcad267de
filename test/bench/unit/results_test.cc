// SPDX-License-Identifier: BSD-3-Clause
// Results from files: what is read, and what counts as a change.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "bench/results/compare.h"
#include "bench/series/progress.h"

namespace bench {
namespace {

using report::Failure;
using report::kNone;
using report::Samples;

std::string file_of(const std::string& figures, const std::string& more = "") {
    return R"({"schema": 1, "commit": "abc", "date": "2026-01-02T03:04:05Z", "command": "latency",
        "machine": {"cpu": "A CPU", "cores": 2, "virtual": true}, "device": "softhca0:1",
        "environment": "UCX_A=b SOFTHCA_PROFILE=cx5-edr SOFTHCA_SLOW=100",)" +
           more + R"("figures": [)" + figures + "]}";
}

std::string figure_text(const std::string& name, const std::string& more) {
    return R"({"test": "trips", "x": 8, "x_text": "8 B", "name": ")" + name +
           R"(", "unit": "us", )" + more + "}";
}

StoredFigure figure(const Samples& rounds) {
    StoredFigure one;
    one.test = "trips";
    one.x_text = "8 B";
    one.name = "tern";
    one.unit = "us";
    one.rounds = rounds;
    const report::Summary summary = report::summarize(rounds);
    one.median = summary.median;
    one.p10 = summary.p10;
    one.p90 = summary.p90;
    return one;
}

StoredFigure exact(double value) {
    StoredFigure one = figure({value});
    one.rounds.clear();
    one.p10 = one.p90 = kNone;
    return one;
}

// A file of 64 MiB may have as many brackets.
TEST(StoredResults, ThatNestDeeplyAreRefused) {
    const std::string deep(2'000'000, '[');
    const std::string closed = deep + std::string(deep.size(), ']');
    for (const std::string& text : {R"({"schema": )" + closed + "}", closed, deep})
        EXPECT_THROW(parse_result("x.json", text), Failure);
}

TEST(StoredResults, HaveWhatTheFileSays) {
    const StoredResult result = parse_result(
        "x.json",
        file_of(figure_text("tern", R"("median": 2, "p10": 1, "p90": 3, "rounds": [1, 2, 3],
                                       "doubts": ["few rounds"], "at_most": 1.5)") +
                    "," + figure_text("rc_v", R"("refused": true, "late_share": 0.06)"),
                R"("incomplete": ["interrupted"],)"));
    EXPECT_EQ(result.profile, "cx5-edr");
    EXPECT_EQ(result.slow, "100");
    EXPECT_EQ(result.date, "2026-01-02");
    EXPECT_EQ(result.machine, "A CPU, 2 cores, virtual");
    EXPECT_EQ(result.incomplete, std::vector<std::string>{"interrupted"});
    ASSERT_EQ(result.figures.size(), 2u);
    EXPECT_EQ(result.figures[0].rounds, (Samples{1, 2, 3}));
    EXPECT_EQ(result.figures[0].least(), 1);
    EXPECT_EQ(result.figures[0].most(), 3);
    EXPECT_EQ(better(result, result.figures[0]), Better::kLess);
    EXPECT_TRUE(result.figures[1].is_late());
}

// Whatever is wrong with a file is an error that names it.
TEST(StoredResults, WrongFilesAreRefused) {
    const std::string good = file_of(figure_text("tern", R"("median": 2)"));
    EXPECT_NO_THROW(parse_result("x", good));
    for (size_t length = 0; length < good.size(); ++length)
        EXPECT_THROW(parse_result("x", good.substr(0, length)), Failure) << length;
    const auto changed = [&](const std::string& from, const std::string& to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        return text;
    };
    for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
             {"\"schema\": 1", "\"schema\": 2"},
             {"\"schema\": 1", "\"schema\": \"1\""},
             {"\"schema\": 1,", ""},
             {"\"latency\"", "7"},
             {"\"cores\": 2", "\"cores\": [2]"},
             {"{\"cpu\"", "3, \"y\": {\"cpu\""},
             {"\"median\": 2", "\"median\": \"2\""},
             {"\"median\": 2", "\"median\": 1e999"},
             {"\"median\": 2", "\"p10\": 1"},
             {"\"median\": 2", "\"median\": 2, \"p10\": 1"},
             {"\"median\": 2", "\"median\": 2, \"rounds\": [null]"},
             {"\"median\": 2", "\"median\": 2, \"doubts\": [1]"},
             {"\"median\": 2", "\"median\": 2, \"refused\": 1"},
             {"\"test\": \"trips\"", "\"test\": null"},
             {"\"unit\": \"us\"", "\"unit\": \"\xff\""},
             {"[{", "{\"a\": {"},
             {"[{", "[[], {"},
         }) {
        EXPECT_THROW(parse_result("x", changed(from, to)), Failure) << from << " -> " << to;
    }
    const std::string one = figure_text("tern", R"("median": 2)");
    EXPECT_THROW(parse_result("x", file_of(one + "," + one)), Failure) << "twice";
    EXPECT_THROW(parse_result("x", file_of("")), Failure) << "no figures";
    EXPECT_THROW(parse_result("x", std::string(100'000, '[')), Failure) << "deep";
    EXPECT_THROW(read_result("/dev/null"), Failure);
    EXPECT_THROW(read_result("/"), Failure);
    EXPECT_THROW(read_result("/nonexistent"), Failure);
}

TEST(StoredResults, TextsCannotControlATerminal) {
    const StoredResult result =
        parse_result("x", file_of(figure_text("a\\u001b[31m\\u009b2Jb\\n", R"("median": 2)")));
    for (const char c : result.figures[0].name) EXPECT_GE(static_cast<unsigned char>(c), ' ');
    EXPECT_EQ(result.figures[0].name.find("\xc2\x9b"), std::string::npos);
}

TEST(StoredResults, NumbersHaveThreeDigits) {
    EXPECT_EQ(short_text(0.99996), "1.00");
    EXPECT_EQ(short_text(0.1234), "0.123");
    EXPECT_EQ(short_text(12.34), "12.3");
    EXPECT_EQ(short_text(5468, true), "5468");
    EXPECT_EQ(short_text(0), "0");
    EXPECT_EQ(short_text(kNone), "-");
}

// The values are those of tables of the test: 5 and 5 rounds without overlap 2 / 252; U = 2 of 4
// and 5: 0.064.
TEST(Chance, IsThatOfTheRanks) {
    EXPECT_NEAR(chance_of({1, 2, 3, 4, 5}, {6, 7, 8, 9, 10}), 2.0 / 252, 1e-12);
    EXPECT_NEAR(chance_of({6, 7, 8, 9, 10}, {1, 2, 3, 4, 5}), 2.0 / 252, 1e-12);
    EXPECT_NEAR(chance_of({1, 2, 3, 6}, {4, 5, 7, 8, 9}), 8.0 / 126, 1e-12);
    EXPECT_EQ(chance_of({1, 2, 3}, {1, 2, 3}), 1);
    EXPECT_EQ(chance_of({}, {1}), 1);
    // Many rounds: by the normal distribution, which is near the exact chance.
    Samples low;
    Samples high;
    for (int i = 0; i < 20; ++i) {
        low.push_back(i);
        high.push_back(i + 7.5);
    }
    const double counted = chance_of(low, high);
    low.push_back(9.7);
    EXPECT_NEAR(std::log(chance_of(low, high)), std::log(counted), 0.5);
}

TEST(Changes, AreBeyondChanceAndSpread) {
    const Samples before = {1.00, 1.01, 1.02, 1.03, 1.04};
    EXPECT_EQ(change_of(figure(before), figure(before)), Change::kNone);
    EXPECT_EQ(change_of(figure(before), figure({1.05, 1.06, 1.07, 1.08, 1.09})), Change::kChanged);
    EXPECT_EQ(change_of(figure(before), figure({1.03, 1.04, 1.05, 1.06, 1.07})), Change::kNone);
    // One disturbed round of many hides nothing.
    EXPECT_EQ(change_of(figure({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 9}),
                        figure({2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1})),
              Change::kChanged);
    // Three rounds never exclude chance.
    EXPECT_EQ(change_of(figure({1, 1.1, 1.2}), figure({2, 2.1, 2.2})), Change::kPerhaps);
    EXPECT_EQ(change_of(exact(1), exact(1)), Change::kNone);
    EXPECT_EQ(change_of(exact(1), exact(1.00001)), Change::kChanged);
    StoredFigure late = exact(1);
    late.median = kNone;
    EXPECT_EQ(change_of(late, exact(1)), Change::kLate);
    EXPECT_EQ(change_of(late, late), Change::kNone);
}

// Without a difference of the two, hardly anything may be called changed.
TEST(Changes, ChanceAloneMakesFew) {
    uint32_t state = 1;
    const auto random = [&] { return 1 + (state = state * 1664525 + 1013904223) / 4294967296.0; };
    int changed = 0;
    for (int i = 0; i < 1000; ++i) {
        Samples one(9);
        Samples other(9);
        std::ranges::generate(one, random);
        std::ranges::generate(other, random);
        changed += change_of(figure(one), figure(other)) == Change::kChanged ? 1 : 0;
    }
    EXPECT_LE(changed, 20);
}

StoredResult result_of(std::vector<StoredFigure> figures) {
    StoredResult result;
    result.file = "x.json";
    result.command = "latency";
    result.device = "softhca0:1";
    result.figures = std::move(figures);
    return result;
}

TEST(Comparisons, SayWhatIsMissing) {
    StoredFigure other = exact(1);
    other.name = "rc_v";
    StoredResult after = result_of({exact(3)});
    after.machine = "another";
    const Comparison comparison = compare(result_of({exact(2), other}), after);
    EXPECT_EQ(comparison.changed, 1u);
    EXPECT_EQ(comparison.compared, 1u);
    for (const char* text :
         {"1 of 1 figures", "+50.0 %", "worse", "1 figures only in A", "not the same: machine"})
        EXPECT_NE(comparison.text.find(text), std::string::npos) << text << comparison.text;
}

TEST(TimeLeft, CountsEachKindByItself) {
    TimeLeft time;
    const size_t quick = time.add(10);
    const size_t slow = time.add(2);
    EXPECT_FALSE(report::is_set(time.left()));
    EXPECT_EQ(time.share(), 0);
    time.done(quick, 1);
    EXPECT_DOUBLE_EQ(time.left(), 9 + 2 * 1);
    time.done(slow, 20);
    EXPECT_DOUBLE_EQ(time.left(), 9 + 20);
    EXPECT_DOUBLE_EQ(time.share(), 21.0 / 50);
    time.drop(slow);
    EXPECT_DOUBLE_EQ(time.left(), 9);
    for (int i = 0; i < 20; ++i) time.done(quick, 1);
    EXPECT_DOUBLE_EQ(time.left(), 0);
    EXPECT_EQ(duration_text(20), "20 s");
    EXPECT_EQ(duration_text(200), "3 min");
}

}  // namespace
}  // namespace bench
