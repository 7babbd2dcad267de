// SPDX-License-Identifier: BSD-3-Clause
// The configurations that tern-bench compares: transports, protocols and the bare device.
#pragma once

#include <string>

#include "bench/series/series.h"
#include "bench/tern-bench/command.h"
#include "bench/tern-bench/toolchain.h"

namespace bench {

// Throws Failure if Tern is to be measured and its library is not found.
Setup make_setup(const Options& options);
// The measured software and the machine, as facts for the output.
Facts facts_of(const Options& options, const Setup& setup);

// What several commands share. Targets for Tern's ratio to rc_v: of times, at most; of bandwidths,
// at least.
constexpr double kTimeToVerbs = 1.05;
constexpr double kBandwidthToVerbs = 0.98;
constexpr uint32_t kTargetSize = 8;         // of short messages, for other targets
constexpr uint32_t kShort = 8 << 10;        // up to here, reading the clock each time would show
constexpr uint64_t kOrderBytes = 16 << 20;  // of an order, in each direction
constexpr uint32_t kBytesAtOnce = 4 << 20;  // of what is on its way at once, at most

// A series of the command's rounds, in a few starts.
Series make_series(const Options& options, const Setup& setup, int quick_rounds, int starts);

// Whether the device is a software HCA that copies shared and private memory in different ways. If
// so, a transport with shared buffers cannot be compared directly with one whose buffers are
// private.
bool shared_memory_differs(const Setup& setup);
constexpr const char* kSharedMemoryNote =
    "The software HCA copies into shared memory directly and into private memory by a system call. "
    "Tern's buffers are\n"
    "shared memory, rc_verbs's are private, and so are perftest's. \"private\" rows of Tern are "
    "measured with\n"
    "SOFTHCA_SHARED=off, which makes all memory private memory to the device: compare like with "
    "like.\n";

// Of the software HCA.
std::string device_profile();

Arm raw_arm(const char* memory);
// Long messages over verbs: "write", "register" or "copy", and the kind of memory.
Arm large_arm(const char* protocol, const char* memory);
Arm uct_arm(const std::string& transport);
// Tagged messages of UCP over one transport.
Arm ucp_arm(const std::string& transport);
// Puts and gets of UCP in the kind of memory.
Arm rma_arm(const std::string& transport, const char* memory);
// Notified writes of rwapi in the kind of memory.
Arm rwapi_arm(const std::string& transport, const char* memory);
// What a library of an MPI or OpenSHMEM does over a transport of UCP, in the kind of memory.
Arm shim_arm(const ShimLibrary& library, const std::string& transport, const std::string& memory);
// The name of what is compared with rc_v over UCP: rc_v is rc_verbs with the transports that UCP
// needs to connect it.
std::string ucp_name(const Options& options);
// The arm with changes to its environment and `name` appended to its name.
Arm with(Arm arm, const std::string& name, const Environment& environment);
// The arm on a device that treats all memory as private.
Arm in_private_memory(Arm arm);
// The arm without UCX's registration cache.
Arm uncached(Arm arm);
// The arm with UCP's rendezvous from 16 KiB on.
Arm rendezvous(Arm arm);

// Open the ports of these arms. Throw Failure.
std::unique_ptr<Port> open_uct_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_ucp_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_rma_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_rwapi_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_shim_port(Peer& peer, const WorkerJob& job);
std::unique_ptr<Port> open_large_port(Peer& peer, const WorkerJob& job);

}  // namespace bench
