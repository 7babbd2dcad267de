// SPDX-License-Identifier: BSD-3-Clause
// The MPI and OpenSHMEM libraries of this machine, and what is compiled with them.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "bench/measure/clock.h"
#include "bench/tern-bench/command.h"
#include "common/mpi.h"

namespace bench {
namespace {

constexpr char kMpiSource[] =
#include "bench/tern-bench/mpi_shim.inc"
    ;
constexpr char kOpenShmemSource[] =
#include "bench/tern-bench/shmem_shim.inc"
    ;

constexpr uint64_t kCompileNs = 60'000'000'000;
constexpr size_t kShownLines = 15;  // of the output of what failed

// The path of a command; empty: not in PATH.
std::string find_command(const std::string& name) {
    const char* list = std::getenv("PATH");
    std::istringstream folders(list != nullptr ? list : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
        if (!folder.starts_with('/')) continue;
        folder.append("/").append(name);
        if (::access(folder.c_str(), X_OK) == 0) return folder;
    }
    return {};
}

std::string last_lines(const std::string& text) {
    size_t begin = text.size();
    for (size_t i = 0; i <= kShownLines && begin != std::string::npos; ++i)
        begin = begin == 0 ? std::string::npos : text.rfind('\n', begin - 1);
    return begin == std::string::npos ? text : text.substr(begin + 1);
}

Toolchain find(const char* name, const std::string& compiler, const std::string& launcher) {
    return {name, find_command(compiler), find_command(launcher)};
}

// Compiles a library. Throws Failure with the end of the compiler's output if it fails or takes too
// long.
MemoryFile compile(const Toolchain& toolchain, const char* source) {
    const MemoryFile in(source);
    const MemoryFile out;
    MemoryFile library;
    // Other linkers than ld.bfd make a new file beside the one that they are to write.
    Process process({toolchain.compiler, "-std=gnu11", "-O2", "-o", library.path(), "-shared",
                     "-fPIC", "-fuse-ld=bfd", "-x", "c", "-"},
                    {{"LD_PRELOAD", ""}}, {in.fd(), out.fd()});
    const std::optional<int> status = process.wait_for(kCompileNs);
    if (status == 0) return library;
    throw Failure(toolchain.compiler + (status ? " failed" : " took too long") + ":\n" +
                  last_lines(out.text()));
}

void add_shim(std::deque<ShimLibrary>* libraries, std::string* notes, const Toolchain& toolchain,
              bool has_messages, const char* source) {
    if (toolchain.installed()) {
        libraries->push_back({toolchain, has_messages, compile(toolchain, source)});
    } else {
        *notes += toolchain.name + " is left out: its compiler and its launcher are not in PATH.\n";
    }
}

// Open MPI and MPICH by the names that Debian gives their commands; `mpicc` and `mpirun` if there
// is neither. Those that are not installed are included.
std::vector<Toolchain> find_mpis() {
    std::vector<Toolchain> mpis = {find("Open MPI", "mpicc.openmpi", "mpirun.openmpi"),
                                   find("MPICH", "mpicc.mpich", "mpirun.mpich")};
    if (std::ranges::any_of(mpis, &Toolchain::installed)) return mpis;
    const Toolchain any = find("MPI", "mpicc", "mpirun");
    return any.installed() ? std::vector{any} : mpis;
}

}  // namespace

std::deque<ShimLibrary> compile_shims(std::string* notes) {
    std::deque<ShimLibrary> libraries;
    for (const Toolchain& mpi : find_mpis()) add_shim(&libraries, notes, mpi, true, kMpiSource);
    add_shim(&libraries, notes, find("OpenSHMEM", "oshcc", "oshrun"), false, kOpenShmemSource);
    return libraries;
}

Environment over_ucx() {
    Environment environment;
    for (const auto& [name, value] : tools::kOpenMpiOverUcx) environment.emplace_back(name, value);
    environment.insert(environment.end(), {{tools::kMpichOverUcx.name, tools::kMpichOverUcx.value},
                                           {"OMPI_MCA_btl", "self"},
                                           // The processes choose their CPUs.
                                           {"OMPI_MCA_hwloc_base_binding_policy", "none"},
                                           {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
                                           {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                           {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
    return environment;
}

}  // namespace bench
