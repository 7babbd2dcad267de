// SPDX-License-Identifier: BSD-3-Clause
// How a measurement ends that cannot be made.
#pragma once

#include <stdexcept>
#include <string>

namespace bench {

/// A measurement that cannot be made; the text says why.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// The failure of a system or verbs call, with errno.
Failure call_failed(const std::string& what);

}  // namespace bench
