// SPDX-License-Identifier: BSD-3-Clause
// The variables that a command needs to run over Tern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// Changes the environment of this process and remembers which variables matter.
class Environment {
  public:
    /// Sets a variable that the user has left unset.
    void set_default(const char* name, const char* value);
    /// Puts `path` into a list with colons, unless it is there.
    void add_path(const char* name, const std::string& path);
    /// Has a variable printed that somebody else sets.
    void mention(const char* name);
    /// Prints them to standard error, one to a line, as a shell would set them.
    void print() const;

  private:
    std::vector<const char*> names_;
};

/// All that stock UCX, Open MPI and MPICH need. `library` is the path of the transport, `plug_in`
/// says that UCX is new enough to load it itself.
void set_up_tern(Environment* environment, const std::string& library, bool plug_in);

/// What is useful in addition where the software HCA, and so nothing but this machine, connects the
/// processes.
void set_up_one_machine(Environment* environment);

}  // namespace tern
