// SPDX-License-Identifier: BSD-3-Clause
// Results as one page of HTML: ratios first, then charts and tables. The page needs nothing else,
// no script and no network, and the same results make the same page.
#pragma once

#include <string>
#include <vector>

#include "bench/results/stored.h"

namespace bench {

// `left_out` says which files are no results, and why.
std::string as_page(std::vector<StoredResult> results, const std::vector<std::string>& left_out);

}  // namespace bench
