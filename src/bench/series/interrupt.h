// SPDX-License-Identifier: BSD-3-Clause
// SIGINT and SIGTERM end a measurement, and what was measured before is kept.
#pragma once

#include <sys/types.h>

namespace bench {

// From now on, the first of these signals only sets interrupted(). One that comes a second later
// ends the process.
void watch_for_interrupts();

// Instead, from now on these signals are sent on to a process.
void forward_interrupts(pid_t process);

// The signal that came; 0: none.
int interrupted();

// Of a command that was interrupted, as shells have it.
constexpr int kExitSignal = 128;
// Of a command whose result lacks something.
constexpr int kExitIncomplete = 3;

}  // namespace bench
