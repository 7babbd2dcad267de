// SPDX-License-Identifier: BSD-3-Clause
// The result, for people and for programs.
#pragma once

#include <string>
#include <vector>

#include "bench/softhca-bench/row.h"

namespace softhca::bench {

/// The rows of one section.
std::string as_table(const std::vector<Row>& rows);

/// Everything as one JSON object; `facts` is of texts, the key first.
std::string as_json(const std::vector<std::pair<std::string, std::string>>& facts,
                    const std::vector<Row>& rows);

}  // namespace softhca::bench
