// SPDX-License-Identifier: BSD-3-Clause
// Where a known device departs from the specification: its tests are skipped there, with the
// reason.
#pragma once

namespace conformance {

// Skips, in the run that follows, the tests that the device under test is known to fail.
void skip_known_departures();

// Runs just those tests instead and prints TAP: each must fail. Returns the exit status.
int check_known_departures();

}  // namespace conformance
