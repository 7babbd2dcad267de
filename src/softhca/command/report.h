// SPDX-License-Identifier: BSD-3-Clause
// What `softhca status` prints of a fabric: a text, or JSON.
#pragma once

#include <string>

#include "softhca/inspect/fabric_view.h"

namespace softhca {

std::string status_text(const std::string& name, FabricView& fabric);
std::string status_json(const std::string& name, FabricView& fabric);

}  // namespace softhca
