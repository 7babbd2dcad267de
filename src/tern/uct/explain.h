// SPDX-License-Identifier: BSD-3-Clause
// What `tern-run --explain` and `tern-run --check` ask of the transport. Control path.
#pragma once

#include <string>

#include "tern/base/explain_record.h"
#include "tern/verbs/port.h"

namespace tern {

using base::ExplainRecord;
using base::explains;

// Why something is not used, and what to do about it.
struct Unused {
    std::string what;  // a device, or a device and its port
    std::string why;
    std::string remedy;  // may be empty
};

// Records what is not used, for the log of --explain and for last_unused().
void note_unused(const Unused& unused);
// The last one of this process.
const Unused& last_unused();

// Has the log's lines about the lanes of endpoints recorded, for `tern-run --explain`.
void record_lanes();

// What a user does about a port; "" for kNone.
const char* advice(verbs::Remedy remedy);
constexpr const char* kRemedyOfAccess =
    "give the user access to /dev/infiniband; a container must be given the folder";
constexpr const char* kRemedyOfMemory =
    "raise the limit of locked memory (ulimit -l; in jobs also the batch system's limit)";

}  // namespace tern

// A line of `tern-run --check`. `verdict`: 0 good, 1 good enough, 2 prevents the use of Tern; 3:
// `finding` is what Tern is better in here.
using tern_check_line_func_t = void (*)(void* argument, int verdict, const char* what,
                                        const char* finding, const char* remedy);

// Opens every device and port as UCX would, and says what it finds. The library must fit UCX.
extern "C" __attribute__((visibility("default"))) void tern_check(tern_check_line_func_t say,
                                                                  void* argument);
