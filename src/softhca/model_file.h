// SPDX-License-Identifier: BSD-3-Clause
// The value of SOFTHCA_MODEL, which may name a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "softhca/core/nic_parameters.h"

namespace softhca {

// Applies [@FILE,][PARAMETER=VALUE,...]. A model file (core/nic_profiles.h) takes the place of all
// parameters, and of the personality of the adapter. On error, returns a text that names the
// choices, and changes nothing.
std::optional<std::string> apply_model(std::string_view value, NicParameters& nic,
                                       std::string& personality);

}  // namespace softhca
