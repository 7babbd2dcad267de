// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMI-1 over a TCP port: mpiexec.hydra -pmi-port. PMI_PORT has the launcher's host and
// port, and PMI_ID the number of the process. The rank and size are requested from the launcher.
#pragma once

#include <memory>

#include "rwapi/bootstrap/launcher.h"

namespace rwapi {

// Whether the environment names a launcher's port, which may be inherited from an outer launcher.
bool pmi1_port_offered();
// Null: it has failed, which has been logged.
std::unique_ptr<Launcher> connect_pmi1_port();

}  // namespace rwapi
