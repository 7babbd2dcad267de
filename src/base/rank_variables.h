// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>

namespace tern::base {

// The variables in which launchers tell a process its rank: of Open MPI, PMIx, MPICH and Slurm;
// those that say most come first.
inline constexpr std::array kRankVariables = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                              "SLURM_PROCID"};

}  // namespace tern::base
