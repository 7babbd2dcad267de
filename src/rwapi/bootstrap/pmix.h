// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMIx: Open MPI's mpirun, prterun, Slurm.
#pragma once

#include <memory>

#include "rwapi/bootstrap/launcher.h"

namespace rwapi {

// Whether a PMIx launcher has started this process.
bool pmix_offered();
// Null: it has failed, which has been logged.
std::unique_ptr<Launcher> connect_pmix();

}  // namespace rwapi
