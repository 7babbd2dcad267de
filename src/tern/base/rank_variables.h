// SPDX-License-Identifier: BSD-3-Clause
// For C too.
#pragma once

// The variables in which launchers tell a process its rank: of Open MPI, PMIx, MPICH and Slurm;
// those that say most come first.
#define TERN_RANK_VARIABLES "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"

#ifdef __cplusplus
#include <array>
#include <cstdint>
#include <cstdlib>

namespace tern::base {

inline constexpr std::array kRankVariables = {TERN_RANK_VARIABLES};

// Variables that say how many ranks of the job the node has: of Open MPI, MPICH and Intel MPI,
// MVAPICH, Cray, PALS and Slurm. Those of the launcher that started the process come before those
// of the batch system around it.
inline constexpr std::array kLocalRanksVariables = {"OMPI_COMM_WORLD_LOCAL_SIZE",
                                                    "MPI_LOCALNRANKS",
                                                    "MV2_COMM_WORLD_LOCAL_SIZE",
                                                    "PMI_LOCAL_SIZE",
                                                    "PALS_LOCAL_SIZE",
                                                    "SLURM_NTASKS_PER_NODE"};
// 0: not known.
inline uint32_t local_ranks() {
    for (const char* variable : kLocalRanksVariables) {
        const char* const value = getenv(variable);
        if (value == nullptr) continue;
        char* end = nullptr;
        const unsigned long ranks = strtoul(value, &end, 10);
        if (end != value && *end == '\0' && ranks != 0 && ranks <= 1 << 16)
            return static_cast<uint32_t>(ranks);
    }
    return 0;
}

}  // namespace tern::base
#endif
