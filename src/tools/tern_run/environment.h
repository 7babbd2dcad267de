// SPDX-License-Identifier: BSD-3-Clause
// The variables that a command needs to run over Tern, on the software HCA or not.
#pragma once

#include <string>
#include <vector>

namespace tern {

// Changes the environment of this process and remembers which variables matter.
class Environment {
  public:
    // Sets a variable that the user has left unset.
    void set_default(const std::string& name, const std::string& value);
    void set(const std::string& name, const std::string& value);
    // Puts `path` into a list with colons, unless it is there.
    void add_path(const std::string& name, const std::string& path);
    // Prints them to standard error, one to a line, as a shell would set them.
    void print() const;

  private:
    void mention(const std::string& name);

    std::vector<std::string> names_;
};

// The transport's library, and all that stock UCX, Open MPI and MPICH need to use it. Throws if
// there is none that fits the UCX that is found here.
void set_up_tern(Environment* environment);

// The software HCA, as the command softhca says, and what is useful in addition where nothing but
// this machine connects the processes. An empty profile leaves it to the environment. Returns the
// exit status of softhca, which has said what is wrong.
int set_up_soft_hca(Environment* environment, const std::string& profile);

// Whether the software HCA has that profile.
bool is_profile(const std::string& name);

}  // namespace tern
