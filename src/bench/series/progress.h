// SPDX-License-Identifier: BSD-3-Clause
// How far a measurement is, and how long it will take.
#pragma once

#include <cstdint>
#include <string>

#include "bench/report/statistics.h"

namespace bench {

// The time that is left of a number of steps. Each is taken for the mean of those that are done,
// which holds from the second round on, as all rounds have the same steps.
class TimeLeft {
  public:
    explicit TimeLeft(uint32_t steps) : left_(steps) {}
    // A step has taken this time.
    void done(double seconds) {
        drop();
        ++done_;
        seconds_ += seconds;
    }
    // A step will not come.
    void drop() { left_ -= left_ > 0 ? 1 : 0; }
    // In seconds; kNone before the first step.
    double left() const { return done_ == 0 ? report::kNone : left_ * (seconds_ / done_); }
    // What is done of the whole time, 0..1.
    double share() const { return done_ == 0 ? 0 : static_cast<double>(done_) / (done_ + left_); }

  private:
    uint32_t left_;
    uint32_t done_ = 0;
    double seconds_ = 0;
};

// "3 min", "20 s".
std::string duration_text(double seconds);

// Says on stderr what is measured, what share is done, and what time is left: on a terminal in one
// line, elsewhere in a line every few seconds.
class Progress {
  public:
    // `elsewhere`: also where stderr is no terminal.
    explicit Progress(uint32_t steps, bool elsewhere = true);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    // A step begins. The one before it, if there is one, has ended.
    void step(const std::string& what);
    // A step is left out.
    void drop() { time_.drop(); }
    // The last step has ended.
    void end();
    // Removes the line from the terminal, so that another one can be written.
    void clear();

  private:
    void show(const std::string& what, uint64_t now);

    const bool terminal_;
    TimeLeft time_;
    bool under_way_ = false;
    bool shown_ = false;
    uint64_t began_ = 0;
    uint64_t next_;
};

}  // namespace bench
