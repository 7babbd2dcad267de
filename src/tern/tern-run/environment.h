// SPDX-License-Identifier: BSD-3-Clause
// The environment variables that a command needs to run over Tern, with or without the software
// HCA.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "tern/loader/releases.h"

namespace tern {

// Changes the environment of this process, and remembers the variables of interest.
class Environment {
  public:
    // Sets a variable unless it is set already.
    void set_default(const std::string& name, const std::string& value);
    void set(const std::string& name, const std::string& value);
    // Puts `path` before a list with colons, unless the list has it already.
    void add_path(const std::string& name, const std::string& path);
    // Prints the variables to standard error, one on each line, as NAME=value.
    void print() const;

  private:
    void remember(const std::string& name);

    std::vector<std::string> names_;
};

// The transport, loaded into this process with the UCX that programs would get.
struct Transport {
    // Throws if the library cannot be found or loaded.
    static Transport load();
    template <typename Function>
    Function* function(const char* name) const {
        return reinterpret_cast<Function*>(::dlsym(handle_, name));
    }

    std::string path;        // of the library that programs load
    tern_releases releases;  // of UCX that it serves
    std::string misfit;      // why it does not fit that UCX; empty if it does
    std::string ucx_version;
    std::string ucx_path;
    // All these releases load it as a plug-in. Where there is an older one, it is preloaded, which
    // works with each.
    bool plug_in = false;
    std::string transports;  // the default of UCX_TLS
    std::string only;        // and without shared memory between the processes of a machine

  private:
    bool is_tern() const;

    void* handle_ = nullptr;
};

// This process's rank, if a launcher has started it.
bool is_rank(bool* first);
// Not another rank of a job, which would say once more what the first one says.
bool is_first_rank();

// The device of the MPICH in PATH, "ch4:ofi,ucx" for example; empty: there is none.
std::string mpich_device();
bool has_module(const std::string& device, const std::string& module);

// Sets the variables that make stock UCX, Open MPI and MPICH use the transport's library. Warns if
// none fits the installed UCX. Returns whether that UCX loads the library as a plug-in.
// `only`: without shared memory, so that processes of a machine use Tern too.
bool set_up_tern(Environment* environment, bool only);

// Sets the variables that `softhca env` prints. An empty profile: that of the environment. Returns
// the exit status of softhca, which prints its own errors.
int set_up_soft_hca(Environment* environment, const std::string& profile);

// Whether the software HCA has a profile of this name.
bool is_profile(const std::string& name);

}  // namespace tern
