// SPDX-License-Identifier: BSD-3-Clause
// Environment variables that make MPI libraries communicate by UCX.
#pragma once

namespace tools {

struct Variable {
    const char* name;
    const char* value;
};

// Distributions disable UCX in Open MPI. By default, Open MPI uses UCX only for a list of
// transports and devices. Windows in shared memory (MPI_Win_allocate_shared), which UCX does not
// offer, need `sm`; the priority, above that of `sm`, leaves all others to UCX.
constexpr Variable kOpenMpiOverUcx[] = {{"OMPI_MCA_pml", "ucx"},
                                        {"OMPI_MCA_osc", "ucx,sm"},
                                        {"OMPI_MCA_osc_ucx_priority", "200"},
                                        {"OMPI_MCA_opal_common_ucx_tls", "any"},
                                        {"OMPI_MCA_opal_common_ucx_devices", "any"}};

// MPICH that has several network modules takes the first one that it was built with.
constexpr Variable kMpichModule = {"MPIR_CVAR_CH4_NETMOD", "ucx"};

// Without this, MPICH connects the ranks of one machine by its own shared memory instead of UCX.
constexpr Variable kMpichOverUcx = {"MPIR_CVAR_NOLOCAL", "1"};

}  // namespace tools
