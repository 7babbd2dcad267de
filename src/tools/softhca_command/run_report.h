// SPDX-License-Identifier: BSD-3-Clause
// `softhca run --report`: stays in the fabric while the command runs, and then shows what happened.
#pragma once

#include "settings.h"

namespace softhca {

/// Runs the command and prints the fabric's report to standard error; the command's exit status.
int run_with_report(const Settings& settings, char** command);

}  // namespace softhca
