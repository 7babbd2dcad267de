// SPDX-License-Identifier: BSD-3-Clause
// The releases of UCX that an installation has transports for. Each has a folder of its own.
#pragma once

#include <string>
#include <vector>

namespace tern::loader {

// The path of the transport for a release ("1.13.1"), in an installation's folder.
std::string transport_path(const std::string& folder, const std::string& release);

// The releases in an installation's folder, the oldest first.
std::vector<std::string> releases_in(const std::string& folder);

// "1.13.1, 1.18.1 and 1.22.0".
std::string text_of(const std::vector<std::string>& releases);

// A line that says why there is none for UCX `loaded`, and what to do.
std::string misfit(const std::vector<std::string>& releases, const std::string& loaded);

}  // namespace tern::loader
