// SPDX-License-Identifier: BSD-3-Clause
// How far a measurement is, and how long it will take.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bench {

// The time that is left of steps of several kinds. Steps of one kind take about the same time.
class TimeLeft {
  public:
    // Steps of a new kind. Returns its number.
    size_t add(uint32_t steps);
    // A step has taken this time.
    void done(size_t kind, double seconds);
    // No more steps of a kind will come.
    void drop(size_t kind) { kinds_.at(kind).left = 0; }
    // In seconds; kNone before the first step. Kinds of which nothing is known are taken for the
    // mean of the others.
    double left() const;
    // What is done of the whole time, 0..1.
    double share() const;

  private:
    struct Kind {
        uint32_t left = 0;
        uint32_t done = 0;
        double seconds = 0;
    };
    std::vector<Kind> kinds_;
};

// "3 min", "20 s".
std::string duration_text(double seconds);

// Says on stderr what is measured, what share is done, and what time is left: on a terminal in one
// line, elsewhere in a line every few seconds.
class Progress {
  public:
    // `elsewhere`: also where stderr is no terminal.
    explicit Progress(bool elsewhere = true);
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    TimeLeft& time() { return time_; }
    // A step of a kind begins. The one before it, if there is one, has ended.
    void step(size_t kind, const std::string& what);
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
    size_t kind_ = 0;
    uint64_t began_ = 0;
    uint64_t next_;
};

}  // namespace bench
