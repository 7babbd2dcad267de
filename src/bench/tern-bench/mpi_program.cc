// SPDX-License-Identifier: BSD-3-Clause
#include "bench/tern-bench/mpi_program.h"

namespace bench {
namespace {

constexpr char kSource[] =
#include "bench/tern-bench/mpi_program.inc"
    ;

constexpr uint64_t kRunNs = 120'000'000'000;

}  // namespace

MpiProgram::MpiProgram(const Toolchain& mpi)
    : name_(mpi.name), launch_(mpi.launch()), program_(mpi, kSource) {}

std::string MpiProgram::run(const Words& arguments, Environment environment) const {
    const Environment all = over_ucx();
    environment.insert(environment.end(), all.begin(), all.end());
    Words command = launch_;
    command.push_back(program_.path());
    command.insert(command.end(), arguments.begin(), arguments.end());
    return output_of(name_, command, environment, {}, kRunNs);
}

}  // namespace bench
