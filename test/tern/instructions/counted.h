// SPDX-License-Identifier: BSD-3-Clause
// What the parts of tern-instructions share. Each part brings the two ends of a connection, both in
// this process and on this thread, into the state that is measured, and then takes samples.
#pragma once

#include <functional>
#include <string>

namespace instructions {

using Step = std::function<void()>;

// Defines sample_NAME(), which calls `operation` `times` times. callgrind counts the instructions
// of each call of it on its own, and writes them to a file (tern/tern_instructions.sh).
#define INSTRUCTIONS_SAMPLE(name)                                                \
    extern "C" [[gnu::noinline, gnu::used]] void sample_##name(                  \
        unsigned times, const instructions::Step& operation) {                   \
        for (unsigned i = 0; i < times; ++i) operation();                        \
        asm volatile("" ::: "memory"); /* no tail call: callgrind sees it end */ \
    }

// Ends the program, with an error.
[[noreturn]] void fail(const std::string& what);
void require(bool condition, const char* what);

// Repeats `step` until `condition` holds; fails after some seconds.
void until(const std::function<bool()>& condition, const Step& step, const char* what);

constexpr unsigned kSamples = 20;

void messages();   // short active messages and atomics of UCT
void batches();    // active messages that go together
void polls();      // polls that find nothing
void one_sided();  // puts and gets of UCP
void notified();   // notified writes of rwapi
void repeated();   // the same, if they repeat others

}  // namespace instructions
