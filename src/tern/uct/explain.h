// SPDX-License-Identifier: BSD-3-Clause
// What `tern-run` asks of the transport: whether it fits the UCX of the process, as each release
// and each way of configuring one may have other private structures; and what --check and --explain
// say. Control path.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "tern/loader/record.h"
#include "tern/verbs/port.h"

namespace tern {

// Returns whether the loaded UCX fits. Logs a misfit, but only once in a tree of processes.
bool ucx_fits();

// Whether the environment asks for records.
inline bool explains() {
    return tern_record_folder() != nullptr;
}

// Allocated only if the environment asks for records: stacks of a program's own may be small.
class ExplainRecord {
  public:
    explicit ExplainRecord(const char* event) {
        if (!explains()) return;
        record_ = std::make_unique<tern_record>();
        tern_record_begin(record_.get(), event);
    }
    ExplainRecord& add(const char* name, const std::string& text) {
        if (record_) tern_record_add(record_.get(), name, text.c_str());
        return *this;
    }
    ExplainRecord& add(const char* name, uint64_t number) {
        return add_json(name, std::to_string(number));
    }
    // A value that is JSON.
    ExplainRecord& add_json(const char* name, const std::string& json) {
        if (record_) tern_record_add_json(record_.get(), name, json.c_str());
        return *this;
    }
    // The value of an environment variable, if it is set.
    ExplainRecord& add_variable(const char* name, const char* variable) {
        if (record_) tern_record_add(record_.get(), name, getenv(variable));
        return *this;
    }
    void write() {
        if (record_) tern_record_write(record_.get());
    }

  private:
    std::unique_ptr<tern_record> record_;
};

// Why something is not used, and what to do about it.
struct Unused {
    std::string what;  // a device, or a device and its port
    std::string why;
    std::string remedy;  // may be empty
};

// Records what is not used, for the log of --explain and for last_unused().
void note_unused(const Unused& unused);
// The last one of this process.
Unused& last_unused();

// Has the log's lines about the lanes of endpoints recorded, for `tern-run --explain`.
void record_lanes();

// What a user does about a port; "" for kNone.
const char* advice(verbs::Remedy remedy);
constexpr const char* kRemedyOfAccess =
    "give the user access to /dev/infiniband; a container must be given the folder";
constexpr const char* kRemedyOfMemory =
    "raise the limit of locked memory (ulimit -l; in jobs also the batch system's limit)";

}  // namespace tern

// For commands that check this library before other programs load it. Returns the misfit, or null.
extern "C" __attribute__((visibility("default"))) const char* tern_misfit();

// A line of `tern-run --check`. `verdict`: 0 good, 1 good enough, 2 prevents the use of Tern; 3:
// `finding` is what Tern is better in here.
using tern_check_line_func_t = void (*)(void* argument, int verdict, const char* what,
                                        const char* finding, const char* remedy);

// Opens every device and port as UCX would, and says what it finds. The library must fit UCX.
extern "C" __attribute__((visibility("default"))) void tern_check(tern_check_line_func_t say,
                                                                  void* argument);
