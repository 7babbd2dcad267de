// SPDX-License-Identifier: BSD-3-Clause
// Known devices that depart from the specification. The tests that fail on such a device are
// skipped there, with a reason.
#pragma once

namespace conformance {

// Skips the tests that the device under test is known to fail. Call before RUN_ALL_TESTS.
void skip_known_departures();

// Runs only those tests and prints TAP; every test must fail. Returns the exit status.
int check_known_departures();

}  // namespace conformance
