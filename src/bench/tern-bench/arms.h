// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <vector>

#include "bench/tern-bench/arm.h"
#include "bench/tern-bench/options.h"
#include "bench/tern-bench/pair.h"

namespace bench {

// Whether the device is a software HCA that reaches shared memory in another way than private
// memory, so that transports whose buffers are shared and those whose are not cannot be compared as
// they are.
bool shared_memory_differs(const Setup& setup);
constexpr const char* kSharedMemoryNote =
    "The software HCA copies into shared memory directly and into private memory by a system call. "
    "Tern's buffers are\n"
    "shared memory, rc_verbs's are private, and so are perftest's. \"private\" rows of Tern are "
    "measured with\n"
    "SOFTHCA_SHARED=off, which makes all memory private memory to the device: compare like with "
    "like.\n";

Arm raw_arm(const char* memory);
// Long messages by verbs: "write", "register" or "copy", and kind of memory.
Arm large_arm(const char* protocol, const char* memory);
Arm probe_arm(const char* memory);
Arm uct_arm(const std::string& transport);
// `tls`: value of UCX_TLS.
Arm ucp_arm(const std::string& transport, const std::string& tls);
// The same in an environment with these besides; arms are known by their names.
Arm with(Arm arm, const std::string& name,
         const std::vector<std::pair<std::string, std::string>>& environment);
// The same where all memory is private memory to the device.
Arm in_private_memory(Arm arm);
// The same with UCX's registration cache off.
Arm uncached(Arm arm);
// The same with UCP's rendezvous from 16 KiB on.
Arm rendezvous(Arm arm);

}  // namespace bench
