// SPDX-License-Identifier: BSD-3-Clause
// The environment variables that a command needs to run over Tern, with or without the software
// HCA.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tern/loader/releases.h"

namespace tern {

// What a value of UCX_TLS means for Tern.
// Calls `visit` with each transport of the list, without what UCX takes for "exactly this" and "as
// a helper" (\rc, ud:aux).
template <typename Visit>
void for_each_transport(std::string_view list, Visit&& visit) {
    while (!list.empty()) {
        const size_t end = std::min(list.find(','), list.size());
        std::string_view name = list.substr(0, end);
        if (name.starts_with('\\')) name.remove_prefix(1);
        visit(name.substr(0, name.find(':')));
        list.remove_prefix(std::min(end + 1, list.size()));
    }
}

// What a list of transports lets UCX use.
struct TransportList {
    explicit TransportList(std::string_view list) {
        // An empty list is the default of tern-run.
        const bool all_but = list.starts_with('^');
        bool all = list.empty();
        bool tern = false, tcp = false, ib = false, others = false;
        for_each_transport(list.substr(all_but ? 1 : 0), [&](std::string_view name) {
            all |= name == "all";
            tern |= name == "tern";
            ib |= name == "ib";
            tcp |= name == "tcp";
            const bool all_shared = is_any_of(name, {"sm", "shm"});
            const bool shared =
                all_shared || is_any_of(name, {"mm", "posix", "sysv", "cma", "knem", "xpmem"});
            shared_memory |= all_but ? all_shared : shared;
            others |= !shared && !is_any_of(name, {"tern", "self", "gdr_copy"}) &&
                      !name.starts_with("cuda") && !name.starts_with("rocm") &&
                      !name.starts_with("ze");
        });
        names_tern = all_but ? !all && !tern : all || tern;
        networks = all_but ? !(ib && tcp) : others;
        shared_memory = list.empty() || list == "all" || all_but != shared_memory;
    }

    bool names_tern = false;
    bool networks = false;       // another transport to other machines
    bool shared_memory = false;  // between the processes of a machine

  private:
    static bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, name) != names.end();
    }
};

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

// `tern-run --check`: whether this machine can run programs over Tern, and what to do if not.
// Prints a line for each thing that matters, and what to do about what is not good. `program`: one
// that is to be run over Tern; empty: none. `only`: see set_up_tern(). Returns the exit status: 0,
// or 1 if something prevents the use of Tern.
int check(const std::string& program, bool only);

}  // namespace tern
