// SPDX-License-Identifier: BSD-3-Clause
// The MPI and OpenSHMEM libraries of this machine, and what a benchmark compiles with them when it
// runs.
#pragma once

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "bench/series/process.h"

namespace bench {

struct Toolchain {
    std::string name;
    std::string compiler;  // paths of its commands; empty: not installed
    std::string launcher;

    bool installed() const { return !compiler.empty() && !launcher.empty(); }
    // The words before a command that run two processes of it.
    Words launch() const { return {launcher, "-np", "2"}; }
};

// The changes to the environment with which all of them have no other way between their processes
// than UCX.
Environment over_ucx();

// A file in memory, without a name: nothing is left behind, however this process ends.
class MemoryFile {
  public:
    explicit MemoryFile(const std::string& text = {});
    ~MemoryFile();
    MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    MemoryFile& operator=(MemoryFile&&) = delete;

    int fd() const { return fd_; }
    // For the processes of this machine while this object lives.
    std::string path() const;
    std::string text() const;

  private:
    int fd_;
};

// A library (shim.h) of one of them.
struct ShimLibrary {
    Toolchain toolchain;
    bool has_messages;
    MemoryFile file;
};
// Compiles one with each that is installed. Adds a line to *notes for each that is not. Throws
// Failure with the errors of a compiler.
std::deque<ShimLibrary> compile_mpi_shims(std::string* notes);
std::deque<ShimLibrary> compile_shims(std::string* notes);  // of OpenSHMEM too

}  // namespace bench
