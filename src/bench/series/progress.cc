// SPDX-License-Identifier: BSD-3-Clause
#include "bench/series/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "bench/measure/clock.h"
#include "bench/report/text.h"

namespace bench {
namespace {

constexpr size_t kWidth = 79;  // of a terminal
constexpr uint64_t kOftenNs = 200'000'000;
constexpr uint64_t kSeldomNs = 10'000'000'000;
constexpr double kMinute = 60;

}  // namespace

std::string duration_text(double seconds) {
    if (!report::is_set(seconds)) return "unknown";
    if (seconds < 1.5 * kMinute) return report::formatted("%.0f s", seconds);
    return report::formatted("%.0f min", seconds / kMinute);
}

// On a terminal the first line is written at once.
Progress::Progress(uint32_t steps, bool elsewhere)
    : terminal_(::isatty(STDERR_FILENO) == 1),
      time_(steps),
      next_(terminal_   ? 0
            : elsewhere ? now_ns() + kSeldomNs
                        : std::numeric_limits<uint64_t>::max()) {}

void Progress::step(const std::string& what) {
    end();
    began_ = now_ns();
    under_way_ = true;
    if (began_ >= next_) show(what, began_);
}

void Progress::end() {
    if (std::exchange(under_way_, false)) time_.done(static_cast<double>(now_ns() - began_) / 1e9);
}

void Progress::show(const std::string& what, uint64_t now) {
    next_ = now + (terminal_ ? kOftenNs : kSeldomNs);
    const double left = time_.left();
    std::string text = "measuring: " + report::percent_text("%.0f %%", time_.share());
    if (report::is_set(left)) text += ", " + duration_text(left) + " left";
    text += ": " + what;
    if (terminal_) {
        text.resize(std::min(text.size(), kWidth));
        std::fprintf(stderr, "\r%-*s", static_cast<int>(kWidth), text.c_str());
        shown_ = true;
    } else {
        std::fprintf(stderr, "%s\n", text.c_str());
    }
}

void Progress::clear() {
    if (std::exchange(shown_, false)) std::fprintf(stderr, "\r%*s\r", static_cast<int>(kWidth), "");
}

}  // namespace bench
