// SPDX-License-Identifier: BSD-3-Clause
// Start-up by PMI-1 over a TCP port: mpiexec.hydra -pmi-port. PMI_PORT has the launcher's host and
// port, PMI_ID says which process this is; the launcher tells rank and size.
#pragma once

#include <memory>

#include "rwapi/bootstrap/launcher.h"

namespace rwapi {

// Whether the environment names a launcher's port. Programs of other launchers may inherit it.
bool pmi1_port_offered();
// Null: it failed, and has said why.
std::unique_ptr<Launcher> connect_pmi1_port();

}  // namespace rwapi
