// SPDX-License-Identifier: BSD-3-Clause
// What tern-bench compares: transports, protocols and the bare device.
#pragma once

#include <string>

#include "bench/series/figure.h"
#include "bench/series/worker.h"
#include "bench/tern-bench/command.h"

namespace bench {

// Throws Failure if there is no device or, unless another transport is measured, no Tern.
Setup make_setup(const Options& options);
// What was measured where.
Facts facts_of(const Options& options, const Setup& setup);

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
Arm uct_arm(const std::string& transport);
// `tls`: value of UCX_TLS.
Arm ucp_arm(const std::string& transport, const std::string& tls);
// The same in an environment with these besides; arms are known by their names.
Arm with(Arm arm, const std::string& name, const Environment& environment);
// The same where all memory is private memory to the device.
Arm in_private_memory(Arm arm);
// The same with UCX's registration cache off.
Arm uncached(Arm arm);
// The same with UCP's rendezvous from 16 KiB on.
Arm rendezvous(Arm arm);

// What the workers open for them. Throw Failure.
std::unique_ptr<Port> open_uct_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_ucp_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_large_port(Peer& peer, const WorkerJob& job);

}  // namespace bench
