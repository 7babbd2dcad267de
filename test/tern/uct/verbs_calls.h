// SPDX-License-Identifier: BSD-3-Clause
// The transport's calls of libibverbs, which come to this program first (wire_settings_test.cc).
#pragma once

#include <infiniband/verbs.h>

#include <atomic>

namespace uct_test {

// The context of the reliable queue pair whose state was changed last.
inline std::atomic<ibv_context*> last_context{nullptr};

}  // namespace uct_test
