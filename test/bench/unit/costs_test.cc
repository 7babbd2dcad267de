// SPDX-License-Identifier: BSD-3-Clause
// The instructions that simulations charge for are those that tern/tern_instructions.sh
// counts.
#include "bench/sim/costs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace bench::sim {
namespace {

constexpr unsigned kMany = 16;  // messages that a poll takes in samples of many

// The baselines of instructions/limits.txt.
class Counted {
  public:
    Counted() {
        const char* folder = std::getenv("srcdir");
        std::ifstream file(std::string(folder != nullptr ? folder : ".") +
                           "/tern/instructions/limits.txt");
        for (std::string line; std::getline(file, line);) {
            std::istringstream words(line);
            std::string sample, library;
            double operations = 0, baseline = 0;
            if (line.starts_with("#") || !(words >> sample >> operations >> library >> baseline))
                continue;
            counts_[sample][library] = baseline;
        }
    }

    // Of Tern, for each operation of the sample; and of librwapi besides.
    double tern(const std::string& sample) const { return count(sample, "libuct_tern"); }
    double both(const std::string& sample) const {
        return tern(sample) + count(sample, "librwapi");
    }
    double rwapi(const std::string& sample) const { return count(sample, "librwapi"); }

  private:
    double count(const std::string& sample, const std::string& library) const {
        const auto found = counts_.find(sample);
        if (found == counts_.end() || !found->second.contains(library)) {
            ADD_FAILURE() << "instructions/limits.txt has no " << sample << " of " << library;
            return 0;
        }
        return found->second.at(library);
    }

    std::map<std::string, std::map<std::string, double>> counts_;
};

// The limits allow a count to be higher by 2 %, and figures are not measured again for less.
void expect_charged(double charged, double counted) {
    EXPECT_NEAR(charged, counted, 0.03 * counted);
}

// `one`, `many`: the instructions of a poll that takes one, and for each of kMany; `nothing`: of
// one that takes nothing. All polls of samples come after a pause, and look at everything.
void expect_taking(const Taking& taking, double one, double many, double nothing) {
    expect_charged(taking.first, one - nothing);
    expect_charged(taking.further, (kMany * many - one) / (kMany - 1));
}

TEST(Costs, OfTern) {
    const Counted counted;
    const TransportCosts& tern = costs_of("tern");
    expect_charged(tern.send, counted.tern("send"));
    expect_charged(tern.copy, counted.tern("copy"));
    expect_charged(tern.append_copy, counted.tern("append_copy"));
    expect_charged(tern.append, counted.tern("append"));
    expect_charged(tern.append + 56 * tern.append_byte, counted.tern("append_64"));
    expect_charged(tern.poll, counted.tern("blocks"));
    expect_charged(tern.full_poll, counted.tern("poll_1"));
    expect_taking(tern.receive, counted.tern("receive_1"), counted.tern("receive"),
                  counted.tern("poll_1"));
}

TEST(Costs, OfRwapi) {
    const Counted counted;
    expect_charged(kRwapi.write, counted.both("write"));
    expect_charged(kRwapi.write_long, counted.both("write_1k"));
    expect_charged(kRwapi.notify, counted.both("repeat"));
    expect_charged(kRwapi.notify_copied, counted.both("repeat_1k"));
    expect_charged(kRwapi.notify_long, counted.both("repeat_4k"));
    expect_charged(kRwapi.set, counted.both("set"));
    expect_charged(kRwapi.set_apart, counted.both("set_apart"));
    expect_charged(kRwapi.set_copied, counted.both("set_1k"));
    expect_charged(kRwapi.set_long, counted.both("set_4k"));
    const double progress = counted.rwapi("progress"), look = counted.rwapi("look");
    expect_charged(kRwapi.poll, progress + counted.tern("blocks"));
    expect_charged(kRwapi.look, look);
    const double nothing = progress + counted.tern("poll_1");
    expect_taking(kRwapi.take, counted.both("take_repeat_1"), counted.both("take_repeats"),
                  nothing + look);
    // Tern's part does not depend on what the notification is.
    expect_taking(kRwapi.take_signal,
                  counted.rwapi("take_signal_1") + counted.tern("take_repeat_1"),
                  counted.rwapi("take_signal") + counted.tern("take_repeats"), nothing);
}

}  // namespace
}  // namespace bench::sim
