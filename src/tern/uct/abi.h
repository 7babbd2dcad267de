// SPDX-License-Identifier: BSD-3-Clause
// Whether the UCX loaded into a process is the one that this library was built for: each release,
// and each way of configuring one, may have other private structures.
#pragma once

namespace tern {

// Returns whether the loaded UCX fits. Logs a misfit, but only once in a tree of processes.
bool ucx_fits();

}  // namespace tern

// For commands that check this library before other programs load it. Returns the misfit, or null.
extern "C" __attribute__((visibility("default"))) const char* tern_misfit();
