// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace bench {

// Where there is no HCA: runs this command line again on a software HCA that nobody else is on,
// with a profile of its timing model if one is named.
// Returns its exit status. Throws Failure if a certain device was asked for, or there is
// no `softhca` command.
int run_on_own_device(const std::string& asked_for, const std::string& profile, char** argv);

}  // namespace bench
