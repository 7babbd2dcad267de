// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMIx: Open MPI's mpirun, prterun, Slurm.
#pragma once

#include <memory>

#include "rwapi/bootstrap/launcher.h"

namespace rwapi {

// Whether the environment is that of a process that a PMIx launcher has started.
bool pmix_offered();
// Null: it failed, and has said why.
std::unique_ptr<Launcher> connect_pmix();

}  // namespace rwapi
