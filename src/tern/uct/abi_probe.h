// SPDX-License-Identifier: BSD-3-Clause
// Calls the loaded libuct, and looks what it calls of a transport's tables, and with which
// arguments. Vendors ship snapshots of UCX's development that carry the number of a release: their
// tables may have other members, and their functions other arguments.
#pragma once

namespace tern {

// What libuct does otherwise than that for which this library was built, or null.
const char* probe_uct();

}  // namespace tern
