// SPDX-License-Identifier: BSD-3-Clause
// Text in aligned columns.
#pragma once

#include <string>
#include <vector>

namespace bench {

using Cells = std::vector<std::string>;

/// The lines under one another; the first one holds the titles, and a column of nothing but its
/// title is left out. `layout` says how each column is aligned: 'l' or 'r'.
std::string in_columns(const std::vector<Cells>& lines, const char* layout);

/// With as many decimals as are worth reading; empty for kNone.
std::string number_text(double value);

}  // namespace bench
