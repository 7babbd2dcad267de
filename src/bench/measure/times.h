// SPDX-License-Identifier: BSD-3-Clause
// Clocks, time limits for waiting, and the exception of a failed measurement. Samples of times,
// their summary, and a line through them.
#pragma once

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

// A measurement is impossible; the text gives the reason.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// The failure of a system or verbs call, with errno.
inline Failure call_failed(const std::string& what) {
    return Failure(what + ": " + std::strerror(errno));
}

// Numbers and short texts, as std::printf() formats them.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
    char text[256];
    std::snprintf(text, sizeof text, format, values...);
    return text;
}

inline uint64_t now_ns(clockid_t clock = CLOCK_MONOTONIC) {
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(time.tv_nsec);
}

// Microseconds since `begin`, a value of now_ns().
inline double us_since(uint64_t begin) {
    return static_cast<double>(now_ns() - begin) / 1000;
}

constexpr uint64_t kPatienceNs = 20'000'000'000;  // the longest wait for anything

// A time limit for a polling loop, which calls spend() in each turn. spend() throws Failure when
// the loop has lasted kPatienceNs. It is cheap because it seldom reads the clock.
class Patience {
  public:
    explicit Patience(const char* what) : what_(what) {}
    void spend() {
        if (++spent_ % kBetween != 0) return;
        const uint64_t now = now_ns();
        if (end_ == 0) end_ = now + kPatienceNs;
        if (now > end_) throw Failure(std::string("timed out waiting for ") + what_);
    }

  private:
    static constexpr uint32_t kBetween = 16384;
    const char* what_;
    uint32_t spent_ = 0;
    uint64_t end_ = 0;
};

// Calls idle() until done() is true. Throws Failure after kPatienceNs: `what` did not come.
template <typename Done, typename Idle>
void wait_until(const char* what, Done&& done, Idle&& idle) {
    for (Patience patience(what); !done(); patience.spend()) idle();
}

// Stands for a missing number.
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline bool is_set(double number) {
    return !std::isnan(number);
}

using Samples = std::vector<double>;

struct Summary {
    double median;
    double min;
    double p10;
    double p90;
    double max;
    uint64_t count;
};

// At least one sample is needed.
inline Summary summarize(Samples samples) {
    std::ranges::sort(samples);
    const auto quantile = [&](double share) {
        const double place = share * static_cast<double>(samples.size() - 1);
        return samples[static_cast<size_t>(std::lround(place))];
    };
    return {quantile(0.5), samples.front(), quantile(0.1),
            quantile(0.9), samples.back(),  samples.size()};
}
inline double median(Samples samples) {
    const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
    std::ranges::nth_element(samples, middle);
    return *middle;
}

// The time that an operation on `bytes` took, in seconds.
struct Timing {
    double bytes;
    double seconds;
};

struct Line {
    double constant = 0;   // seconds
    double bandwidth = 0;  // bytes per second
};

// Fits constant + bytes / bandwidth with the least relative errors. Neither is negative.
inline Line fit_line(const std::vector<Timing>& timings) {
    double ones = 0;
    double x = 0;
    double y = 0;
    double xx = 0;
    double xy = 0;
    for (const auto& [bytes, seconds] : timings) {
        const double weight = 1 / (seconds * seconds);
        ones += weight;
        x += weight * bytes;
        y += weight * seconds;
        xx += weight * bytes * bytes;
        xy += weight * bytes * seconds;
    }
    const double spread = ones * xx - x * x;
    const double slope = spread > 0 ? (ones * xy - x * y) / spread : 0;
    if (slope <= 0) return {y / ones, std::numeric_limits<double>::infinity()};
    const double constant = (y - slope * x) / ones;
    return constant < 0 ? Line{0, xx / xy} : Line{constant, 1 / slope};
}

}  // namespace bench
