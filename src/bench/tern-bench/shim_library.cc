// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/shim_library.h"

namespace bench {
namespace {

constexpr char kMpiSource[] =
#include "bench/tern-bench/mpi_shim.inc"
    ;
constexpr char kOpenShmemSource[] =
#include "bench/tern-bench/shmem_shim.inc"
    ;

}  // namespace

std::deque<ShimLibrary> compile_shims(std::string* notes) {
    std::deque<ShimLibrary> libraries;
    const auto add = [&](const Toolchain& toolchain, bool has_messages, const char* source) {
        if (toolchain.installed()) {
            libraries.push_back(
                {toolchain, has_messages, Compiled(toolchain, source, {"-shared", "-fPIC"})});
        } else {
            *notes += left_out_text(toolchain);
        }
    };
    for (const Toolchain& mpi : find_mpis()) add(mpi, true, kMpiSource);
    add(find_openshmem(), false, kOpenShmemSource);
    return libraries;
}

}  // namespace bench
