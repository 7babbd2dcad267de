// SPDX-License-Identifier: BSD-3-Clause
// The transports of UCX that programs use beside Tern: the process to itself, and those that know
// the memory of GPUs.
#pragma once

#include <string>

namespace tern {

// The value of UCX_TLS for UCX `major`.`minor`, whose modules are in `module_folder` or in
// UCX_MODULE_DIR. Without a transport that detects a GPU's memory, UCP takes it for the host's.
// From 1.18 on, it is a list of what is not used, which leaves every such transport: UCX then does
// not warn of names that it does not have. For older releases it names the kinds of GPU whose
// module can be loaded here.
std::string default_transports(unsigned major, unsigned minor, const std::string& module_folder);

}  // namespace tern
